"""The one limiter of work at the same time: so many in all, and so many of one user."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable

__all__ = ["Turns"]


class Turns:
    """Counter of what is under way; for threads and for an event loop, which never waits.

    Args:
        total: most at a time.
        each: most of one user; None where users are not told apart.
    """

    def __init__(self, *, total: int, each: int | None = None) -> None:
        """Begin with none."""
        self.total = total
        self.each = total if each is None else each
        self._changed = threading.Condition()
        self._taken: Counter[Hashable] = Counter()

    @property
    def under_way(self) -> int:
        """How many there are now."""
        return self._taken.total()

    def of(self, user: Hashable) -> int:
        """Return how many of them are one user's."""
        return self._taken[user]

    def take(self, user: Hashable = None, *, seconds: float = 0.0) -> bool:
        """Take a turn, or wait so long for one; say whether there was one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(user), seconds):
                return False
            self._taken[user] += 1
            return True

    def _is_free(self, user: Hashable) -> bool:
        return self._taken.total() < self.total and self._taken[user] < self.each

    def give_back(self, user: Hashable = None) -> None:
        """Give a turn back that was taken."""
        with self._changed:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
            self._changed.notify_all()
