"""Which requests were seen: each is answered once, as long as its date counts.

A window never forgets what still counts: when it is full, requests are refused. One in memory is enough for a key that
was born in this process, since a restart makes a new key. A key that several replicas have, or that outlives a
process, needs a window that they share and that outlives it too.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from enum import Enum
from threading import Lock
from typing import Final, Protocol

__all__ = ["MemoryReplayWindow", "ReplayWindow", "Use"]

DEFAULT_CAPACITY: Final = 1 << 18
"""Requests that may be remembered at a time: some 40 MB, and a thousand a second over the longest window."""


class Use(Enum):
    """What a window says of a request."""

    FIRST = "first"
    USED = "used"
    FULL = "full"


class ReplayWindow(Protocol):
    """Remembers requests. ``use`` is atomic, over all who share the window."""

    @property
    def shared(self) -> bool:
        """Whether every replica that has the key asks this same window, across restarts too."""
        ...

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Remember a request, unless it is known.

        Args:
            digest: 32 bytes that name it.
            at: now; what counted until then may be forgotten.
            until: how long it has to be remembered.
        """
        ...


class MemoryReplayWindow:
    """A window for one process and the keys that were born in it.

    Args:
        capacity: how many requests are remembered at most.
    """

    shared: bool = False

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        """Begin with nothing."""
        self._capacity = capacity
        self._known: set[bytes] = set()
        self._order: deque[tuple[datetime, bytes]] = deque()
        self._forgotten: datetime | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        """How many requests are remembered."""
        return len(self._known)

    def use(self, digest: bytes, *, at: datetime, until: datetime) -> Use:
        """Remember a request, unless it is known; see ``ReplayWindow``. Where the clock went back, it waits."""
        with self._lock:
            # Ends come in order, but where the clock went back: then some are remembered for longer, which is safe.
            while self._order and self._order[0][0] < at:
                end, known = self._order.popleft()
                self._known.discard(known)
                self._forgotten = end if self._forgotten is None else max(end, self._forgotten)
            if digest in self._known:
                return Use.USED
            # Whoever has the machine's clock moves it on, until all is forgotten, and back: now that counts again.
            if len(self._known) >= self._capacity or (self._forgotten is not None and at <= self._forgotten):
                return Use.FULL
            self._known.add(digest)
            self._order.append((until, digest))
            return Use.FIRST
