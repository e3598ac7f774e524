"""The base of all repositories: the connection of their transaction, and how a row is read.

Each repository makes its objects from rows in one function, which refuses a row that was altered into nonsense.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from attest.errors import AttestError
from kms.domain.errors import damaged


class Repository:
    """One aggregate, in one transaction.

    Args:
        connection: on which the store opened the transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


@contextmanager
def readable(problem: str, *, code: str, field: str) -> Iterator[None]:
    """Make a block that reads a row; a row that cannot be read is an integrity failure and no crash.

    Args:
        problem: text of the failure.
        code: stable code of it.
        field: table or object that it concerns.

    Raises:
        IntegrityError: ``code``.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, AttestError) as exc:
        raise damaged(problem, code=code, field=field) from exc


def blob(value: object) -> bytes:
    """Return the bytes of a column. SQLite keeps any type that is written into a column.

    Raises:
        TypeError: the column holds something else.
    """
    if not isinstance(value, bytes):
        msg = "expected bytes in the database"
        raise TypeError(msg)
    return value


def whole_number(value: object) -> int:
    """Return the integer of a column.

    Raises:
        TypeError: the column holds something else.
    """
    if not isinstance(value, int):
        msg = "expected an integer in the database"
        raise TypeError(msg)
    return value
