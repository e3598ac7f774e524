"""Pages → passages: whole sentences of one section, packed to what a model reads well at once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rag_demo.enclave.documents.blocks import Block, BlockKind, blocks
from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.interfaces import IndexedPassage, Page

MAX_TOKENS = 200
"""all-MiniLM-L6-v2 reads 256 and was trained on 128; a passage should say one thing."""
WHOLE_CHARACTERS = 4000
"""A list or table up to this length stays in one passage, even if the model reads only its beginning."""

_FAR = 16
"""A stretch with more characters for each token that is allowed is cut without counting: words are
shorter, on average."""
_CLAUSE = re.compile(r"[;:,\u2013\u2014](?=\s)|[\uff0c\uff1b\uff1a\u3001\u060c]")
_SPACE = re.compile(r"\s")


def language_unknown(_text: str) -> str:
    """Return the empty language."""
    return ""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, a part of one that is too long, or a whole list or table, by its place in the page."""

    start: int
    end: int
    tokens: int
    heads: bool = False
    whole: bool = False


def split(
    pages: Iterable[Page],
    *,
    count_tokens: Callable[[str], int],
    max_tokens: int = MAX_TOKENS,
    overlap: int = 1,
    language_of: Callable[[str], str] = language_unknown,
) -> Iterator[IndexedPassage]:
    """Split pages into passages.

    A passage is a stretch of one section of one page, verbatim: sentences that follow each other, as many as fit. A
    heading is in the passage of what follows it. A list or table of up to ``WHOLE_CHARACTERS`` stays whole. A sentence
    that does not fit is cut between its clauses, else between words, else where it must be. Tokens are counted once for
    each sentence and once for each passage.

    Args:
        pages: in order; taken one at a time.
        count_tokens: returns the number of tokens of a text. A single character has at most
            ``max_tokens``.
        max_tokens: of a passage; a single character with more is a passage too.
        overlap: number of sentences that the next passage of the section repeats, where there is room for them and for
            a new one, and where they take at most half of it.
        language_of: returns the language of a page, which has abbreviations of its own.

    Raises:
        ValueError: ``max_tokens`` below 1, or ``overlap`` below 0.
    """
    if max_tokens < 1 or overlap < 0:
        raise ValueError(f"expected max_tokens from 1 and overlap from 0, got {max_tokens} and {overlap}")
    return _split(pages, _Packer(count_tokens, max_tokens, overlap), language_of)


def _split(pages: Iterable[Page], packer: _Packer, language_of: Callable[[str], str]) -> Iterator[IndexedPassage]:
    ordinal, section = 0, ""
    for page in pages:
        found = blocks(page.text)
        headings = [one for one in found if one.kind is BlockKind.HEADING]
        for start, end in packer.passages(page.text, found, language_of(page.text)):
            section = _section(page.text, headings, end) or section
            number = None if page.is_part else page.number
            yield IndexedPassage(page=number, ordinal=ordinal, text=page.text[start:end], section=section)
            ordinal += 1


def _section(text: str, headings: Sequence[Block], end: int) -> str:
    """Return the last heading above the end of a passage, which holds none but at its beginning."""
    above = [one for one in headings if one.end <= end]
    return " ".join(text[above[-1].start : above[-1].end].split()) if above else ""


@dataclass(frozen=True, slots=True)
class _Packer:
    count: Callable[[str], int]
    limit: int
    overlap: int

    def passages(self, text: str, found: Sequence[Block], language: str) -> Iterator[tuple[int, int]]:
        """Yield where each passage of a page begins and ends."""
        held: list[_Piece] = []
        fresh = 0  # of those held at the end, how many no passage has yet
        for piece in self._pieces(text, found, language):
            if fresh and piece.heads and not held[-1].heads:
                yield from self._full(text, held, fresh)
                held, fresh = [], 0
            elif fresh and piece.whole and all(one.heads for one in held):
                held[:] = [_Piece(held[0].start, piece.end, piece.tokens + sum(one.tokens for one in held), whole=True)]
                fresh = 1
                continue
            elif fresh and not self._fits(held, piece):
                yield from self._full(text, held, fresh)
                held, fresh = self._kept(held, piece), 0
            held.append(piece)
            fresh += 1
        if fresh:
            yield from self._full(text, held, fresh)

    def _pieces(self, text: str, found: Sequence[Block], language: str) -> Iterator[_Piece]:
        for block in found:
            start, end = block.start, block.end
            if block.kind.whole and end - start <= WHOLE_CHARACTERS:
                yield _Piece(start, end, min(self.count(text[start:end]), self.limit), whole=True)
                continue
            heads = block.kind is BlockKind.HEADING
            lines = _lines if block.kind is BlockKind.TABLE else sentences
            for left, right in lines(text[start:end], language):
                for piece in self._fitting(text, start + left, start + right):
                    yield _Piece(piece.start, piece.end, piece.tokens, heads=heads)

    def _fits(self, held: Sequence[_Piece], piece: _Piece) -> bool:
        """Return true if a piece fits by the sum of tokens; ``_full`` counts the exact number."""
        return sum(one.tokens for one in held) + piece.tokens <= self.limit

    def _kept(self, held: Sequence[_Piece], piece: _Piece) -> list[_Piece]:
        """Return what the next passage repeats; with the new piece it fits."""
        kept = [one for one in held[-self.overlap :] if not one.heads] if self.overlap else []
        while kept and sum(one.tokens for one in kept) > min(self.limit // 2, self.limit - piece.tokens):
            del kept[0]
        return kept

    def _full(self, text: str, held: Sequence[_Piece], fresh: int) -> Iterator[tuple[int, int]]:
        """Yield a passage of the pieces; several, where a tokenizer makes more of them together than of each."""
        start, end = held[0].start, held[-1].end
        if len(held) == 1 or self.count(text[start:end]) <= self.limit:
            yield start, end
        elif fresh < len(held):
            yield from self._full(text, held[-fresh:], fresh)
        else:
            half = len(held) // 2
            yield from self._full(text, held[:half], half)
            yield from self._full(text, held[half:], len(held) - half)

    def _fitting(self, text: str, start: int, end: int) -> Iterator[_Piece]:
        """Yield a sentence, or the parts of it that fit, halved until they do."""
        waiting = [(start, end)]
        while waiting:
            start, end = waiting.pop()
            if start >= end:
                continue
            far = end - start > _FAR * self.limit
            tokens = 0 if far else self.count(text[start:end])
            if not far and (tokens <= self.limit or end - start == 1):
                yield _Piece(start, end, tokens)
                continue
            cut = _cut(text, start, end)
            left, right = _trim(text, start, cut), _trim(text, cut, end)
            waiting += [right, left]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _cut(text: str, start: int, end: int) -> int:
    """Return where to cut a stretch: behind a clause near its middle, else between words, else between letters."""
    size = end - start
    low, high = start + size // 4, end - size // 4
    middle = start + size // 2
    for pattern in (_CLAUSE, _SPACE):
        places = [found.end() for found in pattern.finditer(text, low, high) if start < found.end() < end]
        if places:
            return min(places, key=lambda place: abs(place - middle))
    cut = max(middle, start + 1)
    while cut < end - 1 and unicodedata.combining(text[cut]):
        cut += 1
    return cut


def _lines(text: str, _language: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        left, right = _trim(text, start, start + len(line))
        if left < right:
            yield left, right
        start += len(line) + 1
