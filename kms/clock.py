"""The one place of this service that reads the clock. Everything else is given the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Clock", "system_clock"]

Clock = Callable[[], datetime]
"""Returns the present moment, aware and in UTC."""


def system_clock() -> datetime:
    """Return what the machine takes for the present moment."""
    return datetime.now(UTC)
