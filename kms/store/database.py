"""Transactions on the database. A writing one holds the only write lock from its first statement on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine

from kms.domain.errors import IntegrityError, UnavailableError
from kms.domain.state_root import STATE_CODES, StateKeys, forged
from kms.store.failures import UNREACHABLE, busy, translated, unknown_outcome
from kms.store.group_commit import Batching
from kms.store.state import State, StateAuthority
from kms.store.timeouts import BUSY_MILLISECONDS, WRITING
from kms.store.transactions import ReadTransaction, WriteTransaction
from kms.telemetry import stage, state_refused

T = TypeVar("T")


class Store:
    """One database; ``check`` is called once for each connection and refuses the schema of another version."""

    def __init__(self, engine: Engine, *, check: Callable[[Connection], None]) -> None:
        self._engine = engine
        self._check = check
        self._authority: StateAuthority | None = None
        self._writers = threading.Lock()
        self._batching = Batching(self._shared)
        self.committed: Callable[[], None] = lambda: None
        """Called after each transaction of ``writing``, before its block ends for the caller."""

    def authenticate(self, keys: StateKeys) -> None:
        """Verify the state with these keys from now on.

        Raises:
            IntegrityError: ``state-forged``: the root is of another key.
        """
        self._authority = StateAuthority(keys)
        with self.reading() as tx:
            _ = tx.state.root

    @property
    def is_authenticated(self) -> bool:
        """True if the keys of the state are known."""
        return self._authority is not None

    @contextmanager
    def opening(self) -> Iterator[ReadTransaction]:
        """Open a reading transaction that verifies no state, to find the key that does; as ``reading``."""
        with self._read(None) as tx:
            yield tx

    @contextmanager
    def examining(self) -> Iterator[ReadTransaction]:
        """Open a reading transaction that verifies the root of the state and no rows, to name those that are wrong."""
        with self._read(self._known(), rows=False) as tx:
            yield tx

    @contextmanager
    def reading(self) -> Iterator[ReadTransaction]:
        """Open a transaction that sees one state of the database.

        Raises:
            IntegrityError: the database was not opened with the key of its state: ``state-forged``.
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``.
            ConfigurationError: the schema has changed.
        """
        with stage("read"), self._read(self._known()) as tx:
            yield tx

    @contextmanager
    def _read(self, authority: StateAuthority | None, *, rows: bool = True) -> Iterator[ReadTransaction]:
        newest = 0 if authority is None else authority.newest  # before the transaction sees its state
        with _reported(), translated(), self._engine.connect() as connection, connection.begin():
            self._require_schema(connection)
            yield ReadTransaction(connection, State(connection, authority, newest=newest, rows=rows))

    def _known(self) -> StateAuthority:
        if self._authority is None:
            raise forged("the database was not opened with the key of its state", field="state_root")
        return self._authority

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """Open the only writing transaction. At the end of the block all of it is on the disk, or nothing.

        Raises:
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``, and nothing was written; or
                ``store-outcome-unknown``: a PostgreSQL server went away during the commit.
            ConfigurationError: the schema has changed.
            UnavailableError: as ``committed``; everything was written.
        """
        with self._shared() as tx:
            yield tx
        self.committed()

    @contextmanager
    def _shared(self) -> Iterator[WriteTransaction]:
        with stage("write"), self._written() as tx:
            yield tx

    @contextmanager
    def _written(self) -> Iterator[WriteTransaction]:
        if not self._writers.acquire(timeout=BUSY_MILLISECONDS / 1000):
            raise busy()
        committing = False
        try:
            authority = self._known()
            with _reported(), translated(), self._engine.connect() as plain:
                connection = plain.execution_options(**{WRITING: True})
                with connection.begin():
                    self._require_schema(connection)
                    tx = WriteTransaction(connection, State(connection, authority, newest=authority.newest))
                    yield tx
                    tx.settle()
                    committing = True
                tx.state.settled()
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


@contextmanager
def _reported() -> Iterator[None]:
    """Open a block whose refusals of stored state are counted and logged."""
    try:
        yield
    except IntegrityError as exc:
        if exc.code in STATE_CODES and state_refused(exc.code):  # a command prints the error itself
            _log.error("%s [%s] in %s: %s", exc.message, exc.code, exc.field, exc.hint)
        raise


_log = logging.getLogger("kms.store")
_CHECKED = "kms_schema_checked"
