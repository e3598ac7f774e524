"""Limit on concurrent work, in total and for each user."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable


class ConcurrencyLimit:
    """Counter of work in progress, for threads and for an event loop, which never waits.

    Args:
        total: the most at a time.
        each: the most of one user; None where users are not distinguished.
    """

    def __init__(self, *, total: int, each: int | None = None) -> None:
        self.total = total
        self.each = total if each is None else each
        self._changed = threading.Condition()
        self._taken: Counter[Hashable] = Counter()

    @property
    def under_way(self) -> int:
        """Return the number in progress."""
        return self._taken.total()

    def of(self, user: Hashable) -> int:
        """Return the number in progress for one user."""
        return self._taken[user]

    def acquire(self, user: Hashable = None, *, seconds: float = 0.0) -> bool:
        """Take a place, waiting at most `seconds`; return False if none was free."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(user), seconds):
                return False
            self._taken[user] += 1
            return True

    def _is_free(self, user: Hashable) -> bool:
        return self._taken.total() < self.total and self._taken[user] < self.each

    def release(self, user: Hashable = None) -> None:
        """Free a place that was acquired."""
        with self._changed:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
            self._changed.notify_all()
