"""The one module that reads the clocks. All others receive the time as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present moment, aware and in UTC."""


def system_clock() -> datetime:
    """Return the present moment by the machine's clock."""
    return datetime.now(UTC)


def this_second() -> datetime:
    """Return the present moment without fractions of a second."""
    return system_clock().replace(microsecond=0)


def ticks() -> float:
    """Return seconds that never run backwards."""
    return time.monotonic()


def since_boot() -> float:
    """Return seconds that never run backwards and, where the kernel counts them, go on while the machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return ticks() if boottime is None else time.clock_gettime(boottime)
