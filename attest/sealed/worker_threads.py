"""Threads that share the segments of one file, and their buffers.

The cipher, reading and hashing release the interpreter's lock, so threads suffice. Each takes the next segment when it
has finished one: a counter costs nothing compared with a MiB of work, and no thread waits for a slower one.
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
"""Slots in addition to one for each thread, so that a segment that waits for its turn blocks no thread."""


def thread_count(requested: int | None) -> int:
    """Return the number of threads: the requested one, or one for each processor that this process may use.

    The default is at most 16: they saturate the memory bus of any machine, and each one has buffers.

    Raises:
        ValueError: fewer than one.
    """
    if requested is None:
        return max(1, min(_MAX_DEFAULT_THREADS, len(os.sched_getaffinity(0))))
    if requested < 1:
        raise ValueError(f"at least one thread is necessary, not {requested}")
    return requested


def wipe(buffer: memoryview) -> None:
    """Overwrite a buffer of bytes with zeros."""
    for begin in range(0, len(buffer), SEGMENT_BYTES):
        piece = buffer[begin : begin + SEGMENT_BYTES]
        piece[:] = _ZEROS[: len(piece)] if len(piece) < SEGMENT_BYTES else _ZEROS


class Scratch:
    """Reusable buffers for one segment of at most ``largest`` bytes each, overwritten with zeros at the end."""

    def __init__(self, largest: int = SEGMENT_BYTES) -> None:
        self._bytes = max(1, min(largest, SEGMENT_BYTES))
        self._lock = threading.Lock()
        self._free: list[memoryview] = []
        self._all: list[tuple[mmap.mmap, memoryview]] = []

    def take(self) -> memoryview:
        """Return a buffer for one segment, with any content."""
        with self._lock:
            if not self._free:
                self._add()
            return self._free.pop()

    def _add(self) -> None:
        # Two in one huge page, if the kernel grants it: copying into it and reading from it are faster.
        whole = self._bytes == SEGMENT_BYTES
        pages = mmap.mmap(-1, _HUGE_PAGE_BYTES if whole else self._bytes)
        if whole:
            with suppress(OSError):
                pages.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(pages)
        self._all.append((pages, view))
        self._free += [view[at : at + self._bytes] for at in range(0, len(view), self._bytes)]

    def give(self, buffer: memoryview) -> None:
        """Return a buffer for reuse."""
        with self._lock:
            self._free.append(buffer)

    def wipe(self) -> None:
        """Overwrite and release all of them; none may be in use."""
        with self._lock:
            for part in self._free:
                part.release()
            for pages, view in self._all:
                wipe(view)
                with suppress(BufferError):  # A caller kept a part of it; its content is overwritten all the same.
                    view.release()
                    pages.close()
            self._all.clear()
            self._free.clear()


def spread(count: int, work: Callable[[int], object], *, threads: int) -> None:
    """Call ``work`` for 0 to ``count - 1`` on several threads, the calling one included.

    After a failure no further call starts. All calls have ended when this returns or raises, also when interrupted.

    Raises:
        BaseException: the first failure.
    """
    indexes = counting()
    failures: list[BaseException] = []

    def share() -> None:
        try:
            while not failures and (index := next(indexes)) < count:
                work(index)
        except BaseException as exc:  # noqa: BLE001 - raised again in the calling thread
            failures.append(exc)

    _together([share] * (min(threads, count) - 1), share, failures, lambda: None)


def in_order(
    count: int,
    produce: Callable[[int, int], object],
    consumers: Sequence[Callable[[int, int], object]],
    *,
    slots: int,
    threads: int,
) -> None:
    """Produce 0 to ``count - 1`` on several threads, and consume them in order, each consumer on its own thread.

    Args:
        count: of the items.
        produce: called with an index and a slot number, in any order; fills the slot.
        consumers: called with every index and its slot, in order; a slot is reused after all of them. The first one
            runs in the calling thread.
        slots: largest number of slots in use; at least 1.
        threads: for production.

    Raises:
        BaseException: the first failure; all calls have ended by then.
    """
    line = _Line(count, slots, len(consumers))
    first, *others = (partial(line.guard, partial(line.consume, consume)) for consume in consumers)
    producers = [partial(line.guard, partial(line.produce, produce))] * min(threads, count)
    _together([*producers, *others], first, line.failures, line.wake)


class _Line:
    """Slots that pass from producers to consumers and back."""

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
            # The slot comes with the index: the thread with the lowest index has a slot, so there is always progress.
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

    def guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as exc:  # noqa: BLE001 - raised again in the calling thread
            self.failures.append(exc)
            self.wake()

    def wake(self) -> None:
        with self._state:
            self._state.notify_all()


def _together(
    others: Sequence[Callable[[], None]],
    own: Callable[[], None],
    failures: list[BaseException],
    wake: Callable[[], None],
) -> None:
    """Run the others in threads and ``own`` here; wait for all even if interrupted: the memory is the caller's."""
    ends: list[threading.Event] = []
    threads: list[threading.Thread] = []
    try:
        for work in others:
            end = threading.Event()
            ends.append(end)
            threads.append(_start(work, end))
        own()
    except BaseException as exc:  # noqa: BLE001 - raised again below, after the last thread has ended
        failures.append(exc)
        wake()
    for end in ends:
        while not end.is_set():
            try:
                # Not Thread.join yet: after an interrupted join, Python 3.11 regards the thread as ended.
                end.wait()
            except BaseException as exc:  # noqa: BLE001 - as above
                failures.append(exc)
                wake()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _start(work: Callable[[], None], end: threading.Event) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            end.set()

    thread = threading.Thread(target=run, name="sealed")
    try:
        thread.start()
    except RuntimeError:
        end.set()  # no further thread available
        raise
    return thread
