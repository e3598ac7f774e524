"""The store in a PostgreSQL with pgvector, which has to be inside the boundary of the TEE.

Texts and names go there sealed, words as tags under a key. The vectors go there as they are: pgvector compares them,
and cannot do so otherwise. Sentences can be guessed from their vectors, so a server outside the boundary would see,
roughly, what the documents say. It is opened only with a reason, in words, why it is inside.

Deletion is what PostgreSQL makes of it: rows are gone at once, and their space is given free for others. What lay there
is not overwritten, and stays in its write-ahead log and in copies for as long as these are kept (docs/rag-store.md).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Self

import psycopg

from rag_demo.enclave.interfaces import Found, IndexedDocument, IndexedPassage, Vectors
from rag_demo.enclave.store.envelope import Envelope
from rag_demo.enclave.store.errors import StoreClosedError, StoreConflictError, StoreError
from rag_demo.enclave.store.limits import DEFAULT_LIMITS, StoreLimits
from rag_demo.enclave.store.postgres_search import nearest_by_meaning, nearest_by_words, passages_of, place_of
from rag_demo.enclave.store.postgres_server import Server, prepare, require_inside, translated
from rag_demo.enclave.store.rank_fusion import fuse
from rag_demo.enclave.store.schema import IngestState
from rag_demo.enclave.store.terms import question_words, words_of
from rag_demo.enclave.store.validation import (
    check_collection,
    check_document,
    check_limit,
    check_part,
    check_question_vector,
    is_document_id,
    over_limit,
)

__all__ = ["PostgresStore"]

_LESS = "delete a document that is not needed any more"
_STEP_PASSAGES = 250


class PostgresStore:
    """Documents in a PostgreSQL inside the boundary. Safe for threads; one service at a time."""

    def __init__(
        self, url: str, envelope: Envelope, *, dimensions: int, model: str, limits: StoreLimits = DEFAULT_LIMITS
    ) -> None:
        """Connect; ``open`` checks what is given."""
        self._url = url
        self._envelope: Envelope | None = envelope
        self._dimensions = dimensions
        self._model = model
        self._limits = limits
        self._lock = threading.RLock()
        self._server = prepare(url, envelope, dimensions=dimensions, model=model)
        self._purge_unfinished()

    @classmethod
    def open(
        cls,
        url: str,
        key: bytes | bytearray | memoryview,
        *,
        inside_boundary: str,
        dimensions: int,
        model: str,
        limits: StoreLimits = DEFAULT_LIMITS,
    ) -> Self:
        """Open the database; its tables are made where there are none.

        Args:
            url: ``postgresql://…``, as libpq reads it.
            key: 32 bytes, uniformly random, under which texts are sealed. The caller wipes them.
            inside_boundary: why this server is inside the boundary of the TEE, in words.
            dimensions: how long the model's vectors are.
            model: what names the model.
            limits: how much is stored at most.

        Raises:
            ConfigurationError: ``rag-store-outside``: nothing says why it is inside.
            StoreDamagedError: it is under another key.
            StoreInUseError: another service has it.
            StoreVersionError: it is of another version, or for another model.
            StoreUnavailableError: it cannot be reached, or has no pgvector.
        """
        require_inside(inside_boundary)
        if type(dimensions) is not int or dimensions < 1 or not model:
            raise ValueError("a store is for vectors of some length, of a model with a name")
        with memoryview(key) as lent:
            envelope = Envelope(lent.tobytes())
        return cls(url, envelope, dimensions=dimensions, model=model, limits=limits)

    # -- adding

    def add(
        self, collection: bytes, document: IndexedDocument, parts: Iterable[tuple[Sequence[IndexedPassage], Vectors]]
    ) -> IndexedDocument:
        """Store a document: all of it, or nothing, whenever it ends; see ``SqliteStore.add``."""
        check_collection(collection)
        number = self._begin(collection, check_document(document))
        last = -1
        try:
            for passages, vectors in parts:
                last = check_part(passages, vectors, after=last, dimensions=self._dimensions, limits=self._limits)
                if passages:
                    self._append(collection, number, document.id, passages, vectors)
            return self._finish(number, document.id)
        except BaseException:
            # If even that fails, or the process ends, the next opening does it.
            with suppress(StoreError):
                self._purge(number, bytes.fromhex(document.id))
            raise

    def _begin(self, collection: bytes, document: IndexedDocument) -> int:
        with self._open() as (server, envelope), server.transaction():
            number = self._number(server, envelope, collection)
            if number is None:
                number = self._make_collection(server, envelope.name(collection))
            rows = server.execute("SELECT id FROM rag_documents WHERE collection = %s", (number,)).fetchall()
            identity = bytes.fromhex(document.id)
            if identity in {bytes(row[0]) for row in rows}:
                raise StoreConflictError("there is a document of this id", code="rag-document-exists")
            if len(rows) >= self._limits.documents:
                raise over_limit("rag-limit-documents", self._limits.documents, _LESS)
            label = envelope.seal(identity, place_of(number, -1), f"{document.name}\0{document.media_type}")
            server.execute(
                "INSERT INTO rag_documents (collection, id, state, label, size, added) VALUES (%s, %s, %s, %s, %s, %s)",
                (number, identity, int(IngestState.COMING), label, document.size, document.added),
            )
            return number

    def _make_collection(self, server: Server, name: bytes) -> int:
        if _one(server, "SELECT count(*) FROM rag_collections") >= self._limits.collections:
            raise over_limit("rag-limit-collections", self._limits.collections, "the operator can allow more")
        return _one(server, "INSERT INTO rag_collections (id) VALUES (%s) RETURNING number", name)

    def _append(
        self, collection: bytes, number: int, document: str, passages: Sequence[IndexedPassage], vectors: Vectors
    ) -> None:
        identity = bytes.fromhex(document)
        size = sum(len(passage.text.encode()) for passage in passages)
        with self._open() as (server, envelope), server.transaction():
            changed = server.execute(
                "UPDATE rag_documents SET passages = passages + %s, text_bytes = text_bytes + %s"
                " WHERE collection = %s AND id = %s AND state = %s",
                (len(passages), size, number, identity, int(IngestState.COMING)),
            )
            if changed.rowcount != 1:
                raise _deleted_meanwhile()
            self._check_room(server, number)
            for passage, vector in zip(passages, vectors, strict=True):
                counts = Counter(words_of(passage.text))
                sealed = envelope.seal(identity, place_of(number, passage.ordinal), passage.text)
                row = _one(
                    server,
                    "INSERT INTO rag_passages (collection, document, page, ordinal, words, text, vector)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING number",
                    number,
                    identity,
                    passage.page,
                    passage.ordinal,
                    counts.total(),
                    sealed,
                    vector,
                )
                server.execute(
                    "INSERT INTO rag_words SELECT %s, word, %s, count"
                    " FROM unnest(%s::bytea[], %s::integer[]) AS given (word, count)",
                    (number, row, envelope.words(collection, counts), list(counts.values())),
                )

    def _check_room(self, server: Server, number: int) -> None:
        for code, most, what, hint in (
            ("rag-limit-passages", self._limits.passages, "sum(passages)", _LESS),
            ("rag-limit-text-bytes", self._limits.text_bytes, "sum(text_bytes)", _LESS),
        ):
            if _one(server, f"SELECT {what} FROM rag_documents WHERE collection = %s", number) > most:  # noqa: S608 -- of the table above
                raise over_limit(code, most, hint)
        if _one(server, "SELECT sum(passages) FROM rag_documents") > self._limits.total_passages:
            raise over_limit("rag-limit-total-passages", self._limits.total_passages, "the operator can allow more")

    def _finish(self, number: int, document: str) -> IndexedDocument:
        identity = bytes.fromhex(document)
        with self._open() as (server, envelope), server.transaction():
            changed = server.execute(
                "UPDATE rag_documents SET state = %s, pages ="
                " (SELECT count(DISTINCT page) FROM rag_passages WHERE collection = %s AND document = %s)"
                " WHERE collection = %s AND id = %s AND state = %s",
                (int(IngestState.WHOLE), number, identity, number, identity, int(IngestState.COMING)),
            )
            if changed.rowcount != 1:
                raise _deleted_meanwhile()
            (document_now,) = (one for one in _documents(server, envelope, number) if one.id == document)
        return document_now

    # -- listing and deleting

    def documents(self, collection: bytes) -> tuple[IndexedDocument, ...]:
        """Return the documents of a collection, oldest first."""
        check_collection(collection)
        with self._open() as (server, envelope):
            number = self._number(server, envelope, collection)
            return () if number is None else tuple(_documents(server, envelope, number))

    def delete(self, collection: bytes, document: str) -> bool:
        """Delete a document's rows; return whether there was one."""
        check_collection(collection)
        if not is_document_id(document):
            return False
        identity = bytes.fromhex(document)
        with self._open() as (server, envelope), server.transaction():
            number = self._number(server, envelope, collection)
            changed = server.execute(
                "UPDATE rag_documents SET state = %s WHERE collection = %s AND id = %s AND state = %s",
                (int(IngestState.GOING), number, identity, int(IngestState.WHOLE)),
            )
        if changed.rowcount != 1 or number is None:
            return False
        self._purge(number, identity)
        self._vacuum()
        return True

    def delete_all(self, collection: bytes) -> int:
        """Delete a collection likewise, and what is being added to it; return how many documents it had."""
        check_collection(collection)
        with self._open() as (server, envelope), server.transaction():
            number = self._number(server, envelope, collection)
            if number is None:
                return 0
            rows = server.execute("SELECT id, state FROM rag_documents WHERE collection = %s", (number,)).fetchall()
            server.execute(
                "UPDATE rag_documents SET state = %s WHERE collection = %s", (int(IngestState.GOING), number)
            )
        for identity, _ in rows:
            self._purge(number, bytes(identity))
        self._vacuum()
        return sum(1 for _, state in rows if state == IngestState.WHOLE)

    def _purge_unfinished(self) -> None:
        with self._open() as (server, _):
            rows = server.execute(
                "SELECT collection, id FROM rag_documents WHERE state <> %s", (int(IngestState.WHOLE),)
            ).fetchall()
        for collection, identity in rows:
            self._purge(int(collection), bytes(identity))

    def _purge(self, number: int, identity: bytes) -> None:
        more = True
        while more:
            with self._open() as (server, _):
                gone = server.execute(
                    "DELETE FROM rag_passages WHERE number IN (SELECT p.number FROM rag_passages p"
                    " JOIN rag_documents d ON d.collection = p.collection AND d.id = p.document"
                    " WHERE p.collection = %s AND p.document = %s AND d.state <> %s LIMIT %s)",
                    (number, identity, int(IngestState.WHOLE), _STEP_PASSAGES),
                )
                more = gone.rowcount == _STEP_PASSAGES
        with self._open() as (server, _), server.transaction():
            server.execute(
                "DELETE FROM rag_documents WHERE collection = %s AND id = %s AND state <> %s",
                (number, identity, int(IngestState.WHOLE)),
            )
            server.execute(
                "DELETE FROM rag_collections WHERE number = %s"
                " AND NOT EXISTS (SELECT 1 FROM rag_documents WHERE collection = %s)",
                (number, number),
            )

    def _vacuum(self) -> None:
        with self._open() as (server, _):
            # It reads whole tables, and takes as long as they are.
            server.execute("SET statement_timeout = 0")
            server.execute("VACUUM rag_passages, rag_words, rag_documents, rag_collections")
            server.execute("RESET statement_timeout")

    # -- searching

    def search(self, collection: bytes, question: str, vector: Vectors, *, limit: int) -> tuple[Found, ...]:
        """Return the passages that fit best, by words and by meaning, best first; see ``SqliteStore.search``."""
        check_collection(collection)
        check_limit(limit)
        check_question_vector(vector, dimensions=self._dimensions)
        words = question_words(question)
        # One view of the database for all of it.
        with self._open() as (server, envelope), server.transaction():
            server.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            number = self._number(server, envelope, collection)
            if number is None:
                return ()
            by_words = nearest_by_words(server, number, envelope.words(collection, words))
            scores = fuse(nearest_by_meaning(server, number, vector), by_words)
            return passages_of(server, envelope, number, scores=scores, vector=vector, limit=limit)

    # -- the connection

    @contextmanager
    def _open(self) -> Iterator[tuple[Server, Envelope]]:
        with self._lock:
            if self._envelope is None:
                raise StoreClosedError(
                    "the store of documents is closed",
                    code="rag-store-closed",
                    hint="wait until the service is ready again",
                    retryable=True,
                )
            if self._server.closed:
                self._server = prepare(self._url, self._envelope, dimensions=self._dimensions, model=self._model)
            with translated():
                yield self._server, self._envelope

    @staticmethod
    def _number(server: Server, envelope: Envelope, collection: bytes) -> int | None:
        row = server.execute(
            "SELECT number FROM rag_collections WHERE id = %s", (envelope.name(collection),)
        ).fetchone()
        return None if row is None else int(row[0])

    def close(self) -> None:
        """Forget the key and leave the server; the store cannot be used afterwards."""
        with self._lock:
            self._envelope = None
            with suppress(psycopg.Error):
                self._server.close()


def _documents(server: Server, envelope: Envelope, number: int) -> Iterator[IndexedDocument]:
    rows = server.execute(
        "SELECT id, label, size, pages, passages, added FROM rag_documents"
        " WHERE collection = %s AND state = %s ORDER BY added, id",
        (number, int(IngestState.WHOLE)),
    ).fetchall()
    for identity, label, size, pages, passages, added in rows:
        name, _, media_type = envelope.open(bytes(identity), place_of(number, -1), bytes(label)).partition("\0")
        when: datetime = added
        yield IndexedDocument(
            id=bytes(identity).hex(),
            name=name,
            media_type=media_type,
            size=size,
            pages=pages,
            passages=passages,
            added=when.astimezone(UTC),
        )


def _one(server: Server, statement: str, *values: object) -> int:
    row = server.execute(statement.encode(), values).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def _deleted_meanwhile() -> StoreConflictError:
    return StoreConflictError(
        "the document was deleted while it came", code="rag-document-deleted", hint="add it again if it is wanted"
    )
