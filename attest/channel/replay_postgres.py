"""A replay window in PostgreSQL, for replicas with the same key on any number of machines.

::

    window = PostgresReplayWindow("postgresql://rag@db.internal/replays")        extra 'postgres'

If several replicas receive one request, the first inserted row wins: the digest is the primary key, and an INSERT waits
for the end of a concurrent one. The table holds digests of random bytes and their expiry, no secrets. Restoring an old
copy allows replays of requests of the last minutes.

Clocks of replicas differ. Each replica judges expiry by its own clock, the one that judged the request's date: no
request with an accepted date has expired in the window, however wrong the clock is. A row is deleted once the
database's clock agrees, so that a replica with a fast clock deletes nothing that others need.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from attest.channel.replays import DEFAULT_CAPACITY, Use
from attest.errors import ConfigurationError

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS: Final = 5
STATEMENT_MILLISECONDS: Final = 5000
"""Limit for a slow database, so that it does not stall the service: requests are then refused."""
SHARE: Final = 16
"""Rows are counted again after this fraction of the free capacity, which keeps counting cheap."""
_TABLE: Final = "attest_channel_seen"
_MAKE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (digest bytea PRIMARY KEY, until double precision NOT NULL)",
    f"CREATE INDEX IF NOT EXISTS {_TABLE}_until ON {_TABLE} (until)",
)
_MAKE_LOCK: Final = 0x6174_7465_7374
"""Of several replicas that start at once, one creates the table."""
_TAKE: Final = (
    f"INSERT INTO {_TABLE} AS seen (digest, until) VALUES (%s, %s)"  # noqa: S608  no text from outside
    " ON CONFLICT (digest) DO UPDATE SET until = excluded.until WHERE seen.until < %s"
)
_FORGET: Final = f"DELETE FROM {_TABLE} WHERE until < least(%s, extract(epoch FROM now()))"  # noqa: S608  as above
_COUNT: Final = f"SELECT count(*) FROM (SELECT 1 FROM {_TABLE} WHERE until >= %s LIMIT %s) AS counted"  # noqa: S608  as above


class PostgresReplayWindow:
    """A replay window shared between machines.

    Args:
        url: of a database with the table, or in which this user may create it.
        capacity: approximate largest number of requests; several replicas may exceed it by a sixteenth each.

    Raises:
        ConfigurationError: ``replay-window-unusable``.
    """

    shared: bool = True

    def __init__(self, url: str, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._url = url
        self._capacity = capacity
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._closed = False
        self._uncounted = 0
        try:
            import psycopg  # noqa: PLC0415  of the extra 'postgres'
        except ImportError as exc:
            raise ConfigurationError(
                "a replay window in PostgreSQL needs the package psycopg",
                code="replay-window-unusable",
                expected="the extra 'postgres' of this package",
                hint="pip install 'attest-kms[postgres]'",
            ) from exc
        self._psycopg = psycopg
        with self._lock:
            try:
                self._make(self._connected())
            except psycopg.Error as exc:
                raise self._unusable(exc) from exc

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Record a request unless it is known; see ``ReplayWindow``. A failing database refuses.

        A broken connection is reopened once: if the row was written all the same, the request counts as seen and is
        refused.

        Raises:
            ConfigurationError: ``replay-window-unusable``.
        """
        with self._lock:
            try:
                try:
                    return self._use(self._connected(), digest, at.timestamp(), until.timestamp())
                except (self._psycopg.OperationalError, self._psycopg.InterfaceError):
                    if self._connection is not None and not self._connection.broken:
                        raise
                    self._drop()
                    return self._use(self._connected(), digest, at.timestamp(), until.timestamp())
            except self._psycopg.Error as exc:
                self._drop()
                raise self._unusable(exc) from exc

    def close(self) -> None:
        """Close the connection; the window is unusable afterwards."""
        with self._lock:
            self._closed = True
            self._drop()

    def _connected(self) -> psycopg.Connection[tuple[object, ...]]:
        if self._closed:
            raise self._psycopg.InterfaceError("the window was closed")
        if self._connection is None:
            options = f"-c statement_timeout={STATEMENT_MILLISECONDS} -c synchronous_commit=on -c timezone=UTC"
            self._connection = self._psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                options=options,
                application_name="attest replay window",
            )
        return self._connection

    @staticmethod
    def _make(connection: psycopg.Connection[tuple[object, ...]]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKE_LOCK,))
            found = connection.execute("SELECT to_regclass(%s)", (_TABLE,)).fetchone()
            if found is None or found[0] is None:
                for statement in _MAKE:
                    connection.execute(statement)

    def _use(self, connection: psycopg.Connection[tuple[object, ...]], digest: bytes, at: float, until: float) -> Use:
        connection.execute(_FORGET, (at,))
        full = False
        with connection.transaction() as transaction:
            if connection.execute(_TAKE, (digest, until, at)).rowcount == 0:
                return Use.USED
            full = self._is_full(connection, at)
            if full:
                raise self._psycopg.Rollback(transaction)
        return Use.FULL if full else Use.FIRST

    def _is_full(self, connection: psycopg.Connection[tuple[object, ...]], at: float) -> bool:
        """Count the recorded requests, this one included, at intervals."""
        if self._uncounted > 0:
            self._uncounted -= 1
            return False
        row = connection.execute(_COUNT, (at, self._capacity + 1)).fetchone()
        room = self._capacity - (int(str(row[0])) if row is not None else self._capacity + 1)
        self._uncounted = max(0, room // SHARE)
        return room < 0

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._psycopg.Error):
                connection.close()

    @staticmethod
    def _unusable(exc: Exception) -> ConfigurationError:
        # A connection error may quote its URL with a password: only its type is reported.
        return ConfigurationError(
            f"the replay window's database cannot be used: {type(exc).__name__}",
            code="replay-window-unusable",
            got=getattr(exc, "sqlstate", None),
            hint="without it requests could be answered twice, so none is answered",
        )
