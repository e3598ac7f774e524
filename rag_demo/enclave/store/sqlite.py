"""The store in one SQLCipher file.

A document comes in parts, and a model works between one part and the next. So each part is a transaction of its own,
under a hidden document; the last one makes it visible. The parts of an interrupted addition are deleted: at once, or
when the file is opened next, before any other operation. Other users' questions are answered meanwhile.

One connection, with one lock: each operation under it takes milliseconds, and deletion runs in steps.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from rag_demo.enclave.errors import StoreClosedError, StoreConflictError, StoreDamagedError, StoreError
from rag_demo.enclave.interfaces import Found, IndexedDocument, IndexedPassage, Vectors
from rag_demo.enclave.languages.terms import question_words, stems_of
from rag_demo.enclave.store.cipher_file import Connection, damaged, make_file, open_file, translated, writing
from rag_demo.enclave.store.deletion import drop_document, purge_some, release_pages, unfinished
from rag_demo.enclave.store.limits import DEFAULT_LIMITS, StoreLimits
from rag_demo.enclave.store.matrices import Matrices
from rag_demo.enclave.store.rank_fusion import fuse, nearest
from rag_demo.enclave.store.schema import IngestState, make_words, words_table
from rag_demo.enclave.store.search import find_by_words, languages_of, load_matrix, passages_of
from rag_demo.enclave.store.validation import (
    check_collection,
    check_document,
    check_limit,
    check_part,
    check_question_vector,
    is_document_id,
    over_limit,
)

_LESS = "delete a document that you no longer need"
_DOCUMENT = "id, name, media_type, size, pages, passages, added, language"


class SqliteStore:
    """Documents in one encrypted file, which belongs to one process. Safe for threads."""

    def __init__(self, connection: Connection, *, dimensions: int, limits: StoreLimits) -> None:
        """Take over a connection; ``open`` makes one."""
        self._connection: Connection | None = connection
        self._dimensions = dimensions
        self._limits = limits
        self._lock = threading.RLock()
        self._matrices = Matrices(max_bytes=limits.matrix_bytes)
        self._damage: str | None = None
        with self._open():
            self._total = int(connection.execute("SELECT coalesce(sum(passages), 0) FROM documents").fetchone()[0])
            left = unfinished(connection)
        for collection, document in left:
            self._purge(collection, document)
        self._release()

    @classmethod
    def open(
        cls,
        path: Path,
        key: bytes | bytearray | memoryview,
        *,
        dimensions: int,
        model: str,
        limits: StoreLimits = DEFAULT_LIMITS,
        check_whole: bool = True,
    ) -> Self:
        """Open the file, or make it where there is none.

        Args:
            path: in a folder that is there.
            key: 32 bytes, uniformly random. The caller wipes them.
            dimensions: length of the model's vectors.
            model: fingerprint of the model, such as the digest of its weights; vectors of another one have no meaning.
            limits: of the store.
            check_whole: authenticate every page now (about 2 s a gigabyte), and not only when it is read.

        Raises:
            StoreDamagedError: another key, or the file is not what was written.
            StoreInUseError: another process has it.
            StoreVersionError: it is of another version, or for another model.
            StoreUnavailableError: it cannot be read or written.
        """
        if type(dimensions) is not int or dimensions < 1 or not model:
            raise ValueError("a store is for vectors of some length, of a model with a name")
        about = {"dimensions": str(dimensions), "model": model}
        with memoryview(key) as lent:
            given = lent.tobytes()
        if not os.path.lexists(path):
            make_file(path, given, about=about)
        connection = open_file(path, given, about=about, check_whole=check_whole)
        try:
            return cls(connection, dimensions=dimensions, limits=limits)
        except BaseException:
            connection.close()
            raise

    # -- adding

    def add(
        self, collection: bytes, document: IndexedDocument, parts: Iterable[tuple[Sequence[IndexedPassage], Vectors]]
    ) -> IndexedDocument:
        """Store a document as ``DocumentStore.add`` does; the parts are taken one by one, without the lock.

        Raises:
            StoreInputError: a name or a passage that is none.
            StoreLimitError: the collection, or the store, is full.
            StoreConflictError: it is there already, or was deleted while it came.
            StoreUnavailableError: no space, or the disk failed.
            StoreDamagedError: the file is not what was written.
            StoreClosedError: the store is closed.
        """
        check_collection(collection)
        check_document(document)
        number = self._begin(collection, document)
        last = -1
        try:
            for passages, vectors in parts:
                last = check_part(passages, vectors, after=last, dimensions=self._dimensions, limits=self._limits)
                if passages:
                    self._append(number, document, passages, vectors)
            return self._finish(collection, number, document.id)
        except BaseException:
            # If even that fails, or the process ends, the next opening does it.
            with suppress(StoreError):
                self._purge(number, document.id)
                self._release()
            raise

    def _begin(self, collection: bytes, document: IndexedDocument) -> int:
        with self._open() as connection, writing(connection):
            number = self._number(connection, collection)
            if number is None:
                number = self._make_collection(connection, collection)
            there = connection.execute("SELECT id FROM documents WHERE collection = ?", (number,)).fetchall()
            if (document.id,) in there:
                raise StoreConflictError("a document with this id exists", code="rag-document-exists")
            if len(there) >= self._limits.documents:
                raise over_limit("rag-limit-documents", self._limits.documents, _LESS)
            connection.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, ?, ?)",
                (
                    number,
                    document.id,
                    IngestState.COMING,
                    document.name,
                    document.media_type,
                    document.size,
                    document.added.isoformat(timespec="microseconds"),
                    document.language,
                ),
            )
            return number

    def _make_collection(self, connection: Connection, collection: bytes) -> int:
        (count,) = connection.execute("SELECT count(*) FROM collections").fetchone()
        if count >= self._limits.collections:
            raise over_limit("rag-limit-collections", self._limits.collections, "the operator can allow more")
        made = connection.execute("INSERT INTO collections (id) VALUES (?)", (collection,))
        connection.execute(make_words(made.lastrowid))
        return int(made.lastrowid)

    def _append(
        self, number: int, document: IndexedDocument, passages: Sequence[IndexedPassage], vectors: Vectors
    ) -> None:
        size = sum(len(passage.text.encode()) for passage in passages)
        with self._open() as connection:
            with writing(connection):
                changed = connection.execute(
                    "UPDATE documents SET passages = passages + ?, text_bytes = text_bytes + ?"
                    " WHERE collection = ? AND id = ? AND state = ?",
                    (len(passages), size, number, document.id, IngestState.COMING),
                )
                if changed.rowcount != 1:
                    raise _deleted_meanwhile()
                self._check_room(connection, number, coming=len(passages))
                for passage, vector in zip(passages, vectors, strict=True):
                    self._insert(connection, number, document, passage, vector)
            self._total += len(passages)

    def _check_room(self, connection: Connection, number: int, *, coming: int) -> None:
        (passages, size) = connection.execute(
            "SELECT sum(passages), sum(text_bytes) FROM documents WHERE collection = ?", (number,)
        ).fetchone()
        if passages > self._limits.passages:
            raise over_limit("rag-limit-passages", self._limits.passages, _LESS)
        if size > self._limits.text_bytes:
            raise over_limit("rag-limit-text-bytes", self._limits.text_bytes, _LESS)
        if self._total + coming > self._limits.total_passages:
            raise over_limit("rag-limit-total-passages", self._limits.total_passages, "the operator can allow more")

    @staticmethod
    def _insert(
        connection: Connection, number: int, document: IndexedDocument, passage: IndexedPassage, vector: Vectors
    ) -> None:
        row = connection.execute(
            "INSERT INTO passages (collection, document, page, section, ordinal, text) VALUES (?, ?, ?, ?, ?, ?)",
            (number, document.id, passage.page, passage.section, passage.ordinal, passage.text),
        ).lastrowid
        connection.execute(
            "INSERT INTO vectors VALUES (?, ?, ?)", (row, number, vector.astype("<f4", copy=False).tobytes())
        )
        connection.execute(
            f"INSERT INTO {words_table(number)} (rowid, words) VALUES (?, ?)",  # noqa: S608 -- of a number
            (row, " ".join(stems_of(f"{passage.section}\n{passage.text}", document.language))),
        )

    def _finish(self, collection: bytes, number: int, document: str) -> IndexedDocument:
        with self._open() as connection, writing(connection):
            changed = connection.execute(
                "UPDATE documents SET state = ?, pages ="
                " (SELECT count(DISTINCT page) FROM passages WHERE collection = ? AND document = ?)"
                " WHERE collection = ? AND id = ? AND state = ?",
                (IngestState.WHOLE, number, document, number, document, IngestState.COMING),
            )
            if changed.rowcount != 1:
                raise _deleted_meanwhile()
            row = connection.execute(
                f"SELECT {_DOCUMENT} FROM documents WHERE collection = ? AND id = ?",  # noqa: S608 -- a constant
                (number, document),
            ).fetchone()
            self._matrices.drop(collection)
        return _document(row)

    # -- listing and deleting

    def documents(self, collection: bytes) -> tuple[IndexedDocument, ...]:
        """Return the documents of a collection, oldest first."""
        check_collection(collection)
        with self._open() as connection:
            number = self._number(connection, collection)
            rows = connection.execute(
                f"SELECT {_DOCUMENT} FROM documents"  # noqa: S608 -- a constant
                " WHERE collection = ? AND state = ? ORDER BY added, id",
                (number, IngestState.WHOLE),
            ).fetchall()
        return tuple(_document(row) for row in rows)

    def delete(self, collection: bytes, document: str) -> bool:
        """Delete a document, its words and its vectors, from the file and from memory; return whether there was one."""
        check_collection(collection)
        if not is_document_id(document):
            return False
        with self._open() as connection, writing(connection):
            number = self._number(connection, collection)
            changed = connection.execute(
                "UPDATE documents SET state = ? WHERE collection = ? AND id = ? AND state = ?",
                (IngestState.GOING, number, document, IngestState.WHOLE),
            )
            self._matrices.drop(collection)
        if changed.rowcount != 1 or number is None:
            return False
        self._purge(number, document)
        self._release()
        return True

    def delete_all(self, collection: bytes) -> int:
        """Delete a collection without a trace, with unfinished additions; return the number of its documents."""
        check_collection(collection)
        with self._open() as connection, writing(connection):
            number = self._number(connection, collection)
            if number is None:
                return 0
            rows = connection.execute("SELECT id, state FROM documents WHERE collection = ?", (number,)).fetchall()
            connection.execute("UPDATE documents SET state = ? WHERE collection = ?", (IngestState.GOING, number))
            # All its words at once, instead of passage by passage.
            connection.execute(f"DROP TABLE {words_table(number)}")
            connection.execute(make_words(number))
            self._matrices.drop(collection)
        for document, _ in rows:
            self._purge(number, document)
        self._release()
        return sum(1 for _, state in rows if state == IngestState.WHOLE)

    def _purge(self, number: int, document: str) -> None:
        more = True
        while more:
            with self._open() as connection, writing(connection):
                more = purge_some(connection, number, document)
        with self._open() as connection:
            with writing(connection):
                gone = drop_document(connection, number, document)
            self._total -= gone

    def _release(self) -> None:
        more = True
        while more:
            with self._open() as connection:
                more = release_pages(connection)

    # -- searching

    def search(self, collection: bytes, question: str, vector: Vectors, *, limit: int) -> tuple[Found, ...]:
        """Search as ``DocumentStore.search`` does: the vector is float32 of length 1, the limit 1 to 100.

        Raises:
            StoreDamagedError: the file is not what was written.
            StoreUnavailableError: the disk failed.
            StoreClosedError: the store is closed.
        """
        check_collection(collection)
        check_limit(limit)
        check_question_vector(vector, dimensions=self._dimensions)
        with self._open() as connection:
            number = self._number(connection, collection)
            if number is None:
                return ()
            matrix = self._matrices.get(collection)
            if matrix is None:
                matrix = load_matrix(connection, number, dimensions=self._dimensions)
                self._matrices.put(collection, matrix)
            if not matrix.numbers.size:
                return ()
            similarities = matrix.rows @ vector
            by_meaning = [int(matrix.numbers[at]) for at in nearest(similarities)]
            words = [word for one in languages_of(connection, number) for word in question_words(question, one)]
            scores = fuse(by_meaning, find_by_words(connection, number, tuple(dict.fromkeys(words)), matrix))
            similar = {row: float(similarities[at]) for row in scores if (at := matrix.place(row)) is not None}
            best = sorted(scores, key=lambda row: (-scores[row], -similar[row], row))[:limit]
            there = passages_of(connection, number, best)
        return tuple(
            Found(
                document=there[row][0],
                name=there[row][1],
                passage=there[row][2],
                language=there[row][3],
                similarity=max(-1.0, min(1.0, similar[row])),
                score=scores[row],
            )
            for row in best
        )

    # -- the connection

    @contextmanager
    def _open(self) -> Iterator[Connection]:
        with self._lock:
            if self._connection is None:
                raise StoreClosedError(
                    "the store of documents is closed",
                    code="rag-store-closed",
                    hint="wait until the service is ready again",
                    retryable=True,
                )
            if self._damage is not None:
                raise damaged(self._damage)
            try:
                with translated():
                    yield self._connection
            except StoreDamagedError as exc:
                # After one inconsistency, no other part is trusted.
                self._damage = exc.got or ""
                raise

    @staticmethod
    def _number(connection: Connection, collection: bytes) -> int | None:
        row = connection.execute("SELECT number FROM collections WHERE id = ?", (collection,)).fetchone()
        return None if row is None else int(row[0])

    def close(self) -> None:
        """Forget key and vectors; the store cannot be used afterwards."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._matrices.wipe()
            if connection is not None:
                connection.close()


def _document(row: tuple[str, str, str, int, int, int, str, str]) -> IndexedDocument:
    id_, name, kind, size, pages, passages, added, language = row
    return IndexedDocument(
        id=id_,
        name=name,
        media_type=kind,
        size=size,
        pages=pages,
        passages=passages,
        added=datetime.fromisoformat(added),
        language=language,
    )


def _deleted_meanwhile() -> StoreConflictError:
    return StoreConflictError(
        "the document was deleted during the upload", code="rag-document-deleted", hint="upload it again if you want it"
    )
