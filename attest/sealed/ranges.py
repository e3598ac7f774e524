"""Remote reads into a buffer: in pieces, in parallel, with retries, and bounded by the requested size.

A protocol (HTTP, S3) opens a stream of the bytes ``[start, stop)``; this module does the rest: cutting at multiples of
the segment size, parallel connections, resumption in the middle of a piece after a dropped connection, and pauses with
jitter between attempts, so that machines that start together do not retry together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Final

from attest.errors import AttestError, SealedSourceError
from attest.sealed.layout import SEGMENT_BYTES

PIECE_BYTES: Final = 8 * SEGMENT_BYTES
"""Largest request: large enough to hide a round trip, small enough to distribute. Pieces end at multiples of this, and
so at the boundaries of sealed segments (formats.md §1.2, rule 4)."""
PROGRESS_BYTES: Final = 64 << 10
"""Least progress of a useful attempt; single bytes now and then do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Parallelism, retries and time limits, with their sources of time and randomness.

    Attributes:
        connections: parallel requests, 1 to 64.
        attempts: in a row without progress, before the last error is raised.
        first_wait_seconds: upper bound of the first pause; doubles with each failed attempt.
        max_wait_seconds: upper bound of every pause, except that a service may request a longer one.
        read_seconds: between two pieces of an answer.
        answer_seconds: for one answer; a slower one is abandoned and resumed on another connection.
        random: draws from [0, 1).
    """

    connections: int = 8
    attempts: int = 6
    first_wait_seconds: float = 0.5
    max_wait_seconds: float = 30.0
    connect_seconds: float = 10.0
    read_seconds: float = 20.0
    answer_seconds: float = 120.0
    random: Callable[[], float] = field(default=SystemRandom().random, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.connections <= 64:
            raise ValueError(f"connections must be 1 to 64, not {self.connections}")
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")

    def wait_after(self, failures: int, requested: float | None) -> float | None:
        """Return the seconds to wait after failed attempts in a row, or None after too many.

        A pause that the service requested counts, unless it is too long.
        """
        if failures >= self.attempts or (requested is not None and requested > self.max_wait_seconds):
            return None
        if requested is not None:
            return requested
        longest = min(self.max_wait_seconds, self.first_wait_seconds * 2.0 ** min(failures - 1, 30))
        return longest * (0.5 + self.random() / 2)


class Interruption(Exception):  # noqa: N818  not an error yet: the same bytes can be requested again
    """An interrupted or missing answer, whose bytes can be requested again.

    Attributes:
        error: raised after the last attempt.
        wait: seconds requested by the service, if any.
    """

    def __init__(self, error: AttestError, *, wait: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait = wait


Ask = Callable[[int, int], AbstractContextManager[Iterator[bytes]]]
"""Opens the stream of the bytes [start, stop). It raises ``Interruption`` for retryable failures, before or during
reading, and ``AttestError`` for others. It may end early; its consumer detects surplus bytes."""


class RangeReader:
    """Bytes of one remote file of a known size; thread-safe. The first read sends the first request."""

    def __init__(self, *, name: str, size: int, ask: Ask, patience: RetryPolicy) -> None:
        self._name = name
        self._size = size
        self._ask = ask
        self._patience = patience
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None
        self._closed = False

    def close(self) -> None:
        """Stop the threads, after a read in progress."""
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.shutdown()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer from this offset. Afterwards no thread writes to it, also after an error.

        Raises:
            ValueError: the range exceeds the file, or the source is closed.
            AttestError: as ``ask``; or the error of the last attempt.
        """
        if not 0 <= offset <= offset + buffer.nbytes <= self._size:
            raise ValueError(f"{buffer.nbytes} bytes from {offset} are not within {self._size}")
        if self._closed:
            raise ValueError(f"{self._name} is closed")
        view = buffer.cast("B")
        pieces = list(_cut(offset, view))
        given_up = threading.Event()
        if len(pieces) <= 1 or self._patience.connections == 1:
            for start, part in pieces:
                self._fill(start, part, given_up)
            return
        self._fill_together(pieces, given_up)

    def _fill_together(self, pieces: list[tuple[int, memoryview]], given_up: threading.Event) -> None:
        workers = self._started()
        futures = [workers.submit(self._fill, start, part, given_up) for start, part in pieces]
        try:
            outcomes = [future.exception() for future in futures]
        except BaseException:  # interrupted from outside
            given_up.set()
            wait(futures)  # the buffer belongs to the caller after this
            raise
        for exc in outcomes:
            if exc is not None:
                raise exc

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(self._patience.connections, thread_name_prefix="sealed-fetch")
            return self._workers

    def _fill(self, start: int, view: memoryview, given_up: threading.Event) -> None:
        """Fill one piece; a failure stops the other pieces of the read."""
        try:
            self._resume(start, view, given_up)
        except BaseException:
            given_up.set()
            raise

    def _resume(self, start: int, view: memoryview, given_up: threading.Event) -> None:
        """Fill one piece, resuming interrupted answers."""
        done = mark = failures = 0
        while done < view.nbytes and not given_up.is_set():
            done, interruption = self._receive(start, view, done)
            if interruption is None:
                continue
            failures = 1 if done - mark >= PROGRESS_BYTES else failures + 1
            mark = done
            seconds = self._patience.wait_after(failures, interruption.wait)
            if seconds is None:
                raise interruption.error from interruption
            self._patience.sleep(seconds)

    def _receive(self, start: int, view: memoryview, done: int) -> tuple[int, Interruption | None]:
        """Return the filled size of the view, and the interruption if there was one."""
        clock = self._patience.monotonic
        began = clock()
        try:
            with self._ask(start + done, start + view.nbytes) as stream:
                for block in stream:
                    end = done + len(block)
                    if end > view.nbytes:
                        raise SealedSourceError(
                            f"{self._name} sent more than the {view.nbytes - done} bytes that it announced",
                            code="sealed-source-answer-invalid",
                            expected="the requested bytes",
                            got="more",
                        )
                    view[done:end] = block
                    done = end
                    if done < view.nbytes and clock() - began > self._patience.answer_seconds:
                        slow = f"only {done} bytes within {self._patience.answer_seconds:.0f} s"
                        return done, Interruption(unreachable(self._name, slow))
        except Interruption as exc:
            return done, exc
        if done < view.nbytes:
            return done, Interruption(unreachable(self._name, f"the answer ended {view.nbytes - done} bytes early"))
        return done, None


def unreachable(name: str, reason: str) -> SealedSourceError:
    """Return the error for a service without an answer, or with an incomplete one.

    The name has no query, which may be a signature.
    """
    return SealedSourceError(
        f"{name} cannot be read: {reason}",
        code="sealed-source-unreachable",
        hint="check the address and the network, and try again",
        retryable=True,
    )


def _cut(offset: int, view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield pieces that end at multiples of PIECE_BYTES of the file."""
    position = 0
    while position < view.nbytes:
        start = offset + position
        end = min(view.nbytes, position + PIECE_BYTES - start % PIECE_BYTES)
        yield start, view[position:end]
        position = end
