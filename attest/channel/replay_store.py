"""A replay window in a SQLite file, for all processes with the same key on one machine.

::

    window = SqliteReplayWindow("/var/lib/rag/replays.db")        outlives restarts, and is atomic between processes

The file holds digests of random bytes and their expiry, no secrets. Restoring an old copy allows replays of requests
of the last minutes (docs/channel.md): if the host could do that, keep the window elsewhere.
Replicas on several machines need a shared database: ``attest.channel.replay_postgres``.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final

from attest.channel.replays import DEFAULT_CAPACITY, Use
from attest.errors import ConfigurationError

BUSY_SECONDS: Final = 10.0
_SETUP: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a crash must not lose answered requests
    "CREATE TABLE IF NOT EXISTS seen (digest BLOB PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS seen_until ON seen (until)",
)


class SqliteReplayWindow:
    """A replay window shared between processes.

    Args:
        path: of the file, created if missing.

    Raises:
        ConfigurationError: ``replay-window-unusable``.
    """

    shared: bool = True

    def __init__(self, path: str | Path, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._lock = Lock()
        try:
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            for statement in _SETUP:
                self._database.execute(statement)
        except sqlite3.Error as exc:
            raise _unusable(exc) from exc

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Record a request unless it is known; see ``ReplayWindow``. A failing file refuses.

        Raises:
            ConfigurationError: ``replay-window-unusable``.
        """
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    return self._use(digest, at.timestamp(), until.timestamp())
                finally:
                    self._database.execute("COMMIT")
            except sqlite3.Error as exc:
                raise _unusable(exc) from exc

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _use(self, digest: bytes, at: float, until: float) -> Use:
        self._database.execute("DELETE FROM seen WHERE until < ?", (at,))
        if self._database.execute("SELECT 1 FROM seen WHERE digest = ?", (digest,)).fetchone():
            return Use.USED
        (count,) = self._database.execute("SELECT count(*) FROM seen").fetchone()
        if count >= self._capacity:
            return Use.FULL
        self._database.execute("INSERT INTO seen VALUES (?, ?)", (digest, until))
        return Use.FIRST


def _unusable(exc: sqlite3.Error) -> ConfigurationError:
    return ConfigurationError(
        f"the replay window's file cannot be used: {exc}",
        code="replay-window-unusable",
        hint="without it requests could be answered twice, so none is answered",
    )
