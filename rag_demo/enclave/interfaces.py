"""The types that the parts of the enclave exchange, and the protocols that they meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""One row for each text, each of length 1, so that a product of two is their cosine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a document as text.

    Attributes:
        number: from 1.
        text: its text in reading order; an empty line separates paragraphs.
        is_part: true for a part of a document whose format has no pages; its number means nothing to a reader.
    """

    number: int
    text: str
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPassage:
    """A stretch of one page that is found as a whole.

    Attributes:
        page: that the document really has; None where its format has none.
        ordinal: its place among all passages of the document, from 0.
        text: whole sentences, verbatim.
        section: the heading above it, or with which it begins; empty without one.
    """

    page: int | None
    ordinal: int
    text: str
    section: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedDocument:
    """The description of a stored document.

    Attributes:
        id: 128 random bits as lower-case hex.
        size: bytes of the file as it came.
        pages: number of pages with text; 0 where its format has none.
        added: when it was whole.
        language: ISO 639-1, as its text shows; empty where it does not.
    """

    id: str
    name: str
    media_type: str
    size: int
    pages: int
    passages: int
    added: datetime
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A passage that a search found.

    Attributes:
        document: the id of its document.
        similarity: cosine of its vector and the question's, -1 to 1.
        score: of the ranking (reciprocal rank fusion); greater is better.
        language: of its document.
    """

    document: str
    name: str
    passage: IndexedPassage
    similarity: float
    score: float
    language: str = ""


class Reranker(Protocol):
    """A model that reads a question and a text together."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return for each text how probable it is that it answers the question, 0 to 1."""
        ...


class Embedder(Protocol):
    """A model that makes vectors of texts."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that it knows well, ISO 639-1; empty for a model of many languages."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Number of tokens that it reads of a text, its own marks included; the rest is ignored."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text is, the model's own marks not counted."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a vector of length 1 for each text, in order."""
        ...


class DocumentStore(Protocol):
    """Documents by collection. A collection is a user's; no query reaches another one.

    ``collection`` is 32 bytes that the service derives from what the user showed.
    """

    def add(
        self, collection: bytes, document: IndexedDocument, parts: Iterable[tuple[Sequence[IndexedPassage], Vectors]]
    ) -> IndexedDocument:
        """Store a document with its passages and vectors: all of it, or nothing, even after a crash.

        Args:
            collection: of the user.
            document: ``pages`` and ``passages`` are not known yet and are 0; ``language`` is known.
            parts: passages with their vectors, taken as they come.

        Returns:
            the document with its counts.
        """
        ...

    def documents(self, collection: bytes) -> tuple[IndexedDocument, ...]:
        """Return the documents of a collection, oldest first."""
        ...

    def delete(self, collection: bytes, document: str) -> bool:
        """Delete a document without a trace in any file; return true if there was one."""
        ...

    def delete_all(self, collection: bytes) -> int:
        """Delete a collection without a trace in any file; return the number of its documents."""
        ...

    def search(self, collection: bytes, question: str, vector: Vectors, *, limit: int) -> tuple[Found, ...]:
        """Return the passages that fit best, by words and by meaning, best first.

        Args:
            collection: of the user, the only one searched.
            question: plain text; no part of it is a query language.
            vector: the question's, of shape ``(dimensions,)``.
            limit: maximum number of passages.
        """
        ...

    def close(self) -> None:
        """Forget key and vectors; the store cannot be used afterwards."""
        ...
