"""Periodic tasks of a running service: due rotations and destructions.

Every process of every replica does this; each task is done once, since the database decides by whom.

A destruction cannot be undone, so a clock that leaps must not bring one about: as long as the clock has not run evenly
for ten minutes, beside the machine's monotonic one, nothing is destroyed.
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
"""Beyond this the clock was set, and did not only run a little fast or slow since the last look."""
Pause: TypeAlias = Callable[[float], bool]
_log = logging.getLogger("kms")


@dataclass(slots=True, kw_only=True)
class SteadyClock:
    """A clock compared with the machine's monotonic one, to notice that it was set."""

    clock: Clock
    monotonic: Callable[[], float]
    _last: tuple[datetime, float] | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    def look(self) -> tuple[datetime, bool]:
        """Return the moment, and whether the clock has run evenly for ``SETTLING_SECONDS``."""
        at, ticks = self.clock(), self.monotonic()
        leap = timedelta(seconds=LEAP_SECONDS)
        if self._last is None or abs(at - self._last[0] - timedelta(seconds=ticks - self._last[1])) > leap:
            self._since = ticks
        self._last = (at, ticks)
        return at, ticks - self._since >= SETTLING_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """The due rotations and destructions, in rounds."""

    rotator: Rotator
    clock: SteadyClock
    report: Callable[[str], None]

    def round(self) -> None:
        """Do everything that is due. A failure is reported, and tried again in the next round."""
        at, steady = self.clock.look()
        try:
            for record in rotate_due(self.rotator, at=at, failed=self._failed):
                self.report(f"the key {record.name} was rotated: version {record.version} is current")
            if steady:
                for one in destroy_due(self.rotator.store, at=at, failed=self._failed):
                    self.report(f"{one} was destroyed")
        except AttestError as exc:
            self.report(f"error: upkeep: {exc.message} [{exc.code}]; it is tried again")

    def _failed(self, what: object, error: AttestError) -> None:
        self.report(f"error: upkeep of {what}: {error.message} [{error.code}]; it is tried again")


@contextmanager
def kept_up(upkeep: Upkeep, *, seconds: float = UPKEEP_SECONDS) -> Iterator[None]:
    """Do a round every so many seconds, in a thread of its own, while the block runs."""

    def round_and_wait(_: Pause) -> float:
        upkeep.round()
        return seconds

    with repeated("upkeep", round_and_wait, after=seconds):
        yield


@contextmanager
def repeated(name: str, work: Callable[[Pause], float], *, after: float) -> Iterator[None]:
    """Do work again and again, in a thread of its own, while the block runs.

    ``work`` returns the seconds to its next call. It gets a function that waits, and returns True when the block ends.
    """
    ended = threading.Event()

    def loop() -> None:
        seconds = after
        while not ended.wait(seconds):
            try:
                seconds = work(ended.wait)
            except Exception:  # noqa: BLE001  the service goes on, and so does its work
                _log.exception("internal error in the %s", name)

    thread = threading.Thread(target=loop, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
