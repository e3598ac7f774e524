"""Verbatim answers from the documents.

A search always returns passages, by words and by meaning, even where none of them holds the answer. A passage says
several things; a sentence says one. So sentences, and whole lists and tables, are compared with the question: by the
cosine of their vectors, and by how much of the question their words cover. Where none is near enough, there is no
answer.

Nearness is not understanding. A document about the same subject that does not hold the answer may be near
enough; then the answer is a sentence beside the point (docs/rag-store.md says how often). It is shown as a
passage of a document.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from rag_demo.enclave.answers.coverage import Coverage
from rag_demo.enclave.answers.extracts import UNKNOWN, Cited, Extract, Writer
from rag_demo.enclave.answers.quotation import QuotedPassage, SentenceSpans
from rag_demo.enclave.interfaces import Embedder, Found, Reranker, Vectors
from rag_demo.enclave.languages import words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """Weights of cosine and words in one score, and the score from which a text answers.

    Attributes:
        words: share of the words in the score, 0 to 1; the rest is the cosine's.
        threshold: lowest accepted score, 0 to 1; a greater one refuses more.
    """

    words: float
    threshold: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.words <= 1.0 and 0.0 <= self.threshold <= 1.0):
            raise ValueError("a weight and a threshold are from 0 to 1")


KNOWN_LANGUAGE: Final = Weighing(words=0.4, threshold=0.44)
"""For documents in a language that the model knows. Chosen for all-MiniLM-L6-v2 with one half of the labelled set
(``benchmarks/rag_answers.py``); another model has other cosines, and needs another one."""
OTHER_LANGUAGE: Final = Weighing(words=0.8, threshold=0.5)
"""For documents in any other language: nearly all by words."""
RERANKED: Final = Weighing(words=0.0, threshold=0.5)
"""For the probabilities of a reranking model."""
MARGIN: Final = 0.1
"""Greatest distance behind the nearest."""
MAX_PASSAGES: Final = 4
"""Maximum number of cited passages."""
MAX_UNITS: Final = 3
"""Maximum number of quoted sentences, lists and tables of one passage."""
READ_PASSAGES: Final = 8
"""Number of passages read sentence by sentence: each has to be embedded while the user waits."""
READ_UNITS: Final = 64
SIGN_BONUS: Final = 0.1
"""Bonus of a text that contains every sign of the question: words with a digit in them, such as ``E15``. A model
hardly tells one code from another; a question with a code is about that one."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A unit of a passage, and how near it is."""

    place: int
    unit: int
    text: str
    score: float
    threshold: float

    @property
    def above(self) -> float:
        return self.score - self.threshold


class PassagesAnswerer:
    """Answers with passages, never in words of its own.

    Args:
        sentences: cuts a text to sentences.
        known: for documents in a language that the model knows.
        other: for documents in another one.
    """

    writer: ClassVar[Writer | None] = None

    def __init__(
        self, sentences: SentenceSpans, *, known: Weighing = KNOWN_LANGUAGE, other: Weighing = OTHER_LANGUAGE
    ) -> None:
        self._sentences = sentences
        self._known = known
        self._other = other

    def extract(
        self, question: str, found: Sequence[Found], embedder: Embedder, *, reranker: Reranker | None = None
    ) -> Extract:
        """Return what of the passages answers a question, best first; blocks."""
        read = found[:READ_PASSAGES]
        cut = [QuotedPassage.of(one.passage.text, one.language, self._sentences) for one in read]
        places = [(place, unit) for place, one in enumerate(cut) for unit in range(len(one.units))][:READ_UNITS]
        if not places or not question.strip():
            return NOTHING_FOUND
        texts = [(place, cut[place].text_of(unit)) for place, unit in places]
        scores = self._scores(question, read, texts, embedder, reranker)
        candidates = [
            _Candidate(place, unit, text, *score)
            for (place, unit), (_, text), score in zip(places, texts, scores, strict=True)
        ]
        passages = tuple(_cited(read, cut, candidates))
        if not passages:
            return NOTHING_FOUND
        return Extract(known=True, text="\n".join(f"{one.shown} [{one.number}]" for one in passages), passages=passages)

    async def generate(self, question: str, extract: Extract) -> AsyncIterator[str]:
        """Yield the text as it is."""
        del question
        yield extract.text

    def _scores(
        self,
        question: str,
        found: Sequence[Found],
        texts: Sequence[tuple[int, str]],
        embedder: Embedder,
        reranker: Reranker | None,
    ) -> list[tuple[float, float]]:
        """Return score and threshold of each text, which comes with the place of its passage."""
        headed = [_headed(found[place], text) for place, text in texts]
        if reranker is not None:
            return [(score, RERANKED.threshold) for score in reranker.scores(question, headed)]
        near, coverage = _nearness(question, [text for _, text in texts], headed, embedder), Coverage(question, found)
        made = []
        for (place, text), cosine in zip(texts, near, strict=True):
            is_known = not embedder.languages or found[place].language in {*embedder.languages, ""}
            weighing = self._known if is_known else self._other
            words = coverage.share(place, text) if weighing.words else 0.0
            made.append((weighing.words * words + (1 - weighing.words) * cosine, weighing.threshold))
        return made


