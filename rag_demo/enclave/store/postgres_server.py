"""The connection to a PostgreSQL with pgvector: made, checked, and locked against other services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import psycopg
from pgvector.psycopg import register_vector
from psycopg.errors import DiskFull, FeatureNotSupported, InsufficientPrivilege, LockNotAvailable, UndefinedFile
from psycopg.rows import TupleRow

from attest.errors import ConfigurationError
from rag_demo.enclave.store.envelope import Envelope
from rag_demo.enclave.store.errors import (
    StoreError,
    StoreInUseError,
    StoreUnavailableError,
    StoreVersionError,
)

__all__ = ["Server", "prepare", "require_inside", "translated"]

Server: TypeAlias = psycopg.Connection[TupleRow]

VERSION = "1"
CONNECT_SECONDS = 10
STATEMENT_MS = 60_000
LOCK = 0x41525347
"""Of this store among the advisory locks of its database."""
LOCK_MS = 2_000
"""A server lets go of a lock a moment after its connection ended; a service that starts anew waits for that."""
MIN_REASON_CHARACTERS = 10

_TABLES = """
CREATE TABLE rag_about (name text PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE rag_collections (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bytea NOT NULL UNIQUE);
CREATE TABLE rag_documents (
    collection bigint NOT NULL REFERENCES rag_collections (number),
    id bytea NOT NULL,
    state smallint NOT NULL,
    label bytea NOT NULL,
    size bigint NOT NULL,
    pages bigint NOT NULL DEFAULT 0,
    passages bigint NOT NULL DEFAULT 0,
    text_bytes bigint NOT NULL DEFAULT 0,
    added timestamptz NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE TABLE rag_passages (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection bigint NOT NULL,
    document bytea NOT NULL,
    page bigint NOT NULL,
    ordinal bigint NOT NULL,
    words bigint NOT NULL,
    text bytea NOT NULL,
    vector vector({dimensions}) NOT NULL,
    UNIQUE (collection, document, ordinal),
    FOREIGN KEY (collection, document) REFERENCES rag_documents (collection, id)
);
CREATE TABLE rag_words (
    collection bigint NOT NULL,
    word bytea NOT NULL,
    passage bigint NOT NULL REFERENCES rag_passages (number) ON DELETE CASCADE,
    count integer NOT NULL,
    PRIMARY KEY (collection, word, passage)
);
CREATE INDEX rag_words_of ON rag_words (passage);
"""


def require_inside(inside_boundary: str) -> None:
    """Refuse a database of which nobody says why it is inside the boundary of the TEE.

    Raises:
        ConfigurationError: ``rag-store-outside``.
    """
    if len(inside_boundary.strip()) < MIN_REASON_CHARACTERS:
        raise ConfigurationError(
            "PostgreSQL compares vectors in the clear, and texts can be guessed from them",
            code="rag-store-outside",
            field="inside_boundary",
            expected=f"in {MIN_REASON_CHARACTERS} characters or more, why this server is inside the TEE",
            hint="if it is not, use the encrypted file",
        )


def prepare(url: str, envelope: Envelope, *, dimensions: int, model: str) -> Server:
    """Connect, make the tables where there are none, and take the lock.

    Raises:
        StoreUnavailableError: the server cannot be reached, or has no pgvector.
        StoreInUseError: another service has the database.
        StoreVersionError: it is of another version, or for another model.
        StoreDamagedError: it is under another key.
    """
    with translated():
        server = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, options=f"-c statement_timeout={STATEMENT_MS}"
        )
    try:
        with translated():
            _lock(server)
            _make_extension(server)
            with server.transaction():
                _make_tables(server, envelope, dimensions=dimensions, model=model)
            register_vector(server)
            _check(server, envelope, dimensions=dimensions, model=model)
    except BaseException:
        server.close()
        raise
    return server


def _lock(server: Server) -> None:
    """Take the lock of the session, which outlives this transaction."""
    try:
        with server.transaction():
            server.execute("SELECT set_config('lock_timeout', %s, true)", (str(LOCK_MS),))
            server.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
    except LockNotAvailable as exc:
        raise StoreInUseError(
            "another process has the database of documents",
            code="rag-store-in-use",
            hint="one service at a time opens it; end the other one",
            retryable=True,
        ) from exc


def _make_extension(server: Server) -> None:
    try:
        server.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (FeatureNotSupported, InsufficientPrivilege, UndefinedFile) as exc:
        raise StoreUnavailableError(
            "the database has no pgvector",
            code="rag-store-no-pgvector",
            hint="install it on the server, then, as its superuser: CREATE EXTENSION vector",
        ) from exc


def _make_tables(server: Server, envelope: Envelope, *, dimensions: int, model: str) -> None:
    if server.execute("SELECT to_regclass('rag_about')").fetchone() != (None,):
        return
    # psycopg wants a literal; the only thing put in is a number.
    server.execute(_TABLES.format(dimensions=int(dimensions)).encode())
    about = {"version": VERSION, "dimensions": str(dimensions), "model": model}
    for name, value in about.items():
        server.execute("INSERT INTO rag_about VALUES (%s, %s)", (name, envelope.seal(b"about", name.encode(), value)))


def _check(server: Server, envelope: Envelope, *, dimensions: int, model: str) -> None:
    found = {str(name): bytes(value) for name, value in server.execute("SELECT name, value FROM rag_about").fetchall()}
    for name, expected in (("version", VERSION), ("dimensions", str(dimensions)), ("model", model)):
        got = envelope.open(b"about", name.encode(), found.get(name, b""))
        if got != expected:
            raise StoreVersionError(
                f"the database was made for another {name}",
                code="rag-store-version" if name == "version" else "rag-store-model",
                field=name,
                expected=got,
                got=expected,
                hint="start the service with the version and the model that wrote it, or with a new database",
            )


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the driver raises into errors of this project; of its text, which may quote, nothing is told."""
    try:
        yield
    except psycopg.Error as exc:
        raise _translate(exc) from exc


def _translate(exc: psycopg.Error) -> StoreError:
    if isinstance(exc, DiskFull):
        return StoreUnavailableError(
            "there is no space left for documents",
            code="rag-store-full",
            hint="make space where the database lies",
            retryable=True,
        )
    return StoreUnavailableError(
        "the database of documents cannot be reached, read or written",
        code="rag-store-unavailable",
        got=exc.sqlstate or type(exc).__name__,
        hint="is the server running, at this address, and may this user write?",
        retryable=True,
    )
