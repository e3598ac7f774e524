"""The one place of the client that reads the clock."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["now"]


def now() -> datetime:
    """Return what this machine takes for the present moment, UTC."""
    return datetime.now(UTC)
