"""Documents for the tests of stores, and what makes them."""

import hashlib
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rag_demo.enclave.interfaces import Found, IndexedDocument, IndexedPassage, Vectors
from rag_demo.enclave.store import SqliteStore
from tests.rag_demo.hashing import DIMENSIONS, HashingEmbedder

__all__ = [
    "AT",
    "DIMENSIONS",
    "EMBEDDER",
    "KEY",
    "MINE",
    "MODEL",
    "YOURS",
    "add",
    "ask",
    "document",
    "killed_in_the_end",
    "parts_of",
]

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
EMBEDDER = HashingEmbedder()
KEY = hashlib.sha256(b"the key of these tests").digest()
MODEL = "hashing"
MINE, YOURS = b"m" * 32, b"y" * 32


def document(label: str, *, name: str | None = None, day: int = 0) -> IndexedDocument:
    return IndexedDocument(
        id=hashlib.sha256(label.encode()).hexdigest()[:32],
        name=name or f"{label}.txt",
        media_type="text/plain",
        size=1234,
        pages=0,
        passages=0,
        added=AT + timedelta(days=day),
    )


def parts_of(texts: Iterable[str], *, each: int = 2) -> Iterator[tuple[Sequence[IndexedPassage], Vectors]]:
    """Two passages on a page, ``each`` in a part."""
    whole = [IndexedPassage(page=1 + at // 2, ordinal=at, text=text) for at, text in enumerate(texts)]
    for start in range(0, len(whole), each):
        part = whole[start : start + each]
        yield part, EMBEDDER.embed([passage.text for passage in part])


def add(store: SqliteStore, collection: bytes, label: str, *texts: str, day: int = 0) -> IndexedDocument:
    return store.add(collection, document(label, day=day), parts_of(texts))


@contextmanager
def killed_in_the_end(child: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process with no chance to do anything any more, and see that it was."""
    with child:
        try:
            yield child
        finally:
            child.kill()
    assert child.returncode == -signal.SIGKILL


def ask(store: SqliteStore, collection: bytes, question: str, limit: int = 5) -> tuple[Found, ...]:
    return store.search(collection, question, EMBEDDER.embed([question])[0], limit=limit)
