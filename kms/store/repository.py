"""Base of all repositories: the connection of their transaction, and the reading of rows.

Each repository makes its objects from rows in one function, which refuses an altered row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Row, Select, Table, Update, bindparam, delete, insert, update

from attest.errors import AttestError
from kms.domain.errors import damaged
from kms.domain.state_root import forged
from kms.store.state import State
from kms.store.state_rows import (
    Values,
    counts_together,
    digest_of_all,
    digest_of_entry,
    entry_key,
    row_digest,
    row_of,
    scope_of,
    stored_form,
    whole_rows,
)


class Repository:
    """One aggregate, in the transaction of this connection.

    Rows of authenticated tables are read whole and compared with the state, and changed by the functions of this class.
    """

    def __init__(self, connection: Connection, state: State) -> None:
        self._connection = connection
        self._state = state

    def _genuine(self, table: Table, row: Row[Any]) -> Values:  # Any: rows of several tables
        """Return the row of a table that ``whole_rows`` selected, after comparing it with the state.

        Raises:
            IntegrityError: ``state-forged``.
        """
        values = row_of(table, row)
        if self._state.verifies and self._state.value(entry_key(table, values)) != row_digest(table, values):
            raise forged(_altered(table, values), field=table.name)
        return values

    def _row(self, table: Table, **primary_key: object) -> Values | None:
        """Return the row of a primary key, or None, after comparing it with the state.

        Raises:
            IntegrityError: ``state-forged``.
        """
        found = self._connection.execute(_row_of_key(table), primary_key).all()
        rows = self._compared(table, primary_key, tuple(row_of(table, row) for row in found))
        return rows[0] if rows else None

    def _all_of_scope(self, table: Table, scope: Values) -> tuple[Values, ...]:
        """Return the rows of a scope that count together, by primary key, after comparing them with the state."""
        given = {name: scope[name] for name in scope_of(table)}
        found = self._connection.execute(_rows_of_scope(table), given)
        return self._compared(table, given, tuple(row_of(table, row) for row in found))

    def _compared(self, table: Table, scope: Values, found: tuple[Values, ...]) -> tuple[Values, ...]:
        """Return the rows of an entry, after comparing them with the state or with what it verified before."""
        if not self._state.verifies:
            return found
        key = entry_key(table, scope)
        digest = self._state.value(key)
        known = () if digest is None else self._state.authority.rows(key, digest)
        if known == found:
            return known
        if digest is None or digest_of_entry(table, found) != digest:
            raise forged(_difference(table, scope, found, digest), field=table.name)
        self._state.authority.keep_rows(key, digest, found)
        return found

    def _require_none(self, table: Table, **primary_key: object) -> None:
        """Refuse if the state has a row that was not found in the table.

        Raises:
            IntegrityError: ``state-forged``.
        """
        if self._state.verifies and self._state.value(entry_key(table, primary_key)) is not None:
            raise forged(f"a row of {table.name} was removed: {_named(primary_key)}", field=table.name)

    def _add(self, table: Table, *rows: Values) -> None:
        """Write new rows.

        Raises:
            IntegrityError: ``state-forged``: such a row was removed, or one of its scope altered.
            sqlalchemy.exc.IntegrityError: there is such a row.
        """
        if counts_together(table):
            for scope, added in _by_scope(table, rows):
                self._put_all(table, scope, (*self._all_of_scope(table, scope), *added))
        self._connection.execute(_insertion(table), [dict(row) for row in rows])
        if not counts_together(table):
            for row in rows:
                self._require_none(table, **{name: row[name] for name in scope_of(table)})
                self._put(table, row)

    def _replace(self, table: Table, before: Values, **changes: object) -> None:
        """Change columns of a row that was read by ``_genuine`` or ``_all_of_scope``; its primary key stays."""
        after = {**before, **changes}
        if counts_together(table):
            others = [row for row in self._all_of_scope(table, before) if row != before]
            self._put_all(table, before, (*others, after))
        else:
            self._put(table, after)
        given = {f"of_{column.name}": before[column.name] for column in table.primary_key.columns}
        given |= {f"new_{name}": value for name, value in changes.items()}
        self._connection.execute(_change(table, tuple(changes)), given)

    def _remove(self, table: Table, *removed: Values) -> None:
        """Remove rows that were read by ``_genuine`` or ``_all_of_scope``."""
        for scope, gone in _by_scope(table, removed):
            if counts_together(table):
                self._put_all(table, scope, [row for row in self._all_of_scope(table, scope) if row not in gone])
            else:
                self._state.put(entry_key(table, scope), None)
            for row in gone:
                self._connection.execute(delete(table).where(*_same(table, row)))

    def _put(self, table: Table, row: Values) -> None:
        key, digest = entry_key(table, row), row_digest(table, row)
        self._state.put(key, digest)
        self._state.authority.keep_rows(key, digest, (stored_form(table, row),))

    def _put_all(self, table: Table, scope: Values, rows: Iterable[Values]) -> None:
        self._state.put(entry_key(table, scope), digest_of_all(row_digest(table, row) for row in rows))


# Statements of every release are built once: building one takes longer than executing it.
@cache
def _rows_of_scope(table: Table) -> Select[Any]:  # Any: the columns of a row
    same = [table.c[name] == bindparam(name) for name in scope_of(table)]
    return whole_rows(table).where(*same).order_by(*table.primary_key.columns)


@cache
def _row_of_key(table: Table) -> Select[Any]:  # Any: as above
    return whole_rows(table).where(*(column == bindparam(column.name) for column in table.primary_key.columns))


@cache
def _change(table: Table, names: tuple[str, ...]) -> Update:
    same = (column == bindparam(f"of_{column.name}") for column in table.primary_key.columns)
    return update(table).where(*same).values({name: bindparam(f"new_{name}") for name in names})


@cache
def _insertion(table: Table) -> Insert:
    return insert(table)


def _same(table: Table, row: Values) -> list[ColumnElement[bool]]:
    return [column == row[column.name] for column in table.primary_key.columns]


def _by_scope(table: Table, rows: Iterable[Values]) -> Iterable[tuple[Values, list[Values]]]:
    groups: dict[tuple[object, ...], list[Values]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in scope_of(table)), []).append(row)
    return [(group[0], group) for group in groups.values()]


def _difference(table: Table, scope: Values, found: tuple[Values, ...], digest: bytes | None) -> str:
    if counts_together(table):
        return f"rows of {table.name} were altered, added or removed"
    if not found:
        return f"a row of {table.name} was removed: {_named(scope)}"
    return _altered(table, found[0]) if digest else f"a row of {table.name} was added: {_named(scope)}"


def _altered(table: Table, values: Values) -> str:
    key = {column.name: values[column.name] for column in table.primary_key.columns}
    return f"a row of {table.name} was altered: {_named(key)}"


def _named(key: Values) -> str:
    return ", ".join(f"{name} {v.hex()[:16] if isinstance(v, bytes) else v}" for name, v in key.items())[:200]


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
