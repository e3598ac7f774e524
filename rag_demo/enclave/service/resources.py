"""The parts that the service uses once it has its keys.

The service depends on these names alone, so that each part can be replaced: another model, another store,
another way to read documents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from rag_demo.enclave.answers.extracts import Extract, Writer
from rag_demo.enclave.documents import ReadingProgress
from rag_demo.enclave.interfaces import DocumentStore, Embedder, Found, IndexedPassage, Page, Reranker


class OpenReranker(Reranker, Protocol):
    """A reranking model whose weights can be wiped."""

    def close(self) -> None:
        """Overwrite the weights; the model cannot be used afterwards."""
        ...


class OpenEmbedder(Embedder, Protocol):
    """A model whose weights can be wiped."""

    def close(self) -> None:
        """Overwrite the weights; the model cannot be used afterwards."""
        ...


class Answerer(Protocol):
    """Maker of an answer from the passages found."""

    @property
    def writer(self) -> Writer | None:
        """The language model that words the answer; None where answers are quotations."""
        ...

    def extract(
        self, question: str, found: Sequence[Found], embedder: Embedder, *, reranker: Reranker | None = None
    ) -> Extract:
        """Return what the passages say; blocks."""
        ...

    def generate(self, question: str, extract: Extract) -> AsyncIterator[str]:
        """Yield an answer as it is worded, with citations ``[n]``; only where there is a ``writer``."""
        ...


class Pages(Iterator[Page], Protocol):
    """The pages of a document that is being read."""

    def close(self) -> None:
        """End the reading."""
        ...


class ReadPages(Protocol):
    """Reader of a document, in a confined process."""

    def __call__(
        self, data: bytes, /, *, name: str, media_type: str, progress: Callable[[ReadingProgress], None]
    ) -> Pages:
        """Yield its pages; closing the iterator ends the reading."""
        ...


Split = Callable[[Iterator[Page], Embedder], Iterator[IndexedPassage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyResources:
    """Everything that exists only while the service is ready."""

    model_name: str
    embedder: OpenEmbedder
    store: DocumentStore
    read: ReadPages
    split: Split
    answerer: Answerer
    reranker: OpenReranker | None = None

    def close(self) -> None:
        """Wipe weights, database key and vectors; a failure of one does not stop the others."""
        with ExitStack() as closing:
            closing.callback(self.store.close)
            if self.reranker is not None:
                closing.callback(self.reranker.close)
            closing.callback(self.embedder.close)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedKeys:
    """The keys that were released, to be read now and not kept."""

    model: memoryview
    database: memoryview


OpenBench = Callable[[ReleasedKeys], ReadyResources]
"""Function that opens model and store; blocks. On failure it closes what it opened."""
