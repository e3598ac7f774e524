"""Search and answers: quality on a small labelled set, and speed on 25,000 passages.

The labelled set (``fixtures/rag``) was written for this project: twelve documents, questions with the words of the
paragraph that answers each, and questions without an answer, most of them about the subjects of the documents.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.measure import Figure, interleaved_ratio, median_seconds
from fixtures.rag.questions import ANSWERED, DOCUMENTS, UNANSWERED
from rag_demo.enclave.answers import KNOWN_LANGUAGE, Extract, PassagesAnswerer
from rag_demo.enclave.documents import split
from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.embedding import PlainFolder, TextEmbedder, installed_model, load_embedder
from rag_demo.enclave.interfaces import Found, IndexedDocument, IndexedPassage, Page, Vectors
from rag_demo.enclave.store import SqliteStore
from rag_demo.enclave.store.search import load_matrix

__all__ = ["recall", "refusal", "search", "search_ratio"]

PASSAGES = 25_000
PART = 250
FOUND = 12
"""Number of passages that the service searches for, to make an answer."""
COLLECTION = b"c" * 32
KEY = hashlib.sha256(b"the key of this benchmark").digest()
AT = datetime(2026, 1, 1, tzinfo=UTC)
BAR_MS = 50.0


def recall() -> Figure:
    """Count the questions whose passage is among the first five."""
    with _labelled() as (store, embedder):
        places = [_place(found_for(store, embedder, question), words) for question, _, words in ANSWERED]
        count = sum(document.passages for document in store.documents(COLLECTION))
    five, one = (sum(place < most for place in places) / len(places) for most in (5, 1))
    detail = (
        f"{len(places)} questions, {count} passages of {len(DOCUMENTS)} documents: the one that answers is first for "
        f"{one:.1%}, among the first five for {five:.1%}"
    )
    return Figure(id="rag-recall-at-5", value=five, bar=0.9, better="higher", detail=detail)


def refusal(*, every: int = 1) -> Figure:
    """Count the questions without an answer that get none.

    The threshold was chosen on the questions at even places, and on those of the multilingual set; those at odd places
    are reported apart.
    """
    with _labelled() as (store, embedder):
        answerer = PassagesAnswerer(sentences)

        def ask(question: str) -> Extract:
            return answerer.extract(question, found_for(store, embedder, question), embedder)

        known = [(ask(question), words) for question, _, words in ANSWERED[::every]]
        refused = [not ask(question).known for question in UNANSWERED[::every]]
    answered = [extract.known for extract, _ in known]
    quoted = _share([words in extract.text for extract, words in known])
    detail = (
        f"threshold {KNOWN_LANGUAGE.threshold}: of {len(known)} questions with an answer {_share(answered):.1%} get "
        f"one, {quoted:.1%} with the words that answer; of {len(refused)} without one {_share(refused):.1%} are "
        f"refused. Of those at odd places: {_share(answered[1::2]):.1%} and {_share(refused[1::2]):.1%}"
    )
    return Figure(id="rag-refusal-rate", value=_share(refused), bar=None, better="higher", detail=detail)


def _share(outcomes: Sequence[bool]) -> float:
    return sum(outcomes) / len(outcomes)


def search(*, rounds: int = 31) -> Figure:
    """Time a question: its vector, then both rankings of 25,000 passages, then their text."""
    with _large() as (store, embedder):
        questions = [question for question, _, _ in ANSWERED]
        turn = iter(range(10**9))

        def ask() -> None:
            found_for(store, embedder, questions[next(turn) % len(questions)] + " w00005 w00123 w04567")

        embedding = median_seconds(lambda: embedder.embed([questions[0]]), rounds=rounds, times=1)
        whole = median_seconds(ask, rounds=rounds, times=1)
    detail = (
        f"{PASSAGES} passages of 384 dimensions: {whole * 1e3:.1f} ms, of which the vector {embedding * 1e3:.1f} ms"
    )
    return Figure(id="rag-search-ms", value=whole * 1e3, bar=BAR_MS, better="lower", detail=detail)


def search_ratio(*, rounds: int = 31) -> Figure:
    """Compare a search, without the vector of its question, with the bare product of matrix and vector."""
    with _large() as (store, embedder):
        (vector,) = embedder.embed([ANSWERED[0][0]])
        rows = load_matrix(store._connection, 1, dimensions=embedder.dimensions).rows  # noqa: SLF001 -- the same matrix

        def ask() -> object:
            return store.search(COLLECTION, "w00005 w00123 w04567", vector, limit=FOUND)

        ratio, bare, ours = interleaved_ratio(lambda: rows @ vector, ask, rounds=rounds, times=5)
    detail = f"{PASSAGES} passages: the product {bare * 1e3:.2f} ms, the search {ours * 1e3:.2f} ms"
    return Figure(id="rag-search", value=ratio, bar=None, better="higher", detail=detail)


def found_for(store: SqliteStore, embedder: TextEmbedder, question: str) -> tuple[Found, ...]:
    return store.search(COLLECTION, question, embedder.embed([question])[0], limit=FOUND)


def _place(found: Sequence[Found], words: str) -> int:
    return next((place for place, one in enumerate(found) if words in one.passage.text), FOUND)


@contextmanager
def _labelled() -> Iterator[tuple[SqliteStore, TextEmbedder]]:
    def fill(store: SqliteStore, embedder: TextEmbedder) -> None:
        for name, text in DOCUMENTS.items():
            passages = tuple(split([Page(number=1, text=text)], count_tokens=embedder.count_tokens))
            part = (passages, embedder.embed([passage.text for passage in passages]))
            store.add(COLLECTION, labelled_document(name, "en"), [part])

    with filled_store(fill) as both:
        yield both


@contextmanager
def _large() -> Iterator[tuple[SqliteStore, TextEmbedder]]:
    def fill(store: SqliteStore, embedder: TextEmbedder) -> None:
        store.add(COLLECTION, labelled_document("made up"), _made_up(embedder.dimensions))
        found_for(store, embedder, "reads the vectors into memory")

    with filled_store(fill) as both:
        yield both


@contextmanager
def filled_store(fill: Callable[[SqliteStore, TextEmbedder], None]) -> Iterator[tuple[SqliteStore, TextEmbedder]]:
    with tempfile.TemporaryDirectory() as folder, load_embedder(PlainFolder(installed_model())) as embedder:
        store = SqliteStore.open(Path(folder) / "rag.db", KEY, dimensions=embedder.dimensions, model="measured")
        try:
            fill(store, embedder)
            yield store, embedder
        finally:
            store.close()


def labelled_document(name: str, language: str = "") -> IndexedDocument:
    return IndexedDocument(
        id=hashlib.sha256(name.encode()).hexdigest()[:32],
        name=name,
        media_type="text/plain",
        size=1,
        pages=0,
        passages=0,
        added=AT,
        language=language,
    )


def _made_up(dimensions: int) -> Iterator[tuple[Sequence[IndexedPassage], Vectors]]:
    """Passages of 120 words of 20,000, half of them common; vectors that point anywhere."""
    random = np.random.default_rng(1)
    words = np.array([f"w{number:05}" for number in range(20_000)])
    for start in range(0, PASSAGES, PART):
        texts = [" ".join([*random.choice(words, 60), *random.choice(words[:200], 60)]) for _ in range(PART)]
        vectors = random.standard_normal((PART, dimensions)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        passages = [IndexedPassage(page=1, ordinal=start + at, text=text) for at, text in enumerate(texts)]
        yield passages, vectors
