"""Rows with something wrapped in them, whatever aggregate they belong to: counted, and wrapped anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Table, func, select, tuple_, update

from kms.domain.keys import Wrapped
from kms.store.keys import key_versions, keys
from kms.store.own_secrets import secrets
from kms.store.repository import Repository

WRAPPED_TABLES: Final = (key_versions, secrets)
"""Every table with something wrapped in it: columns ``wrapped`` and ``kek_id``."""


class WrappedRowReader(Repository):
    """Wrapped rows in a reading transaction."""

    def counts(self) -> dict[bytes, dict[str, int]]:
        """Count what is wrapped, by the id of the key-encryption key and then by table."""
        counts: dict[bytes, dict[str, int]] = {}
        for table in WRAPPED_TABLES:
            grouped = select(table.c.kek_id, func.count()).where(_holds_something(table)).group_by(table.c.kek_id)
            for kek_id, number in self._connection.execute(grouped):
                counts.setdefault(bytes(kek_id), {})[table.name] = number
        return counts

    def elsewhere(
        self, table: Table, *, than: bytes, after: Sequence[object] | None, limit: int
    ) -> tuple[Mapping[str, object], ...]:
        """Return rows that are wrapped under another key than this, in the order of their primary key.

        A version of a key comes with the key's purpose, to which it is bound.

        Args:
            table: one of ``WRAPPED_TABLES``.
            than: id of a key-encryption key.
            after: primary key of the row after which to go on; None begins.
            limit: most rows.
        """
        columns = tuple(table.primary_key.columns)
        wanted = select(table, keys.c.purpose).join(keys) if table is key_versions else select(table)
        statement = wanted.where(table.c.kek_id != than, _holds_something(table))
        if after is not None:
            statement = statement.where(tuple_(*columns) > tuple_(*after))
        rows = self._connection.execute(statement.order_by(*columns).limit(limit)).mappings()
        return tuple({str(name): value for name, value in row.items()} for row in rows)


class WrappedRowRepository(WrappedRowReader):
    """Wrapped rows in a writing transaction."""

    def rewrap(self, table: Table, row: Mapping[str, object], wrapped: Wrapped) -> bool:
        """Put another wrapped form in the place of the one that a row had when it was read, if it still has it."""
        same = [table.c[column.name] == row[column.name] for column in table.primary_key.columns]
        same += [table.c.kek_id == row["kek_id"], table.c.wrapped == row["wrapped"]]
        values = {"wrapped": wrapped.content, "kek_id": wrapped.kek_id}
        return self._connection.execute(update(table).where(*same).values(**values)).rowcount == 1


def _holds_something(table: Table) -> ColumnElement[bool]:
    """Leave out what was wiped: it needs no key any more."""
    return func.length(table.c.wrapped) > 0
