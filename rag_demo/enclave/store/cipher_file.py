"""One SQLCipher file: made, opened under its key, checked whole, and locked against other processes.

Every page is encrypted with AES-256-CBC under a fresh IV, and authenticated with HMAC-SHA-512 over its ciphertext, its
IV and its number. So is every page in the journal. An older copy of the whole file, or of a page, is not detected:
a host can restore one; see docs/rag-store.md.

The journal is a rollback journal that is emptied at each commit, and no write-ahead log: the latter holds pages as
they were, so what was deleted would stay in it until some later checkpoint; and with one connection, which is all that
a locked file has, its readers gain nothing. (Mode DELETE would be wrong here: under an exclusive lock SQLite keeps the
file and overwrites its header alone.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlcipher3 import dbapi2

from attest.errors import OutputError
from attest.unfinished_file import tidy_unfinished, unfinished_file
from rag_demo.enclave.errors import (
    StoreDamagedError,
    StoreError,
    StoreInputError,
    StoreInUseError,
    StoreUnavailableError,
    StoreVersionError,
)
from rag_demo.enclave.store.schema import APPLICATION_ID, TABLES, USER_VERSION

Connection = Any  # of sqlcipher3, which has no types

KEY_BYTES = 32
PAGE_BYTES = 4096
CACHE_KIB = 64 * 1024
"""Decrypted pages that are kept in memory: most of the words of a large collection."""

_BUSY, _LOCKED, _CORRUPT, _FULL, _NOT_A_DATABASE = 5, 6, 11, 13, 26
_SETTINGS = (
    "cipher_compatibility = 4",  # The format of SQLCipher 4, whatever later versions prefer.
    "cipher_use_hmac = ON",
    f"cipher_page_size = {PAGE_BYTES}",
)
_AFTER_KEY = (
    "secure_delete = ON",
    "temp_store = MEMORY",
    "locking_mode = EXCLUSIVE",
    "journal_mode = TRUNCATE",
    "synchronous = FULL",
    "foreign_keys = ON",
    "cell_size_check = ON",
    "trusted_schema = OFF",
    f"cache_size = -{CACHE_KIB}",
)


def make_file(path: Path, key: bytes, *, about: dict[str, str]) -> None:
    """Make a new database that holds its description, whole or not at all; the file must not exist.

    Raises:
        StoreUnavailableError: the folder takes no file.
    """
    try:
        with unfinished_file(path) as draft:
            draft.write(b"")
            journal = draft.file.with_name(f"{draft.file.name}-journal")
            journal.unlink(missing_ok=True)
            with translated():
                connection = _connect(draft.file, key)
                try:
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    _set_up(connection)
                    _fill(connection, about)
                finally:
                    connection.close()
            journal.unlink(missing_ok=True)
            draft.place()
    except OutputError as exc:
        raise _not_reached(exc.reason) from exc
    except OSError as exc:
        raise _not_reached(exc.strerror or "input/output error") from exc


def open_file(path: Path, key: bytes, *, about: dict[str, str], check_whole: bool) -> Connection:
    """Open a database, lock it, and check that it is what was written, with this description.

    Every page is authenticated now with ``check_whole``, and otherwise when it is read.

    Raises:
        StoreDamagedError: another key, or not the bytes that were written, or fewer.
        StoreInUseError: another process has it.
        StoreVersionError: of another version, or for other vectors.
        StoreUnavailableError: it cannot be read or written.
    """
    try:
        size = path.stat(follow_symlinks=False).st_size
    except OSError as exc:
        raise _not_reached(exc.strerror or "input/output error") from exc
    # SQLite takes an empty file for a new database. Here it means lost documents.
    if size < PAGE_BYTES:
        raise damaged("the file ends within its first page")
    connection = None
    try:
        with translated():
            connection = _connect(path, key)
            _set_up(connection)
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            _check_version(connection)
            _check_size(connection, path)
            if check_whole:
                _check_whole(connection)
            _check_about(connection, about)
        tidy_unfinished(path)
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


@contextmanager
def writing(connection: Connection) -> Iterator[None]:
    """Do several things in one transaction: all or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some failures SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated() -> Iterator[None]:
    """Turn what SQLite raises into errors of this project."""
    try:
        yield
    except dbapi2.Error as exc:
        raise _translate(exc) from exc
    except UnicodeEncodeError as exc:
        raise StoreInputError(
            "a text contains an unpaired surrogate",
            code="rag-passage-invalid",
            expected="text that can be written in UTF-8",
        ) from exc


