"""Window of seen requests to a released channel key: a file of this machine, or a database of all replicas."""

from __future__ import annotations

from attest.channel import PostgresReplayWindow, ReplayWindow, SqliteReplayWindow


def open_window(place: str) -> ReplayWindow:
    """Open it.

    Raises:
        ConfigurationError: ``replay-window-unusable``.
    """
    if place.startswith(("postgresql://", "postgres://")):
        return PostgresReplayWindow(place)
    return SqliteReplayWindow(place)
