"""Time windows: days of the week, and a range of times of day (end excluded), in UTC.

``Mon-Fri 08:00-18:00``, ``Sat,Sun 00:00-24:00``, ``daily 22:00-24:00``, optionally with ``UTC``. A window does not
cross midnight; use two windows for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from attest.errors import ConfigurationError

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TEXT: Final = re.compile(
    r"(?P<days>[A-Za-z,-]+) (?P<from>[0-9]{2}:[0-9]{2})-(?P<to>[0-9]{2}:[0-9]{2})(?: UTC)?", re.ASCII
)
_MINUTES_A_DAY: Final = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time window.

    Attributes:
        days: of the week, 0 is Monday; at least one.
        start: first minute of the day inside, 0 to 1439.
        end: first minute of the day after it, up to 1440; above ``start``.
    """

    days: tuple[int, ...]
    start: int
    end: int

    @staticmethod
    def parse(text: str) -> Window:
        """Read a window.

        Raises:
            ConfigurationError: ``window-invalid``.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise _invalid(text)
        start, end = _minutes(found["from"], text), _minutes(found["to"], text)
        if start >= end:
            raise _invalid(text)
        return Window(days=_days(found["days"], text), start=start, end=end)

    def holds(self, at: datetime) -> bool:
        """Return True for a moment inside: from the first minute on, and before the end."""
        moment = at.astimezone(UTC)
        return moment.weekday() in self.days and self.start <= moment.hour * 60 + moment.minute < self.end

    def __str__(self) -> str:
        """Return its canonical spelling."""
        days = ",".join(_DAYS[day] for day in self.days)
        return f"{days} {_clock(self.start)}-{_clock(self.end)} UTC"


def _days(text: str, whole: str) -> tuple[int, ...]:
    if text == "daily":
        return tuple(range(7))
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in _DAYS or (last if dash else first) not in _DAYS:
            raise _invalid(whole)
        start, end = _DAYS.index(first), _DAYS.index(last if dash else first)
        if start > end:
            raise _invalid(whole)
        found |= set(range(start, end + 1))
    return tuple(sorted(found))


def _minutes(text: str, whole: str) -> int:
    hours, minutes = int(text[:2]), int(text[3:])
    if minutes > 59 or hours * 60 + minutes > _MINUTES_A_DAY:
        raise _invalid(whole)
    return hours * 60 + minutes


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _invalid(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:80]!r} is not a time window",
        code="window-invalid",
        field="window",
        expected="such as 'Mon-Fri 08:00-18:00', 'Sat,Sun 00:00-24:00' or 'daily 06:00-22:00', in UTC",
        hint="use two windows to cross midnight or the end of the week",
    )
