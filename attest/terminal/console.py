"""The console for people: rich, imported only here, set up from the options and the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import NoReturn, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attest.terminal.boundary import ReaderGoneError
from attest.terminal.display import Display
from attest.terminal.visible_text import visible

WIDTH_OF_A_FILE = 200
"""The width without a terminal: enough for every value of a report in one piece, so that output can be searched."""

SIGNS = {
    "pass": ("✓", "+", "green"),
    "fail": ("✗", "x", "bold red"),
    "warning": ("!", "!", "bold yellow"),
    "not evaluated": ("–", "-", "yellow"),
}
"""Outcome to its sign, the sign where only ASCII prints, and its colour. The word always stands beside it."""


def text_console(display: Display) -> Console:
    """Make a console on standard output. NO_COLOR counts when it is not empty (no-color.org)."""
    terminal = sys.stdout.isatty()
    refused = display.no_colour or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    colour = terminal and not refused
    wide = not terminal and not os.environ.get("COLUMNS", "").isdigit()
    return _Console(
        file=cast("TextIO", _Trimmed(sys.stdout)),  # the part of it that rich uses
        color_system="standard" if colour else None,
        force_terminal=colour,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
        width=WIDTH_OF_A_FILE if wide else None,
    )


class _Console(Console):
    """Raise instead of rich's exit 1 when the reader goes away: 1 means not affirmed here."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the boundary."""
        raise ReaderGoneError


class _Trimmed:
    """Standard output without the blanks with which tables fill their lines: they would wrap, and copy badly."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding or "ascii"

    def write(self, text: str) -> int:
        self._file.write(_TRAILING.sub("\n", text))
        return len(text)

    def flush(self) -> None:
        self._file.flush()

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()


_TRAILING = re.compile(r" +\n")


def plain(text: object, style: str = "") -> Text:
    """Make text of anything: harmless, wrapped at any character when it must be, never cut."""
    return Text(visible(str(text)), style=style, overflow="fold")


def sign(outcome: str, *, encoding: str) -> Text:
    """Write an outcome as sign and word."""
    pretty, ascii_sign, style = SIGNS.get(outcome, ("?", "?", "bold red"))
    mark = pretty if encoding.lower().replace("-", "").startswith("utf") else ascii_sign
    return Text(f"{mark} {visible(outcome)}", style=style)


def facts(rows: Iterable[tuple[str, RenderableType]], *, indent: int = 2) -> Table:
    """Lay out names and values in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(" " * indent + visible(name), style="dim"), value)
    return table


def banner(lines: Iterable[str], *, style: str) -> Group:
    """Write lines that stand out."""
    return Group(*(plain(f"*** {line} ***", style) for line in lines))
