"""Rows as entries of the authenticated state.

A row is an entry of the map: the digest of its table and primary key leads to the digest of its content. In a table
whose rows count together, the entry of a scope leads to the digest of all its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import cbor2
from sqlalchemy import Boolean, Column, ColumnElement, Integer, Row, Select, Table, select, type_coerce

from kms.store.schema import metadata

Values = Mapping[str, object]
"""A row as it is stored, by column."""


def authenticated(
    *scope: str, more: Mapping[str, object] | None = None, addressed: Sequence[str] = ()
) -> dict[str, object]:
    """Return the mark of a table whose rows are authenticated: each by itself, or all of a scope together.

    ``scope`` names the columns whose values rows of one scope share; ``"*"`` alone makes the table one scope.
    ``addressed`` names columns whose digest is another column, which readers compare.
    """
    return {**(more or {}), "scope": scope, "addressed": frozenset(addressed)}


def authenticated_tables() -> tuple[Table, ...]:
    """Return the tables with this mark."""
    return tuple(table for table in metadata.sorted_tables if "scope" in table.info)


def scope_of(table: Table) -> Sequence[str]:
    """Return the columns whose values rows of one entry share."""
    scope: tuple[str, ...] = table.info["scope"]
    if scope == ("*",):
        return ()
    return scope or tuple(column.name for column in table.primary_key.columns)


def counts_together(table: Table) -> bool:
    """Return True if one entry covers several rows."""
    return bool(table.info["scope"])


def whole_rows(*tables: Table) -> Select[Any]:  # Any: the columns of a row
    """Return the statement that selects what ``row_of`` takes, of one table or of several that are joined.

    Booleans are read as numbers: the library would take any text for true.
    """
    return select(*(_labelled(table, column) for table in tables for column in _columns(table)))


def _labelled(table: Table, column: Column[Any]) -> ColumnElement[Any]:  # Any: of every type
    read = type_coerce(column, Integer) if isinstance(column.type, Boolean) else column
    return read.label(f"{table.name}.{column.name}")


def row_of(table: Table, row: Row[Any]) -> dict[str, object]:  # Any: rows of several tables
    """Return the row of one table as it is stored."""
    found = row._mapping  # noqa: SLF001  SQLAlchemy's public name of it
    return {column.name: found[f"{table.name}.{column.name}"] for column in _columns(table)}


def _columns(table: Table) -> Iterator[Column[Any]]:  # Any: of every type
    return (column for column in table.columns if column.name not in table.info["addressed"])


def entry_key(table: Table, values: Values) -> bytes:
    """Return the key of the entry that a row belongs to, 32 bytes."""
    return sha256(cbor2.dumps([table.name, [_plain(values[name]) for name in scope_of(table)]])).digest()


def row_digest(table: Table, values: Values) -> bytes:
    """Return the digest of a row, 32 bytes. A column without a value does not count: a new one changes no digest."""
    addressed = table.info["addressed"]
    counted = sorted(name for name, value in values.items() if value is not None and name not in addressed)
    return sha256(cbor2.dumps([table.name, [[name, _plain(values[name])] for name in counted]])).digest()


def digest_of_all(digests: Iterable[bytes]) -> bytes | None:
    """Return the value of a scope's entry, from the digests of its rows; None for no rows."""
    every = sorted(digests)
    return sha256(b"".join(every)).digest() if every else None


def digest_of_entry(table: Table, rows: Sequence[Values]) -> bytes | None:
    """Return the value of the entry of these rows; None for no rows."""
    digests = [row_digest(table, values) for values in rows]
    if counts_together(table):
        return digest_of_all(digests)
    return digests[0] if digests else None


def stored_form(table: Table, row: Values) -> Values:
    """Return a row that is written as the database returns it."""
    return {column.name: _plain(row.get(column.name)) for column in _columns(table)}


def _plain(value: object) -> object:
    """Return a value as the database returns it: no boolean, no subclass of text."""
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value
