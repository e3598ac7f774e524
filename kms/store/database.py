"""Transactions on the database. A writing one holds the only write lock from its first statement on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine

from kms.domain.errors import UnavailableError
from kms.store.failures import UNREACHABLE, busy, translated, unknown_outcome
from kms.store.group_commit import Batching
from kms.store.timeouts import BUSY_MILLISECONDS, WRITING
from kms.store.transactions import ReadTransaction, WriteTransaction
from kms.telemetry import stage

T = TypeVar("T")


class Store:
    """One database; ``check`` is called once for each connection and refuses the schema of another version."""

    def __init__(self, engine: Engine, *, check: Callable[[Connection], None]) -> None:
        self._engine = engine
        self._check = check
        self._writers = threading.Lock()
        self._batching = Batching(self.writing)

    @contextmanager
    def reading(self) -> Iterator[ReadTransaction]:
        """Open a transaction that sees one state of the database.

        Raises:
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``.
            ConfigurationError: the schema has changed.
        """
        with stage("read"), translated(), self._engine.connect() as connection, connection.begin():
            self._require_schema(connection)
            yield ReadTransaction(connection)

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """Open the only writing transaction. At the end of the block all of it is on the disk, or nothing.

        Raises:
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``, and nothing was written; or
                ``store-outcome-unknown``: a PostgreSQL server went away during the commit.
            ConfigurationError: the schema has changed.
        """
        with stage("write"), self._written() as tx:
            yield tx

    @contextmanager
    def _written(self) -> Iterator[WriteTransaction]:
        if not self._writers.acquire(timeout=BUSY_MILLISECONDS / 1000):
            raise busy()
        committing = False
        try:
            with translated(), self._engine.connect() as plain:
                connection = plain.execution_options(**{WRITING: True})
                with connection.begin():
                    self._require_schema(connection)
                    yield WriteTransaction(connection)
                    committing = True
        except UnavailableError as exc:
            if committing and exc.code == UNREACHABLE:
                raise unknown_outcome() from exc
            raise
        finally:
            self._writers.release()

    def write(self, work: Callable[[WriteTransaction], T]) -> T:
        """Do work in a writing transaction that other threads may share; it is on the disk when this returns.

        Raises:
            UnavailableError: as ``writing``, and nothing of the work was written, or that is unknown.
            ConfigurationError: the schema has changed.
            Exception: as the work; nothing that it wrote stays.
        """
        return self._batching.run(work)

    @property
    def waiting(self) -> int:
        """Number of calls of ``write`` that no transaction has taken yet."""
        return self._batching.waiting

    def _require_schema(self, connection: Connection) -> None:
        """Check the schema of a new connection: the database may have been migrated since the last one."""
        if _CHECKED not in connection.info:
            self._check(connection)
            connection.info[_CHECKED] = True

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


_CHECKED = "kms_schema_checked"
