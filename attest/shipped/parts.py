"""One part of a page: the section below a heading, or the row of a check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_ROW: Final = re.compile(r'^\| <a id="(?P<anchor>[^"]+)"></a>(?P<cells>.+) \|$')
_HEADING: Final = re.compile(r"^(?P<level>#+) +(?P<title>.+)$")
_INTEL: Final = ("tdx.", "sgx.")
"""Checks of Intel's quotes have one row for both, with ``intel.`` in its name."""


def part_of(text: str, anchor: str) -> str | None:
    """Return the part of a page at an anchor, or None.

    A row becomes a list with the headings of its table. A check without a row of its own has the one whose name its id
    begins with.
    """
    return _section(text, anchor) or _row(text, anchor)


def heading_anchor(title: str) -> str:
    """Return the name of a heading, as links to it spell it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _section(text: str, anchor: str) -> str | None:
    lines: list[str] = []
    level = 0
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None and level and len(heading["level"]) <= level:
            break
        if heading is not None and not level and heading_anchor(heading["title"]) == anchor:
            level = len(heading["level"])
        if level:
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n" if lines else None


def _row(text: str, check_id: str) -> str | None:
    """Return the row that fits best: of this name, or of the longest beginning."""
    fitting = [row for row in _rows(text) if row.explains(check_id)]
    if not fitting:
        return None
    cells = max(fitting, key=lambda row: len(row.name)).cells
    return f"# {check_id}\n\n" + "".join(f"- **{title}**: {cell}\n" for title, cell in cells.items())


class _Row(NamedTuple):
    """A check of the page; its name ends with a dot if it is the beginning of ids."""

    name: str
    cells: Mapping[str, str]

    def explains(self, check_id: str) -> bool:
        """Return True if the row is about this check."""
        names = {check_id} | {f"intel.{check_id.removeprefix(kind)}" for kind in _INTEL if check_id.startswith(kind)}
        return self.name in names or (self.name.endswith(".") and check_id.startswith(self.name))


def _rows(text: str) -> Iterator[_Row]:
    titles: list[str] = []
    for line in text.splitlines():
        if line.startswith("| Check |"):
            titles = [cell.strip() for cell in line.strip("|").split("|")][1:]
        elif (row := _ROW.match(line)) is not None:
            cells = row["cells"].split(" | ")[1:]
            yield _Row(row["anchor"].removesuffix("NAME"), dict(zip(titles, cells, strict=True)))
