"""The blocks of a text: headings, paragraphs, lists and tables, by its lines alone.

A reader leaves an empty line between blocks and a line for each item and each row. The text says no more, so what
looks like a heading is one: a short line without an end of a sentence, above something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

ITEM: Final = r"[ \t]*(?:[-*\u2022\u2023\u25aa\u25cf\u2013]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]"
"""The beginning of an item of a list."""
MAX_HEADING_CHARACTERS: Final = 120
_GAP = re.compile(r"\n[ \t]*\n\s*")
_ITEM = re.compile(ITEM)
_COLUMNS = re.compile(r"\S(?:\t+| {2,}| \| )[ ]*\S")
_NO_HEADING = tuple(".!?:;,\u2026\u3002\uff01\uff1f\u061f\u0964")
_TABLE_SHARE: Final = 2
"""A table has columns in at least one line of so many."""


class BlockKind(Enum):
    """Kind of a block. ``LIST`` and ``TABLE`` are quoted whole."""

    HEADING = "heading"
    LIST = "list"
    PARAGRAPH = "paragraph"
    TABLE = "table"

    @property
    def whole(self) -> bool:
        """True if a part of it says something else than all of it."""
        return self in {BlockKind.LIST, BlockKind.TABLE}


@dataclass(frozen=True, slots=True)
class Block:
    """A block, by its place in the text; without the white space around it."""

    start: int
    end: int
    kind: BlockKind


def blocks(text: str) -> list[Block]:
    """Return the blocks of a text, in order. Together they hold all that is no white space."""
    found: list[Block] = []
    chunks = list(_chunks(text))
    for place, (start, end) in enumerate(chunks):
        after = chunks[place + 1 : place + 2]
        before = found[-1] if found else None
        in_list = before is not None and before.kind is BlockKind.LIST
        kind = _kind(text[start:end], followed=text[after[0][0] : after[0][1]] if after else None, in_list=in_list)
        if before is not None and _continues(text, before, kind):
            found[-1] = Block(before.start, end, kind)
        else:
            found.append(Block(start, end, kind))
    return found


def _chunks(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end, after in [*((gap.start(), gap.end()) for gap in _GAP.finditer(text)), (len(text), len(text))]:
        piece = text[start:end]
        left, right = len(piece) - len(piece.lstrip()), len(piece.rstrip())
        if left < right:
            yield start + left, start + right
        start = after


def _continues(text: str, before: Block, kind: BlockKind) -> bool:
    """Return true if a block belongs to the one before: a list with its introduction, or with its next item."""
    if not kind.whole:
        return False
    return before.kind is kind or (before.kind is BlockKind.PARAGRAPH and text[before.end - 1] == ":")


def _kind(chunk: str, *, followed: str | None, in_list: bool) -> BlockKind:
    lines = chunk.split("\n")
    items = [_ITEM.match(line) is not None for line in lines]
    if len(lines) > 1 and any(items):
        return BlockKind.LIST
    if items[0]:
        return BlockKind.HEADING if not in_list and _numbered_heading(chunk, followed) else BlockKind.LIST
    if len(lines) > 1 and _is_table(lines):
        return BlockKind.TABLE
    return BlockKind.HEADING if followed is not None and _is_heading(chunk) else BlockKind.PARAGRAPH


def _numbered_heading(line: str, followed: str | None) -> bool:
    """Return true for ``3. Deposit`` above something that is no item."""
    if followed is None or not line.lstrip()[:1].isalnum():
        return False
    return _is_heading(line) and _ITEM.match(followed) is None


def _is_heading(chunk: str) -> bool:
    short = len(chunk) <= MAX_HEADING_CHARACTERS and "\n" not in chunk
    return short and not chunk.endswith(_NO_HEADING) and _COLUMNS.search(chunk) is None


def _is_table(lines: Sequence[str]) -> bool:
    return sum(_COLUMNS.search(line) is not None for line in lines) * _TABLE_SHARE >= len(lines)
