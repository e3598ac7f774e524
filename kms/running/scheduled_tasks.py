"""Periodic tasks of a running service: due rotations and destructions.

Every process of every replica runs them; the database ensures that each task is done once.

A destruction cannot be undone, so a step of the clock must not cause one: nothing is destroyed until the clock has
agreed with the machine's monotonic clock for ten minutes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from attest.clock import Clock
from attest.errors import AttestError
from kms.keys.destruction import destroy_due
from kms.keys.rotation import Rotator, rotate_due

UPKEEP_SECONDS: Final = 30.0
SETTLING_SECONDS: Final = 600.0
LEAP_SECONDS: Final = 60.0
"""Larger differences since the last comparison mean that the clock was set; smaller ones are drift."""
Pause: TypeAlias = Callable[[float], bool]
_log = logging.getLogger("kms")


@dataclass(slots=True, kw_only=True)
class SteadyClock:
    """Comparison of a clock with the machine's monotonic clock, to detect that it was set."""

    clock: Clock
    monotonic: Callable[[], float]
    _last: tuple[datetime, float] | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def look(self) -> tuple[datetime, bool]:
        """Return the moment, and True if the clock has run evenly for ``SETTLING_SECONDS``."""
        at, ticks = self.clock(), self.monotonic()
        leap = timedelta(seconds=LEAP_SECONDS)
        if self._last is None or abs(at - self._last[0] - timedelta(seconds=ticks - self._last[1])) > leap:
            self._since = ticks
        self._last = (at, ticks)
        return at, ticks - self._since >= SETTLING_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Due rotations and destructions, in rounds."""

    rotator: Rotator
    clock: SteadyClock
    report: Callable[[str], None]

    def round(self) -> None:
        """Do everything that is due. A failure is reported, and retried in the next round."""
        at, steady = self.clock.look()
        try:
            for record in rotate_due(self.rotator, at=at, failed=self._failed):
                self.report(f"the key {record.name} was rotated: version {record.version} is current")
            if steady:
                for one in destroy_due(self.rotator.store, at=at, failed=self._failed):
                    self.report(f"{one} was destroyed")
        except AttestError as exc:
            self.report(f"error: scheduled tasks: {exc.message} [{exc.code}]; retrying")

    def _failed(self, what: object, error: AttestError) -> None:
        self.report(f"error: scheduled task for {what}: {error.message} [{error.code}]; retrying")


@contextmanager
def kept_up(upkeep: Upkeep, *, seconds: float = UPKEEP_SECONDS) -> Iterator[None]:
    """Do a round at this interval, in a separate thread, while the block runs."""

    def round_and_wait(_: Pause) -> float:
        upkeep.round()
        return seconds

    with repeated("upkeep", round_and_wait, after=seconds):
        yield


@contextmanager
def repeated(name: str, work: Callable[[Pause], float], *, after: float) -> Iterator[None]:
    """Repeat work in a separate thread while the block runs.

    ``work`` returns the seconds to its next call. Its argument is a function that waits, and returns True when the
    block ends.
    """
    ended = threading.Event()

    def loop() -> None:
        seconds = after
        while not ended.wait(seconds):
            try:
                seconds = work(ended.wait)
            except Exception:  # noqa: BLE001  the service and this work continue
                _log.exception("internal error in the %s", name)

    thread = threading.Thread(target=loop, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