def _translate(exc: Exception) -> StoreError:
    code = int(getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF
    if code in {_NOT_A_DATABASE, _CORRUPT}:
        return damaged(str(getattr(exc, "sqlite_errorname", "") or "SQLITE_CORRUPT"))
    if code in {_BUSY, _LOCKED}:
        return StoreInUseError(
            "another process uses the database of documents",
            code="rag-store-in-use",
            hint="only one service at a time can open it; stop the other one",
            retryable=True,
        )
    if code == _FULL:
        return StoreUnavailableError(
            "there is no space left for documents",
            code="rag-store-full",
            hint="free space on the disk of the database",
            retryable=True,
        )
    return _not_reached(str(getattr(exc, "sqlite_errorname", "") or "SQLITE_ERROR"))


def _not_reached(got: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        "the database of documents cannot be read or written",
        code="rag-store-unavailable",
        got=got,
        hint="check that its folder exists, that it is writable, and that the disk is healthy",
        retryable=True,
    )


def damaged(got: str) -> StoreDamagedError:
    """Return the error that says that the file is not what was written under this key."""
    return StoreDamagedError(
        "the database of documents does not open under this key, or was altered",
        code="rag-store-damaged",
        got=got,
        hint="check that the right key was released for it; if it was, restore the file from a copy",
    )


def _connect(path: Path, key: bytes) -> Connection:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a database key has {KEY_BYTES} bytes")
    connection = dbapi2.connect(str(path), timeout=0, isolation_level=None, check_same_thread=False)
    try:
        _require_cipher(connection)
        # SQLCipher would write page numbers to standard error.
        connection.execute("PRAGMA cipher_log_level = NONE").fetchall()
        _give_key(connection, key)
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _require_cipher(connection: Connection) -> None:
    # Plain SQLite would ignore the key as an unknown setting, and write in the clear.
    if not connection.execute("PRAGMA cipher_version").fetchone():
        raise _not_reached("this SQLite has no encryption")


def _give_key(connection: Connection, key: bytes) -> None:
    # The key can only be passed in the text of a statement; no error of SQLite quotes it.
    try:
        connection.execute(f"PRAGMA key = \"x'{bytes(key).hex()}'\"").fetchall()
    except dbapi2.Error:
        raise _not_reached("the key was not accepted") from None


def _set_up(connection: Connection) -> None:
    # The first statement that reads the file, and so the first that fails under another key.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    for setting in _AFTER_KEY:
        connection.execute(f"PRAGMA {setting}").fetchall()


def _fill(connection: Connection, about: dict[str, str]) -> None:
    with writing(connection):
        for statement in TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO about VALUES (?, ?)", sorted(about.items()))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {USER_VERSION}")


def _check_version(connection: Connection) -> None:
    found = (_number(connection, "application_id"), _number(connection, "user_version"))
    if found != (APPLICATION_ID, USER_VERSION):
        raise StoreVersionError(
            "the database is of another kind or another version",
            code="rag-store-version",
            expected=f"version {USER_VERSION}",
            got=f"application {found[0]:#x}, version {found[1]}",
            hint="open it with the version of this program that wrote it",
        )


def _check_size(connection: Connection, path: Path) -> None:
    pages = _number(connection, "page_count")
    size = path.stat().st_size
    if size != pages * PAGE_BYTES:
        raise damaged(f"{size} bytes, for {pages} pages of {PAGE_BYTES}")


def _check_whole(connection: Connection) -> None:
    faults = connection.execute("PRAGMA cipher_integrity_check").fetchmany(1)
    if faults:
        raise damaged(str(faults[0][0]))


def _check_about(connection: Connection, about: dict[str, str]) -> None:
    found = dict(connection.execute("SELECT name, value FROM about").fetchall())
    for name, expected in about.items():
        if found.get(name) != expected:
            raise StoreVersionError(
                f"the database was made for another {name}: its vectors are not usable with this one",
                code="rag-store-model",
                field=name,
                expected=str(found.get(name)),
                got=expected,
                hint="start the service with the model that the documents were added under, or with a new database",
            )


def _number(connection: Connection, setting: str) -> int:
    return int(connection.execute(f"PRAGMA {setting}").fetchone()[0])
