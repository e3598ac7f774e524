"""Remote reads into a buffer: in pieces, in parallel, with retries, and bounded by the requested size.

A protocol (HTTP, S3) opens a stream of the bytes ``[start, stop)``; this module does the rest: cutting at multiples of
the segment size, parallel connections, resumption in the middle of a piece after a dropped connection, and pauses with
jitter between attempts, so that machines that start together do not retry together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Final, TypeVar

from attest.errors import AttestError, SealedSourceError
from attest.sealed.layout import SEGMENT_BYTES

PIECE_BYTES: Final = 8 * SEGMENT_BYTES
"""Largest request: large enough to hide a round trip, small enough to distribute. Pieces end at multiples of this, and
so at the boundaries of sealed segments (formats.md §1.2, rule 4)."""
PROGRESS_BYTES: Final = 64 << 10
"""Least progress of a useful attempt; single bytes now and then do not count."""

_T = TypeVar("_T")


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

    def retried(self, work: Callable[[], _T]) -> _T:
        """Return the result of ``work``, called again after each ``Interruption``.

        Raises:
            AttestError: the error of the last attempt, or as ``work``.
        """
        failures = 0
        while True:
            try:
                return work()
            except Interruption as exc:
                failures += 1
                seconds = self.wait_after(failures, exc.wait)
                if seconds is None:
                    raise exc.error from exc
            self.sleep(seconds)


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


Receive = Callable[[memoryview], int]
"""Fills the beginning of some memory with the bytes that arrive next, without waiting for all of it, and returns how
many they are; 0 at the end of the answer."""
Ask = Callable[[int, int], AbstractContextManager[Receive]]
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
        self._require(offset, buffer.nbytes)
        pieces = list(_cut(offset, buffer.cast("B")))
        given_up = threading.Event()
        if len(pieces) <= 1 or self._patience.connections == 1:
            for start, part in pieces:
                self._fill(start, part, given_up)
            return
        self._fill_together(pieces, given_up)

    @contextmanager
    def stream(self, offset: int, size: int) -> Iterator[RangeStream]:
        """Open the stream of a range: one request, unless the answer is interrupted.

        Raises:
            ValueError: the range exceeds the file, or the source is closed.
        """
        self._require(offset, size)
        with self._stream(offset, size, threading.Event()) as stream:
            yield stream

    def _require(self, offset: int, size: int) -> None:
        if not 0 <= offset <= offset + size <= self._size:
            raise ValueError(f"{size} bytes from {offset} are not within {self._size}")
        if self._closed:
            raise ValueError(f"{self._name} is closed")

    def _stream(self, start: int, size: int, given_up: threading.Event) -> closing[RangeStream]:
        return closing(
            RangeStream(
                name=self._name,
                ask=self._ask,
                patience=self._patience,
                start=start,
                stop=start + size,
                given_up=given_up,
            )
        )

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
            with self._stream(start, view.nbytes, given_up) as stream:
                stream.read_into(view)
        except BaseException:
            given_up.set()
            raise


class RangeStream:
    """The bytes ``[start, stop)`` in order, for one thread. An interrupted answer is resumed where it ended."""

    def __init__(
        self, *, name: str, ask: Ask, patience: RetryPolicy, start: int, stop: int, given_up: threading.Event
    ) -> None:
        self._name = name
        self._ask = ask
        self._patience = patience
        self._position = start
        self._stop = stop
        self._given_up = given_up
        self._arriving = self._resumed()
        next(self._arriving)

    def read_into(self, view: memoryview) -> None:
        """Fill the view with the next bytes; once given up, leave it as it is.

        Raises:
            ValueError: the range has fewer bytes left.
            AttestError: as ``ask``; or the error of the last attempt.
        """
        done = 0
        while done < view.nbytes:
            try:
                done += self._arriving.send(view[done:])
            except StopIteration:
                if self._given_up.is_set():
                    return
                raise ValueError(
                    f"the range of {self._name} has {view.nbytes - done} bytes less than were read"
                ) from None
        if self._position == self._stop:
            with suppress(StopIteration):
                self._arriving.send(view[:0])  # the answer ends here, or is refused as too long; its connection is free

    def close(self) -> None:
        """End the request."""
        self._arriving.close()

    def _resumed(self) -> Generator[int, memoryview, None]:
        """Fill each view that is sent, and yield the number of bytes; ask again after an interrupted answer."""
        mark, failures = self._position, 0
        self._view = yield 0
        while self._position < self._stop and not self._given_up.is_set():
            try:
                yield from self._answer()
            except Interruption as exc:
                interruption = exc
            else:
                continue
            if self._position == self._stop:  # interrupted behind the last byte
                return
            failures = 1 if self._position - mark >= PROGRESS_BYTES else failures + 1
            mark = self._position
            seconds = self._patience.wait_after(failures, interruption.wait)
            if seconds is None:
                raise interruption.error from interruption
            self._patience.sleep(seconds)

    def _answer(self) -> Generator[int, memoryview, None]:
        """Fill views from one answer.

        Raises:
            Interruption: it ended early, or takes too long; the time of the consumer does not count.
        """
        clock, waited = self._patience.monotonic, 0.0
        began = clock()
        with self._ask(self._position, self._stop) as receive:
            while left := self._stop - self._position:
                count = receive(self._view[:left])
                if not count:
                    raise Interruption(unreachable(self._name, f"the answer ended {left} bytes early"))
                waited += clock() - began
                self._position += count
                self._view = yield count
                if count < left and waited > self._patience.answer_seconds:
                    raise Interruption(unreachable(self._name, f"no whole answer within {waited:.0f} s"))
                began = clock()
            if receive(memoryview(bytearray(1))):
                raise SealedSourceError(
                    f"{self._name} sent more bytes than it announced",
                    code="sealed-source-answer-invalid",
                    expected="the requested bytes",
                    got="more",
                )


def receive_from(blocks: Iterator[bytes]) -> Receive:
    """Return the function that receives blocks, in order."""
    rest = memoryview(b"")

    def receive(view: memoryview) -> int:
        nonlocal rest
        if not rest:
            rest = memoryview(next(blocks, b""))
        taken, rest = rest[: len(view)], rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)

    return receive


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