NOTHING_FOUND: Final = Extract(known=False, text=UNKNOWN, passages=())


def _headed(found: Found, text: str) -> str:
    """Return a text below its heading: many a sentence names its subject only there."""
    return f"{found.passage.section}. {text}" if found.passage.section else text


def _nearness(question: str, texts: Sequence[str], headed: Sequence[str], embedder: Embedder) -> list[float]:
    """Return the similarity of each text to the question, alone or below its heading, -1 to 1."""
    # Neighbours overlap, so some sentences are there twice. One call embeds all: a text's vector does not
    # depend on the others.
    different = list(dict.fromkeys([*texts, *headed]))
    cosines = dict(zip(different, _cosines(embedder.embed([question, *different])), strict=True))
    signs = _signs(question)
    return [
        min(1.0, max(cosines[text], cosines[under]) + (SIGN_BONUS if signs and signs <= _signs(text) else 0.0))
        for text, under in zip(texts, headed, strict=True)
    ]


def _cosines(vectors: Vectors) -> list[float]:
    """Return the cosine of each vector but the first with the first; -1 where it is not a number."""
    cosines = np.nan_to_num(vectors[1:] @ vectors[0], nan=-1.0, posinf=-1.0, neginf=-1.0)
    return [float(cosine) for cosine in np.clip(cosines, -1.0, 1.0)]


def _signs(text: str) -> frozenset[str]:
    return frozenset(word for word in words_of(text) if any(map(str.isdigit, word)))


def _chosen(candidates: Sequence[_Candidate]) -> dict[int, list[_Candidate]]:
    """Return by passage, the best passage first, what is near enough, the nearest first."""
    least = max(0.0, max(one.above for one in candidates) - MARGIN)
    chosen: dict[int, list[_Candidate]] = {}
    for one in sorted(candidates, key=lambda one: (-one.above, one.place, one.unit)):
        if one.above >= least:
            chosen.setdefault(one.place, []).append(one)
    return chosen


def _cited(found: Sequence[Found], cut: Sequence[QuotedPassage], candidates: Sequence[_Candidate]) -> list[Cited]:
    """Return the cited passages; what two of them share is quoted once, because neighbours overlap."""
    cited: list[Cited] = []
    said: set[str] = set()
    for place, all_of_it in _chosen(candidates).items():
        new = [one for one in all_of_it if one.text not in said][:MAX_UNITS]
        if not new or len(cited) == MAX_PASSAGES:
            continue
        said.update(one.text for one in new)
        units = [one.unit for one in new]
        cited.append(
            Cited(
                number=len(cited) + 1,
                found=found[place],
                sentences=cut[place].stretches(units),
                shown=cut[place].shown(units),
                score=min(1.0, max(0.0, new[0].score)),
            )
        )
    return cited
