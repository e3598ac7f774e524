"""So many at a time, and so many of one user, so that none of them keeps the others out."""

from __future__ import annotations

import threading
from collections import Counter

__all__ = ["Turns"]


class Turns:
    """Counts what is under way.

    Args:
        total: most at a time.
        per_uid: most of one user.
    """

    def __init__(self, *, total: int, per_uid: int) -> None:
        """Begin with none."""
        self._total = total
        self._per_uid = per_uid
        self._changed = threading.Condition()
        self._taken: Counter[int] = Counter()

    def take(self, uid: int, *, seconds: float = 0.0) -> bool:
        """Take a turn, or wait so long for one; say whether there was one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(uid), seconds):
                return False
            self._taken[uid] += 1
            return True

    def _is_free(self, uid: int) -> bool:
        return self._taken.total() < self._total and self._taken[uid] < self._per_uid

    def give_back(self, uid: int) -> None:
        """Give a turn back that was taken."""
        with self._changed:
            self._taken[uid] -= 1
            if not self._taken[uid]:
                del self._taken[uid]
            self._changed.notify_all()
