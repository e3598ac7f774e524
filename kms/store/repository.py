"""Base of all repositories: the connection of their transaction, and the reading of rows.

Each repository makes its objects from rows in one function, which refuses an altered row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from attest.errors import AttestError
from kms.domain.errors import damaged


class Repository:
    """One aggregate, in the transaction of this connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


@contextmanager
def readable(problem: str, *, code: str, field: str) -> Iterator[None]:
    """Open a block that reads a row, whose errors become an integrity failure with this text, code and field.

    Raises:
        IntegrityError: ``code``.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, AttestError) as exc:
        raise damaged(problem, code=code, field=field) from exc


def blob(value: object) -> bytes:
    """Return the bytes of a column. SQLite stores a value of any type in any column.

    Raises:
        TypeError: the column holds something else.
    """
    if not isinstance(value, bytes):
        raise TypeError("expected bytes in the database")
    return value


def whole_number(value: object) -> int:
    """Return the integer of a column.

    Raises:
        TypeError: the column holds something else.
    """
    if not isinstance(value, int):
        raise TypeError("expected an integer in the database")
    return value
