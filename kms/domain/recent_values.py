"""Values that a process used last, within a bound."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """The values used last: at least ``most`` of them, and at most twice as many. Threads share it.

    There are two generations. When the newer one is full, it becomes the older one, whose values are dropped: what was
    used meanwhile was put into the newer one. So nothing that is in use is ever dropped together with the rest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as used; None if it is not kept."""
        value = self._newer.get(key)
        if value is None:
            value = self._older.get(key)
            if value is not None:
                self.put({key: value})
        return value

    def put(self, values: Mapping[K, V]) -> None:
        """Keep values, none of which is None."""
        with self._lock:
            for key, value in values.items():
                if len(self._newer) >= self._most:
                    self._newer, self._older = {}, self._newer
                self._newer[key] = value
