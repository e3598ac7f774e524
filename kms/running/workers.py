"""Worker processes on the same sockets, and a supervising process.

The supervising process opens no database and no key. It forks workers, each of which opens everything after the fork.
A worker that dies is replaced; waiting connections stay in the socket, which remains open.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A worker that served this long resets its count of deaths."""
KILL_MARGIN_SECONDS: Final = 10.0
"""Time after the end of draining at which a worker that is still running is killed."""
KILLED: Final = 1
"""Exit code if a worker was killed, so that requests may have been interrupted."""
_MAX_READY_BYTES: Final = 4096
_ENDING = (signal.SIGTERM, signal.SIGINT)


def restart_delay(deaths: int) -> float:
    """Return the delay of a restart in seconds, for at least 1 death since the worker last served for a minute."""
    return min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(deaths - 1, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker process, seen from its own code; numbers start at 1, and a replacement keeps the number.

    ``lifeline`` reads as ended when the supervising process is gone; ``ready`` writes to the descriptor ``announcing``.
    """

    number: int
    lifeline: int
    announcing: int

    def ready(self, identity: str) -> None:
        """Announce that this worker serves, and its identity."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.announcing, identity.encode())
        os.close(self.announcing)


@dataclass(slots=True)
class _Place:
    """The successive workers of one number."""

    number: int
    pid: int | None = None
    hearing: int | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    deaths: int = 0


def supervise(
    count: int, *, drain_seconds: int, announce: Callable[[str], None], report: Callable[[str], None]
) -> Worker | int:
    """Keep ``count`` workers running until SIGTERM or SIGINT; these signals and SIGHUP are forwarded to them.

    The function returns in every process: in a worker with its ``Worker``, and in the supervising process, at the end,
    with the exit code, which is 0, ``KILLED`` if a worker did not end in time, or the code of a first worker that never
    served. The other workers start only after the first one serves. ``announce`` is called once, in the supervising
    process, with the identity of the first worker.
    """
    return _Supervisor(count, drain_seconds=drain_seconds, announce=announce, report=report).run()


@dataclass(slots=True)
class _Supervisor:
    count: int
    drain_seconds: int = field(kw_only=True)
    announce: Callable[[str], None] = field(kw_only=True)
    report: Callable[[str], None] = field(kw_only=True)
    places: list[_Place] = field(init=False)
    selector: selectors.BaseSelector = field(init=False)
    lifeline: tuple[int, int] = field(init=False)
    woken: tuple[int, int] = field(init=False)
    served: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.places = [_Place(number=number + 1) for number in range(self.count)]
        self.lifeline, self.woken = os.pipe(), os.pipe()
        for end in self.woken:
            os.set_blocking(end, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.woken[0], selectors.EVENT_READ)

    def run(self) -> Worker | int:
        signal.set_wakeup_fd(self.woken[1], warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, _note)
        while True:
            worker = self._start_due()
            if worker is not None:
                return worker
            signals = self._wait()
            if signals & set(_ENDING):
                return self._drain()
            if signal.SIGHUP in signals:
                self._signal(signal.SIGHUP)
            code = self._bury()
            if code is not None:
                return code

    # -- starting

    def _start_due(self) -> Worker | None:
        now = time.monotonic()
        for place in self.places if self.served else self.places[:1]:
            if place.pid is None and place.start_at <= now:
                worker = self._fork(place, now)
                if worker is not None:
                    return worker
        return None

    def _fork(self, place: _Place, now: float) -> Worker | None:
        hearing, announcing = os.pipe()
        # A signal to a new worker that still has this process's handlers would be lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_ENDING, signal.SIGHUP))
        pid = os.fork()
        if pid == 0:
            os.close(hearing)
            self._leave()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return Worker(number=place.number, lifeline=self.lifeline[0], announcing=announcing)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(announcing)
        self.selector.register(hearing, selectors.EVENT_READ, place)
        place.pid, place.hearing, place.started_at = pid, hearing, now
        return None

    def _leave(self) -> None:
        """Drop, in a worker, the resources of the supervising process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # before it serves, there is nothing to reload
        self.selector.close()
        os.close(self.lifeline[1])
        for end in (*self.woken, *(place.hearing for place in self.places if place.hearing is not None)):
            os.close(end)

    # -- watching

    def _wait(self) -> set[int]:
        """Wait for a signal, for the first message of a worker, or until one is due to start; return the signals."""
        due = [place.start_at for place in self.places if place.pid is None] if self.served else []
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        signals: set[int] = set()
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                signals |= set(os.read(self.woken[0], _MAX_READY_BYTES))
            else:
                self._hear(key.data)
        return signals

    def _hear(self, place: _Place) -> None:
        identity = os.read(place.hearing or 0, _MAX_READY_BYTES).decode(errors="replace")
        self._stop_hearing(place)
        if identity and not self.served:
            self.served = True
            self.announce(identity)

    def _stop_hearing(self, place: _Place) -> None:
        if place.hearing is not None:
            self.selector.unregister(place.hearing)
            os.close(place.hearing)
            place.hearing = None

    def _bury(self) -> int | None:
        """Record which workers have died; return an exit code if none of them ever served."""
        for place in self.places:
            status = _ended(place.pid)
            if status is None:
                continue
            now = time.monotonic()
            pid, place.pid = place.pid, None
            if place.hearing is not None:
                self._hear(place)  # it may have served for a moment
            if not self.served:
                return status if status > 0 else KILLED
            place.deaths = 1 if now - place.started_at >= STEADY_SECONDS else place.deaths + 1
            delay = restart_delay(place.deaths)
            place.start_at = now + delay
            how = f"was killed by signal {-status}" if status < 0 else f"ended with code {status}"
            self.report(f"error: worker {place.number} (process {pid}) {how}; restarting in {delay:g} s")
        return None

    # -- ending

    def _signal(self, number: int) -> None:
        for place in self.places:
            if place.pid is not None:
                os.kill(place.pid, number)  # not reaped yet, so the number is still its own

    def _drain(self) -> int:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + self.drain_seconds + KILL_MARGIN_SECONDS
        while self._count() and time.monotonic() < deadline:
            self.selector.select(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(BlockingIOError):
                os.read(self.woken[0], _MAX_READY_BYTES)
            for place in self.places:
                if place.hearing is not None:
                    self._stop_hearing(place)
        left = self._count()
        if not left:
            return 0
        self.report(f"error: {left} workers did not end within {self.drain_seconds} s and are killed")
        self._signal(signal.SIGKILL)
        for place in self.places:
            if place.pid is not None:
                os.waitpid(place.pid, 0)
        return KILLED

    def _count(self) -> int:
        """Return the number of live workers."""
        for place in self.places:
            if _ended(place.pid) is not None:
                place.pid = None
        return sum(place.pid is not None for place in self.places)


def _note(number: int, frame: object) -> None:
    """Let a signal wake ``select``, which reads its number; the handler does nothing else."""
    del number, frame


def _ended(pid: int | None) -> int | None:
    """Return the exit code of a child that has ended, negative for a signal; None if it is running or missing."""
    if pid is None:
        return None
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None
