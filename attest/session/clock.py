"""The one place of a session that reads clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime

__all__ = ["now", "since_boot"]


def now() -> datetime:
    """Return what the machine takes for the present moment, UTC."""
    return datetime.now(UTC)


def since_boot() -> float:
    """Return seconds that never run backwards and, where the kernel counts them, go on while the machine sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
