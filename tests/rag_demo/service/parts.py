"""Small parts that do what the real ones do, and let a test stand in the middle of it."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from attest.errors import EvidenceError
from rag_demo.enclave.answers.extracts import Cited, Extract, Writer
from rag_demo.enclave.documents import ReadingProgress
from rag_demo.enclave.interfaces import Embedder, Found, IndexedDocument, IndexedPassage, Page, Reranker, Vectors
from rag_demo.enclave.service.resources import ReadyResources, ReleasedKeys

DIMENSIONS = 64


@dataclass
class WordEmbedder:
    """Adds up what its words hash to."""

    dimensions: int = DIMENSIONS
    max_tokens: int = 256
    languages: tuple[str, ...] = ("en",)
    closed: bool = False
    during: Callable[[], object] = lambda: None

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert not self.closed
        self.during()
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
            np.divide(row, max(1.0, float(np.linalg.norm(row))), out=row)
        return rows

    def close(self) -> None:
        self.closed = True


@dataclass
class MemoryStore:
    """Documents in a dictionary."""

    kept: dict[bytes, dict[str, tuple[IndexedDocument, list[tuple[IndexedPassage, np.ndarray]]]]] = field(
        default_factory=dict
    )
    closed: bool = False

    def add(
        self, collection: bytes, document: IndexedDocument, parts: Iterable[tuple[Sequence[IndexedPassage], Vectors]]
    ) -> IndexedDocument:
        rows = [pair for passages, vectors in parts for pair in zip(passages, vectors, strict=True)]
        assert not self.closed
        pages = len({passage.page for passage, _ in rows})
        whole = replace(document, pages=pages, passages=len(rows))
        self.kept.setdefault(collection, {})[document.id] = (whole, rows)
        return whole

    def documents(self, collection: bytes) -> tuple[IndexedDocument, ...]:
        assert not self.closed
        return tuple(document for document, _ in self.kept.get(collection, {}).values())

    def delete(self, collection: bytes, document: str) -> bool:
        assert not self.closed
        return self.kept.get(collection, {}).pop(document, None) is not None

    def delete_all(self, collection: bytes) -> int:
        assert not self.closed
        return len(self.kept.pop(collection, {}))

    def search(self, collection: bytes, question: str, vector: Vectors, *, limit: int) -> tuple[Found, ...]:
        assert not self.closed
        found = [
            Found(
                document=document.id,
                name=document.name,
                passage=passage,
                similarity=float(row @ vector),
                score=float(row @ vector),
            )
            for document, rows in self.kept.get(collection, {}).values()
            for passage, row in rows
        ]
        return tuple(sorted(found, key=lambda one: -one.score)[:limit])

    def close(self) -> None:
        self.closed = True


@dataclass
class Reader:
    """Takes pages apart at form feeds; a test can wait before each, or let it fail."""

    before_page: Callable[[int], object] = lambda _: None
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(
        self, data: bytes, *, name: str, media_type: str, progress: Callable[[ReadingProgress], None]
    ) -> Generator[Page, None, None]:
        try:
            if data.startswith(b"%BAD"):
                raise EvidenceError("the document cannot be read", code="document-malformed")
            if data.startswith(b"%BUG"):
                raise ValueError(data)
            pages = data.decode().split("\f")
            for number, text in enumerate(pages, 1):
                self.before_page(number)
                progress(ReadingProgress(pages=number, of=len(pages)))
                yield Page(number=number, text=text)
        finally:
            self.ended.set()


def split(pages: Iterator[Page], embedder: Embedder) -> Iterator[IndexedPassage]:
    ordinal = 0
    for page in pages:
        for text in filter(None, map(str.strip, page.text.split("\n\n"))):
            yield IndexedPassage(page=page.number, ordinal=ordinal, text=text)
            ordinal += 1


WRITER = Writer(name="small", where="in this machine", weights="not known")


@dataclass
class Answers:
    """Knows what shares a word of four letters with the question."""

    writer: Writer | None = None
    words: tuple[str, ...] = ("It is ", "so [1]", " and [7].")
    pause: asyncio.Event | None = None

    def extract(
        self, question: str, found: Sequence[Found], embedder: Embedder, *, reranker: Reranker | None = None
    ) -> Extract:
        asked = set(re.findall(r"\w{4,}", question.lower()))
        fits = [one for one in found if asked & set(re.findall(r"\w{4,}", one.passage.text.lower()))]
        cited = tuple(
            Cited(number=number, found=one, sentences=(one.passage.text,), shown=one.passage.text, score=one.score)
            for number, one in enumerate(fits, 1)
        )
        text = cited[0].sentences[0] if cited else "Found nothing."
        return Extract(known=bool(cited), text=text, passages=cited)

    async def generate(self, question: str, extract: Extract) -> AsyncGenerator[str, None]:
        for word in self.words:
            yield word
            if self.pause is not None:
                await self.pause.wait()


@dataclass
class Workshop:
    """Opens benches, and keeps what it opened and with which keys."""

    reader: Reader = field(default_factory=Reader)
    answers: Answers = field(default_factory=Answers)
    store: MemoryStore = field(default_factory=MemoryStore)
    during_embedding: Callable[[], object] = lambda: None
    opened: list[ReadyResources] = field(default_factory=list)
    keys: list[tuple[bytes, bytes]] = field(default_factory=list)

    def __call__(self, keys: ReleasedKeys) -> ReadyResources:
        self.keys.append((bytes(keys.model), bytes(keys.database)))
        bench = ReadyResources(
            model_name="words",
            embedder=WordEmbedder(during=self.during_embedding),
            store=replace(self.store, closed=False),
            read=self.reader,
            split=split,
            answerer=self.answers,
        )
        self.opened.append(bench)
        return bench
