"""Durations as text: a number and a unit, ``30d``, ``12h``, ``90m``, ``45s``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from attest.errors import ConfigurationError

LONGEST: Final = timedelta(days=3650)
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})([dhms])")


def parse_duration(text: str) -> timedelta:
    """Read a duration of at most ten years.

    Raises:
        ConfigurationError: ``duration-invalid``.
    """
    match = _DURATION.fullmatch(text)
    found = timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match else None
    if found is None or found > LONGEST:
        raise ConfigurationError(
            f"{text[:40]!r} is not a duration",
            code="duration-invalid",
            expected="a whole number and d, h, m or s, such as 30d, at most 3650d",
            got=repr(text[:40]),
        )
    return found


def duration_text(length: timedelta) -> str:
    """Return a duration in whole numbers of the largest unit that fits."""
    seconds = length // timedelta(seconds=1)
    unit, size = next((unit, size) for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // size}{unit}"
