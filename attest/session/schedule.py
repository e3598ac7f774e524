"""Clock, randomness and renewal times of a session."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.clock import since_boot, system_clock

IDLE_SECONDS: Final = 60.0
"""The longest sleep between renewals: a session that was garbage collected, or a clock that was set, is noticed within
a minute."""
_chance: Final = random.SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment on both clocks, of which neither is trusted alone.

    Attributes:
        wall: the machine's time, which can be set.
        ticks: seconds that never run backwards; they may stand still while a virtual machine does.
    """

    wall: datetime
    ticks: float

    def seconds_to(self, later: Moment) -> float:
        """Return the seconds until a later moment, by the clock that shows more."""
        return max(later.ticks - self.ticks, (later.wall - self.wall).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTiming:
    """Sources of time and randomness; the defaults are the machine's own.

    Attributes:
        now: the present moment, aware, UTC.
        ticks: seconds that never run backwards.
        random: a number from 0, included, to 1, excluded.
        pause: waits so many seconds before a retry; None waits until then, or until the session is closed.
        pause_async: the same for ``AsyncSession``; None is ``asyncio.sleep``.
        renew_after: seconds after which a lease is renewed, if that is sooner than after two thirds of its time: a
            stricter policy takes effect that much sooner, for that many more requests.
    """

    now: Callable[[], datetime] = system_clock
    ticks: Callable[[], float] = since_boot
    random: Callable[[], float] = _chance.random
    pause: Callable[[float], None] | None = None
    pause_async: Callable[[float], Awaitable[None]] | None = None
    renew_after: float | None = None

    def moment(self) -> Moment:
        """Read both clocks."""
        return Moment(wall=self.now(), ticks=self.ticks())

    def deadline(self, seconds: float) -> Deadline:
        """Return the end of something that begins now."""
        return Deadline(timing=self, begun=self.ticks(), seconds=seconds)


SYSTEM_TIMING = SessionTiming()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """The end of a call: so many seconds after the ticks at its beginning."""

    timing: SessionTiming
    begun: float
    seconds: float

    def left(self) -> float:
        """Return the remaining seconds; zero or negative after the end."""
        return self.begun + self.seconds - self.timing.ticks()
