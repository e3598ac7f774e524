"""The sentences of the documents that answer a question, verbatim.

A search always returns passages, by words and by meaning, even where none of them holds the answer. A passage says
several things, so its vector is near to many questions and very near to none; a sentence says one. Sentences are
therefore compared with the question, and where none is near enough, there is no answer.

Nearness is not understanding. A document about the same subject that does not hold the answer may be near
enough; then the answer is a sentence beside the point (docs/rag-store.md says how often). It is shown as a
passage of a document.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import numpy as np

from rag_demo.enclave.answers.extracts import UNKNOWN, Cited, Extract
from rag_demo.enclave.interfaces import Embedder, Found, Vectors
from rag_demo.enclave.store.terms import words_of

SentenceSpans = Callable[[str], Iterable[tuple[int, int]]]
"""Function from a text to the spans of its sentences; `rag_demo.enclave.documents.sentences` has one."""

THRESHOLD = 0.39
"""Lowest accepted similarity of the nearest sentence. Chosen for all-MiniLM-L6-v2 with ``benchmarks/rag_retrieval.py``;
another model has other cosines, and needs another one."""
MARGIN = 0.15
"""Greatest distance behind the nearest sentence."""
MAX_PASSAGES = 4
"""Maximum number of cited passages."""
MAX_SENTENCES = 3
"""Maximum number of quoted sentences of one passage."""
READ_PASSAGES = 5
"""Number of passages read sentence by sentence: each has to be embedded while the user waits."""
READ_SENTENCES = 64
SIGN_BONUS = 0.1
"""Bonus of a sentence that contains every sign of the question: words with a digit in them, such as ``E15``. A model
hardly tells one code from another; a question with a code is about that one."""

_ENDS = tuple(".!?:;…。！？؟।)]”’»\"'")  # noqa: RUF001  the full-width ones of Chinese and Japanese are meant
"""Last characters of a sentence."""


class PassagesAnswerer:
    """Answers with passages, never in words of its own.

    Args:
        threshold: lowest accepted similarity of the nearest sentence, 0 to 1; a greater one refuses more.
    """

    generates = False

    def __init__(self, sentences: SentenceSpans, *, threshold: float = THRESHOLD) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ValueError("a threshold is from 0 to 1")
        self._sentences = sentences
        self._threshold = threshold

    def extract(self, question: str, found: Sequence[Found], embedder: Embedder) -> Extract:
        """Return the sentences of the passages, best first, that answer a question; blocks."""
        cut = self._cut(found[:READ_PASSAGES])
        if not cut or not question.strip():
            return Extract(known=False, text=UNKNOWN, passages=())
        near = _nearness(question, [text for _, text in cut], embedder)
        least = max(self._threshold, max(near) - MARGIN)
        chosen: dict[int, list[int]] = {}
        for at, similarity in enumerate(near):
            if similarity >= least:
                chosen.setdefault(cut[at][0], []).append(at)
        ranked = sorted(chosen, key=lambda place: (-max(near[at] for at in chosen[place]), place))[:MAX_PASSAGES]
        passages = tuple(
            _cited(number, found[place], [(near[at], cut[at][1]) for at in chosen[place]])
            for number, place in enumerate(_without_repetitions(ranked, chosen, cut), start=1)
        )
        if not passages:
            return Extract(known=False, text=UNKNOWN, passages=())
        return Extract(known=True, text=_text(passages), passages=passages)

    async def generate(self, question: str, extract: Extract) -> AsyncIterator[str]:
        """Yield the text as it is."""
        del question
        yield extract.text

    def _cut(self, found: Sequence[Found]) -> list[tuple[int, str]]:
        cut: list[tuple[int, str]] = []
        for place, one in enumerate(found):
            text = one.passage.text
            cut.extend((place, text[start:end]) for start, end in self._sentences(text) if end > start)
        return cut[:READ_SENTENCES]


def _nearness(question: str, sentences: Sequence[str], embedder: Embedder) -> list[float]:
    """Return the similarity of each sentence to the question, -1 to 1."""
    # Neighbours overlap, so some sentences are there twice. One call embeds all: a text's vector does not
    # depend on the others.
    different = list(dict.fromkeys(sentences))
    vectors = embedder.embed([question, *different])
    signs = _signs(question)
    near = {
        text: min(1.0, cosine + (SIGN_BONUS if signs and signs <= _signs(text) else 0.0))
        for text, cosine in zip(different, _cosines(vectors), strict=True)
    }
    return [near[text] for text in sentences]


def _cosines(vectors: Vectors) -> list[float]:
    """Return the cosine of each vector but the first with the first; -1 where it is not a number."""
    cosines = np.nan_to_num(vectors[1:] @ vectors[0], nan=-1.0, posinf=-1.0, neginf=-1.0)
    return [float(cosine) for cosine in np.clip(cosines, -1.0, 1.0)]


def _signs(text: str) -> frozenset[str]:
    return frozenset(word for word in words_of(text) if any(map(str.isdigit, word)))


def _without_repetitions(
    ranked: Sequence[int], chosen: dict[int, list[int]], cut: Sequence[tuple[int, str]]
) -> list[int]:
    """Return the passages that bring a sentence which none before has: neighbours overlap."""
    kept: list[int] = []
    said: set[str] = set()
    for place in ranked:
        sentences = {cut[at][1] for at in chosen[place]}
        if sentences - said:
            kept.append(place)
        said |= sentences
    return kept


def _cited(number: int, found: Found, sentences: Sequence[tuple[float, str]]) -> Cited:
    nearest = sorted(sentences, key=lambda one: -one[0])[:MAX_SENTENCES]
    return Cited(
        number=number,
        found=found,
        sentences=tuple(text for similarity, text in sentences if (similarity, text) in nearest),
        score=nearest[0][0],
    )


def _text(passages: Sequence[Cited]) -> str:
    """Return the sentences with the numbers of their passages; a sentence in two passages appears once."""
    said: set[str] = set()
    lines: list[str] = []
    for passage in passages:
        new = [sentence for sentence in passage.sentences if sentence not in said]
        said.update(new)
        if new:
            lines.append(f"{_joined(new)} [{passage.number}]")
    return "\n".join(lines)


def _joined(sentences: Sequence[str]) -> str:
    """Set what has no end of its own, such as a heading, apart from what follows, lest it read as its beginning."""
    *before, last = sentences
    return "".join(one + (" " if one.endswith(_ENDS) else " – ") for one in before) + last
