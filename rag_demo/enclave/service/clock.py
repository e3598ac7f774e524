"""The one place of the enclave that reads the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Clock", "now", "ticks"]

Clock = Callable[[], datetime]
"""Returns the present moment, aware and in UTC."""


def now() -> datetime:
    """Return what the machine takes for the present moment."""
    return datetime.now(UTC)


def ticks() -> float:
    """Return seconds that never run backwards."""
    return time.monotonic()
