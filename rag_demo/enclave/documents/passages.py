"""Pages → passages: whole sentences, packed to what a model reads well at once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.interfaces import IndexedPassage, Page

MAX_TOKENS = 200
"""all-MiniLM-L6-v2 reads 256 and was trained on 128; a passage should say one thing."""

_FAR = 16
"""A stretch with more characters for each token that is allowed is cut without counting: words are
shorter, on average."""
_CLAUSE = re.compile(r"[;:,\u2013\u2014](?=\s)|[\uff0c\uff1b\uff1a\u3001\u060c]")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, or a part of one that is too long, by its place in the page."""

    start: int
    end: int
    tokens: int


def split(
    pages: Iterable[Page], *, count_tokens: Callable[[str], int], max_tokens: int = MAX_TOKENS, overlap: int = 1
) -> Iterator[IndexedPassage]:
    """Split pages into passages.

    A passage is a stretch of one page, verbatim: sentences that follow each other, as many as fit. A sentence that does
    not fit is cut between its clauses, else between words, else where it must be. Tokens are counted once for each
    sentence and once for each passage.

    Args:
        pages: in order; taken one at a time.
        count_tokens: returns the number of tokens of a text. A single character has at most
            ``max_tokens``.
        max_tokens: of a passage; a single character with more is a passage too.
        overlap: number of sentences that the next passage of the page repeats, where there is room for them and for a
            new one, and where they take at most half of it.

    Raises:
        ValueError: ``max_tokens`` below 1, or ``overlap`` below 0.
    """
    if max_tokens < 1 or overlap < 0:
        raise ValueError(f"expected max_tokens from 1 and overlap from 0, got {max_tokens} and {overlap}")
    return _split(pages, _Packer(count_tokens, max_tokens, overlap))


def _split(pages: Iterable[Page], packer: _Packer) -> Iterator[IndexedPassage]:
    ordinal = 0
    for page in pages:
        for start, end in packer.passages(page.text):
            yield IndexedPassage(page=page.number, ordinal=ordinal, text=page.text[start:end])
            ordinal += 1


@dataclass(frozen=True, slots=True)
class _Packer:
    count: Callable[[str], int]
    limit: int
    overlap: int

    def passages(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where each passage of a page begins and ends."""
        held: list[_Piece] = []
        fresh = 0  # of those held at the end, how many no passage has yet
        for start, end in sentences(text):
            for piece in self._fitting(text, start, end):
                if fresh and not self._fits(held, piece):
                    yield from self._full(text, held, fresh)
                    held, fresh = self._kept(held, piece), 0
                held.append(piece)
                fresh += 1
        if fresh:
            yield from self._full(text, held, fresh)

    def _fits(self, held: Sequence[_Piece], piece: _Piece) -> bool:
        """Return true if a piece fits by the sum of tokens; ``_full`` counts the exact number."""
        return sum(one.tokens for one in held) + piece.tokens <= self.limit

    def _kept(self, held: Sequence[_Piece], piece: _Piece) -> list[_Piece]:
        """Return what the next passage repeats; with the new piece it fits."""
        kept = list(held[-self.overlap :]) if self.overlap else []
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
