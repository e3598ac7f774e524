"""The one place of the agent that reads a clock."""

from __future__ import annotations

import time

__all__ = ["since_start"]


def since_start() -> float:
    """Return seconds that never run backwards."""
    return time.monotonic()
