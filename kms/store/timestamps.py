"""Moments as numbers, so that the database can compare them: milliseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def moment_of(number: int) -> datetime:
    """Return the moment of a number of milliseconds.

    Raises:
        OverflowError: after the year 9999.
        TypeError: not an integer.
    """
    if type(number) is not int:  # no boolean; SQLite stores a value of any type in any column
        raise TypeError("a moment is a number of milliseconds")
    return _EPOCH + number * _MILLISECOND


def whole_millisecond(moment: datetime) -> datetime:
    """Return a moment with the precision of the database."""
    return moment_of(milliseconds(moment))
