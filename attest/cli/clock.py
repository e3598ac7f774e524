"""The one place at this edge that reads the clock."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["now"]


def now() -> datetime:
    """Return the present moment, UTC, without fractions of a second."""
    return datetime.now(UTC).replace(microsecond=0)
