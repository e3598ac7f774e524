"""Replay protection: each request is answered once while its date is valid.

A window never drops a valid entry: a full window refuses requests. A window in memory suffices for a key generated in
this process, since a restart makes a new key. A key with several replicas, or one that outlives its process, needs a
shared and persistent window.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from enum import Enum
from threading import Lock
from typing import Final, Protocol

DEFAULT_CAPACITY: Final = 1 << 18
"""Some 40 MB: a thousand requests a second over the longest window."""


class Use(Enum):
    """Answer of a window about a request."""

    FIRST = "first"
    USED = "used"
    FULL = "full"


class ReplayWindow(Protocol):
    """A record of requests. ``use`` is atomic among all users of the window."""

    @property
    def shared(self) -> bool:
        """True if every replica with the key uses this window, across restarts too."""
        ...

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Record a request unless it is known.

        Args:
            digest: 32 bytes that identify it.
            at: now; entries expired by then may be dropped.
            until: expiry of this entry.
        """
        ...


class MemoryReplayWindow:
    """A window for one process and the keys generated in it; ``capacity`` bounds the number of requests."""

    shared: bool = False

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._known: set[bytes] = set()
        self._order: deque[tuple[datetime, bytes]] = deque()
        self._forgotten: datetime | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Record a request unless it is known; see ``ReplayWindow``. After a clock went back, it waits."""
        with self._lock:
            # Expiries are in order unless the clock went back: then some entries stay longer, which is safe.
            while self._order and self._order[0][0] < at:
                end, known = self._order.popleft()
                self._known.discard(known)
                self._forgotten = end if self._forgotten is None else max(end, self._forgotten)
            if digest in self._known:
                return Use.USED
            # A host could advance its clock until all entries expire, and set it back: dropped requests would be valid.
            if len(self._known) >= self._capacity or (self._forgotten is not None and at <= self._forgotten):
                return Use.FULL
            self._known.add(digest)
            self._order.append((until, digest))
            return Use.FIRST
