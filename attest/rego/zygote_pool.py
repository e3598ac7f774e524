"""The processes of the Rego engine, one for each policy that was used lately.

The pool holds a few; the least recently used one ends. A process that died is started again once for a question.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from attest.encoding import JsonValue
from attest.rego.worker import MAX_REQUEST_BYTES
from attest.rego.zygotes import CompiledFor, EngineRefusedError, RegoLimits, Zygote, ZygoteLostError, late, remaining

MAX_ZYGOTES = 8


class _Place:
    """A place in the pool: a process, once it is started, and the number of threads that use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.zygote: Zygote | None = None
        self.users = 0

    def started(self, compiled: CompiledFor, limits: RegoLimits, deadline: float) -> Zygote:
        """Return the process, started if there is none; other threads wait for it."""
        if not self.lock.acquire(timeout=remaining(deadline)):
            raise late(limits)
        try:
            if self.zygote is None:
                self.zygote = Zygote(compiled, limits, deadline)
            return self.zygote
        finally:
            self.lock.release()

    def lose(self, zygote: Zygote) -> None:
        """Give up a process that ended, so that the next question starts another."""
        with self.lock:
            if self.zygote is zygote:
                self.zygote = None
                zygote.end(kill=True)


class ZygotePool:
    """The processes of the policies that were used last.

    Args:
        limit: the most at a time.
    """

    def __init__(self, limit: int = MAX_ZYGOTES) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._places: OrderedDict[bytes, _Place] = OrderedDict()

    def ask(
        self, compiled: CompiledFor, question: Mapping[str, JsonValue], limits: RegoLimits
    ) -> Mapping[str, JsonValue]:
        """Return the values of the rules that are defined, from a process of the policy's own.

        Raises:
            EngineRefusedError: no answer in time, or a malformed one.
        """
        request = json.dumps(question).encode()
        if len(request) > MAX_REQUEST_BYTES:
            raise EngineRefusedError(f"the request has more than {MAX_REQUEST_BYTES} bytes")
        deadline = time.monotonic() + limits.seconds
        with self.place(compiled.key, deadline) as place:
            for _ in range(2):
                zygote = place.started(compiled, limits, deadline)
                try:
                    return zygote.ask(request, limits, deadline)
                except ZygoteLostError:
                    place.lose(zygote)
        raise EngineRefusedError("the engine's process ended twice")

    @contextmanager
    def place(self, key: bytes, deadline: float) -> Iterator[_Place]:
        """Hold a place for a policy, which no other policy takes meanwhile."""
        place, ended = self._take(key, deadline)
        if ended is not None and ended.zygote is not None:
            ended.zygote.end()
        try:
            yield place
        finally:
            with self._changed:
                place.users -= 1
                self._changed.notify_all()

    def _take(self, key: bytes, deadline: float) -> tuple[_Place, _Place | None]:
        """Return the place of a policy, and the one that was given up for it."""
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._places or self._has_room(), remaining(deadline)):
                raise EngineRefusedError("too many policies are evaluated at a time")
            ended = None
            if key not in self._places:
                if len(self._places) >= self._limit:
                    ended = self._places.pop(next(name for name, one in self._places.items() if not one.users))
                self._places[key] = _Place()
            self._places.move_to_end(key)
            self._places[key].users += 1
            return self._places[key], ended

    def _has_room(self) -> bool:
        return len(self._places) < self._limit or any(not place.users for place in self._places.values())

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the processes."""
        with self._changed:
            return tuple(place.zygote.pid for place in self._places.values() if place.zygote is not None)

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            places = list(self._places.values())
            self._places.clear()
        for place in places:
            if place.zygote is not None:
                place.zygote.end()

    def forget(self) -> None:
        """Let go of all processes in a forked copy of their owner."""
        places = list(self._places.values())
        self.__init__(self._limit)  # type: ignore[misc]  # a lock may be held by a thread that was not forked
        for place in places:
            if place.zygote is not None:
                place.zygote.forget()


POOL = ZygotePool()
"""The pool of this process. A forked process has an empty one."""
atexit.register(POOL.close)
os.register_at_fork(after_in_child=POOL.forget)
