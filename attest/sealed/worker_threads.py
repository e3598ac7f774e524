"""Threads that share the segments of one file, and the memory that they work in.

The cipher, reading and hashing all release the interpreter's lock, so threads are enough. Each takes the next segment
as soon as it has done one: a counter costs nothing beside a MiB of work, and no thread waits for a slower one.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count as counting

from attest.sealed.layout import SEGMENT_BYTES

_HUGE_PAGE_BYTES = 2 << 20
_ZEROS = bytes(SEGMENT_BYTES)
_MAX_DEFAULT_THREADS = 16
SPARE_SLOTS = 2
"""More slots than threads, so that one that has to wait for its turn keeps none from working."""


def thread_count(asked: int | None) -> int:
    """Return how many threads to use: what was asked for, or one for each processor that this process may use.

    By itself it takes no more than 16: they fill the memory bus of any machine, and each one has buffers.

    Raises:
        ValueError: fewer than one.
    """
    if asked is None:
        return max(1, min(_MAX_DEFAULT_THREADS, len(os.sched_getaffinity(0))))
    if asked < 1:
        msg = f"at least one thread has to do it, not {asked}"
        raise ValueError(msg)
    return asked


def wipe(buffer: memoryview) -> None:
    """Overwrite a buffer of bytes with zeros."""
    for begin in range(0, len(buffer), SEGMENT_BYTES):
        piece = buffer[begin : begin + SEGMENT_BYTES]
        piece[:] = _ZEROS[: len(piece)] if len(piece) < SEGMENT_BYTES else _ZEROS


class Scratch:
    """Buffers for one segment each, used again and again, and overwritten with zeros at the end.

    Args:
        largest: bytes of the largest segment that will be there, at most 1 MiB.
    """

    def __init__(self, largest: int = SEGMENT_BYTES) -> None:
        self._bytes = max(1, min(largest, SEGMENT_BYTES))
        self._lock = threading.Lock()
        self._free: list[memoryview] = []
        self._all: list[tuple[mmap.mmap, memoryview]] = []

    def take(self) -> memoryview:
        """Give a buffer of one segment, whose content is anything."""
        with self._lock:
            if not self._free:
                self._add()
            return self._free.pop()

    def _add(self) -> None:
        # Two in what is asked to be one huge page: the kernel copies into it and the cipher reads it faster.
        whole = self._bytes == SEGMENT_BYTES
        pages = mmap.mmap(-1, _HUGE_PAGE_BYTES if whole else self._bytes)
        if whole:
            with suppress(OSError):
                pages.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(pages)
        self._all.append((pages, view))
        self._free += [view[at : at + self._bytes] for at in range(0, len(view), self._bytes)]

    def give(self, buffer: memoryview) -> None:
        """Take a buffer back."""
        with self._lock:
            self._free.append(buffer)

    def wipe(self) -> None:
        """Overwrite all of them and let them go; none may be in use."""
        with self._lock:
            for part in self._free:
                part.release()
            for pages, view in self._all:
                wipe(view)
                with suppress(BufferError):  # Somebody kept a part of it; its content is gone all the same.
                    view.release()
                    pages.close()
            self._all.clear()
            self._free.clear()


def spread(count: int, work: Callable[[int], object], *, threads: int) -> None:
    """Call ``work`` for 0 to ``count - 1``, on so many threads, of which the calling one is the first.

    When one call raises, no further one begins. All have ended when this returns or raises, and when it is interrupted.

    Raises:
        BaseException: what the first call to fail raised.
    """
    indexes = counting()
    failures: list[BaseException] = []

    def labour() -> None:
        try:
            while not failures and (index := next(indexes)) < count:
                work(index)
        except BaseException as exc:  # noqa: BLE001 - it is raised again, in the calling thread
            failures.append(exc)

    _together([labour] * (min(threads, count) - 1), labour, failures, lambda: None)


def in_order(
    count: int,
    produce: Callable[[int, int], object],
    consumers: Sequence[Callable[[int, int], object]],
    *,
    slots: int,
    threads: int,
) -> None:
    """Produce 0 to ``count - 1`` on several threads while consumers take them in order, each on a thread of its own.

    Args:
        count: how many.
        produce: gets an index and a slot number; fills the slot. Called in any order.
        consumers: each gets every index and its slot, in order; a slot is filled again when all had it. The first one
            runs in the calling thread.
        slots: how many may be filled or waiting at a time; at least 1.
        threads: how many produce.

    Raises:
        BaseException: what the first call to fail raised; all have ended by then.
    """
    line = _Line(count, slots, len(consumers))
    first, *others = (partial(line.guard, partial(line.consume, consume)) for consume in consumers)
    producers = [partial(line.guard, partial(line.produce, produce))] * min(threads, count)
    _together([*producers, *others], first, line.failures, line.wake)


class _Line:
    """Slots that go from producers to consumers and back."""

    def __init__(self, count: int, slots: int, consumers: int) -> None:
        self.failures: list[BaseException] = []
        self._state = threading.Condition()
        self._count = count
        self._consumers = consumers
        self._next = 0
        self._free = deque(range(slots))
        self._ready: dict[int, int] = {}
        self._waiting: dict[int, int] = {}

    def produce(self, produce: Callable[[int, int], object]) -> None:
        while (taken := self._take()) is not None:
            index, slot = taken
            produce(index, slot)
            with self._state:
                self._ready[index], self._waiting[index] = slot, self._consumers
                self._state.notify_all()

    def _take(self) -> tuple[int, int] | None:
        with self._state:
            # The slot comes with the index: whoever holds the lowest index holds a slot, so somebody can go on.
            self._state.wait_for(lambda: self._free or self.failures or self._next >= self._count)
            if self.failures or self._next >= self._count:
                return None
            self._next += 1
            return self._next - 1, self._free.popleft()

    def consume(self, consume: Callable[[int, int], object]) -> None:
        for index in range(self._count):
            slot = self._await(index)
            if slot is None:
                return
            consume(index, slot)
            self._done(index, slot)

    def _await(self, index: int) -> int | None:
        with self._state:
            self._state.wait_for(lambda: index in self._ready or self.failures)
            return None if self.failures else self._ready[index]

    def _done(self, index: int, slot: int) -> None:
        with self._state:
            self._waiting[index] -= 1
            if not self._waiting[index]:
                del self._ready[index], self._waiting[index]
                self._free.append(slot)
                self._state.notify_all()

    def guard(self, labour: Callable[[], None]) -> None:
        try:
            labour()
        except BaseException as exc:  # noqa: BLE001 - it is raised again, in the calling thread
            self.failures.append(exc)
            self.wake()

    def wake(self) -> None:
        with self._state:
            self._state.notify_all()


def _together(
    labours: Sequence[Callable[[], None]],
    own: Callable[[], None],
    failures: list[BaseException],
    wake: Callable[[], None],
) -> None:
    """Do labours in threads and the own one here, and wait for all, whatever interrupts: the memory is the caller's."""
    ends: list[threading.Event] = []
    threads: list[threading.Thread] = []
    try:
        for labour in labours:
            end = threading.Event()
            ends.append(end)
            threads.append(_start(labour, end))
        own()
    except BaseException as exc:  # noqa: BLE001 - it is raised again below, after the last has ended
        failures.append(exc)
        wake()
    for end in ends:
        while not end.is_set():
            try:
                # Not Thread.join yet: when it is interrupted, Python 3.11 takes the thread for ended.
                end.wait()
            except BaseException as exc:  # noqa: BLE001 - as above
                failures.append(exc)
                wake()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _start(labour: Callable[[], None], end: threading.Event) -> threading.Thread:
    def whole() -> None:
        try:
            labour()
        finally:
            end.set()

    thread = threading.Thread(target=whole, name="sealed")
    try:
        thread.start()
    except RuntimeError:
        end.set()  # The system has no room for another thread.
        raise
    return thread
