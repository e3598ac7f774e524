"""SQLite: opening of files, the start of transactions, protection of rows."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from attest.errors import ConfigurationError, OutputError
from attest.unfinished_file import unfinished_file
from kms.store.timeouts import BUSY_MILLISECONDS, WRITING

_BUSY_CODES = frozenset({"SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED"})
_DAMAGE = ("Could not decode to UTF-8", "malformed database schema", "unsupported file format")
"""Beginnings of messages about damage that have no error code of their own."""
_LOOK_SECONDS = 0.002
"""Interval between attempts to take the turn."""


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Make an empty file for a new database, which gets its name at the end of the block.

    Only its owner can read it; SQLite gives its helper files the same mode. A killed process leaves the draft, which
    the next one empties. Every connection to it must be closed in the block, so that no helper file holds data.

    Raises:
        ConfigurationError: ``database-exists`` (it is never overwritten) or ``database-unusable``.
    """
    with ExitStack() as stack:
        with _output_errors(path):
            draft = stack.enter_context(unfinished_file(path))
            _remove_helpers(draft.file)
            draft.write(b"")
        try:
            yield draft.file
            with _output_errors(path):
                draft.flush()
                draft.place()
        except BaseException:
            draft.discard()
            _remove_helpers(draft.file)
            raise


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OutputError as exc:
        if exc.code != "output-exists":
            raise _unusable(path, exc.reason) from exc
        raise ConfigurationError(
            f"the file {path} already exists, and a database is never overwritten",
            code="database-exists",
            field="database",
            hint="name another file, or use this one with 'kms serve'",
        ) from exc


def _remove_helpers(path: Path) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def open_engine(path: Path) -> Engine:
    """Open an existing database file that only its owner can read.

    Raises:
        ConfigurationError: ``database-missing``, ``database-unusable`` or ``database-exposed``.
    """
    _require_private(path)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": BUSY_MILLISECONDS / 1000, "check_same_thread": False},
        hide_parameters=True,
        pool_size=8,
        max_overflow=64,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", partial(_begin, path.absolute().parent))
    return engine


def _require_private(path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError as exc:
        raise ConfigurationError(
            f"there is no database {path}", code="database-missing", field="database", hint="create it with 'kms init'"
        ) from exc
    except OSError as exc:
        raise _unusable(path, exc.strerror or str(exc)) from exc
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(path, "it is not a regular file")
    if status.st_mode & 0o077:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise ConfigurationError(
            f"other users can access the database {path} (mode {mode})",
            code="database-exposed",
            field="database",
            expected="mode 0600",
            got=mode,
            hint=f"chmod 600 {path}*",
        )


def _prepare(connection: DBAPIConnection, record: object) -> None:
    """Set durable commits, checked foreign keys, zeros over removed data, and manual transactions."""
    del record
    setattr(connection, "isolation_level", None)  # noqa: B010  sqlite3's own attribute, unknown to the protocol
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(folder: Path, connection: Connection) -> None:
    if not connection.get_execution_options().get(WRITING, False):
        connection.exec_driver_sql("BEGIN")
        return
    with ExitStack() as turn:
        _take_turn(folder, turn)
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _take_turn(folder: Path, turn: ExitStack) -> None:
    """Wait until this process is the only one that waits for SQLite's write lock.

    SQLite's lock has no queue: under load, the process that released it gets it again. The turn only adds fairness, so
    the wait for it is bounded, and a folder that cannot be locked is ignored.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    turn.callback(os.close, descriptor)  # which gives the turn back
    end = time.monotonic() + BUSY_MILLISECONDS / 1000
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_SECONDS)
        except OSError:
            return
        else:
            return


def is_busy(exc: DBAPIError) -> bool:
    """Return True if another connection held the lock for too long."""
    return getattr(exc.orig, "sqlite_errorname", "") in _BUSY_CODES


def is_foreign(exc: DBAPIError) -> bool:
    """Return True if the file is not a database, or has no table ``alembic_version``."""
    return getattr(exc.orig, "sqlite_errorname", "") == "SQLITE_NOTADB" or "no such table: alembic_version" in str(
        exc.orig
    )


def damage(exc: DBAPIError) -> str | None:
    """Return the damage of the file that an error reports, without the value that it quotes; None for other errors."""
    text = str(exc.orig).partition(" with text ")[0]
    corrupt = getattr(exc.orig, "sqlite_errorname", "").startswith("SQLITE_CORRUPT")
    return text if corrupt or text.startswith(_DAMAGE) else None


def append_only(table: str) -> tuple[str, ...]:
    """Return the statements that make a table refuse every UPDATE and DELETE."""
    return tuple(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    )


def trigger_names(table: str) -> tuple[str, ...]:
    """Return the names of the triggers that ``append_only`` makes."""
    return f"{table}_no_update", f"{table}_no_delete"


def triggers(connection: Connection) -> frozenset[str]:
    """Return the names of the triggers."""
    return frozenset(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars())


def storage_problems(connection: Connection) -> tuple[str, ...]:
    """Return the problems that SQLite finds in its pages, indexes and constraints."""
    lines = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return tuple(str(line)[:200] for line in lines if line != "ok")


def weak_durability(connection: Connection) -> str | None:
    """Return None: ``_prepare`` makes commits durable, and nothing outside can change that."""
    del connection
    return None


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the database {path} cannot be used: {problem}", code="database-unusable", field="database", got=problem
    )
