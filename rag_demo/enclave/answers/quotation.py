"""Quotable parts of a passage: units that stand on their own, and stretches of text that hold them.

A unit is a sentence of a paragraph, or a whole list or table. Units that follow each other are quoted as one stretch,
with their heading if it is right above them. Between two stretches of a passage stands a mark for what is left out.
So no two sentences ever stand side by side that do not in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rag_demo.enclave.documents.blocks import Block, BlockKind, blocks

SentenceSpans = Callable[[str, str], Iterable[tuple[int, int]]]
"""Function from a text and its language to the spans of its sentences; ``documents.sentences`` has one."""

LEFT_OUT: Final = "[\u2026]"
"""Mark for text of the passage between two stretches."""
LEAST_GAP: Final = 1
"""Units between two chosen ones of a paragraph that are quoted with them instead of left out."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a passage that can be quoted on its own.

    Attributes:
        start, end: its place in the text of the passage.
        block: number of the block it is in.
    """

    start: int
    end: int
    block: int


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """The text of a passage, cut to units."""

    text: str
    blocks: tuple[Block, ...]
    units: tuple[Unit, ...]

    @classmethod
    def of(cls, text: str, language: str, sentences: SentenceSpans) -> QuotedPassage:
        """Cut the text of a passage."""
        found = tuple(blocks(text))
        units = [unit for at, block in enumerate(found) for unit in _units(text, at, block, language, sentences)]
        return cls(text, found, tuple(units))

    def text_of(self, unit: int) -> str:
        """Return the text of a unit."""
        return self.text[self.units[unit].start : self.units[unit].end]

    def stretches(self, chosen: Collection[int]) -> tuple[str, ...]:
        """Return the stretches of the text that hold the chosen units, in order and verbatim."""
        return tuple(self.text[start:end] for start, end in self._spans(chosen))

    def shown(self, chosen: Collection[int]) -> str:
        """Return the stretches as one text: lines of a paragraph joined, a mark where something is left out."""
        pieces = [self._shown(start, end) for start, end in self._spans(chosen)]
        joiner = f"\n{LEFT_OUT}\n" if any("\n" in piece for piece in pieces) else f" {LEFT_OUT} "
        return joiner.join(pieces)

    def _spans(self, chosen: Collection[int]) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        before: int | None = None
        for at in sorted(chosen):
            if before is not None and self._adjoin(before, at):
                spans[-1] = (spans[-1][0], self.units[at].end)
            else:
                spans.append((self._start(at), self.units[at].end))
            before = at
        return spans

    def _adjoin(self, first: int, second: int) -> bool:
        """Return true if nothing, or one sentence of the same paragraph, is between two units."""
        if second - first == 1:
            return not any(
                one.kind is BlockKind.HEADING
                for one in self.blocks[self.units[first].block + 1 : self.units[second].block]
            )
        return second - first - 1 <= LEAST_GAP and self.units[first].block == self.units[second].block

    def _start(self, at: int) -> int:
        """Return where a stretch begins: with the headings right above, if the unit is the first below them."""
        unit = self.units[at]
        start = unit.start
        if unit.start != self.blocks[unit.block].start:
            return start
        for block in reversed(self.blocks[: unit.block]):
            if block.kind is not BlockKind.HEADING:
                break
            start = block.start
        return start

    def _shown(self, start: int, end: int) -> str:
        shown = []
        for block in self.blocks:
            if block.start < end and start < block.end:
                part = self.text[max(start, block.start) : min(end, block.end)]
                shown.append(part if block.kind.whole else " ".join(part.split()))
        return "\n".join(shown)


def _units(text: str, at: int, block: Block, language: str, sentences: SentenceSpans) -> Iterator[Unit]:
    if block.kind is BlockKind.HEADING:
        return
    if block.kind.whole:
        yield Unit(block.start, block.end, at)
        return
    for start, end in sentences(text[block.start : block.end], language):
        if start < end:
            yield Unit(block.start + start, block.start + end, at)
