"""Rows with wrapped secrets, of any aggregate: their numbers, and re-wrapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Table, func, select, tuple_

from kms.domain.keys import Wrapped
from kms.store.keys import key_versions, keys
from kms.store.own_secrets import secrets
from kms.store.repository import Repository, blob, readable
from kms.store.state_rows import whole_rows

WRAPPED_TABLES: Final = (key_versions, secrets)
"""Every table with wrapped secrets: columns ``wrapped`` and ``kek_id``."""


class WrappedRowReader(Repository):
    """Wrapped rows in a reading transaction."""

    def counts(self) -> dict[bytes, dict[str, int]]:
        """Return the numbers of wrapped secrets, by the id of the key-encryption key and then by table.

        Raises:
            IntegrityError: ``wrapped-key-invalid``.
        """
        counts: dict[bytes, dict[str, int]] = {}
        for table in WRAPPED_TABLES:
            grouped = select(table.c.kek_id, func.count()).where(_holds_something(table)).group_by(table.c.kek_id)
            problem = f"the id of a key-encryption key in {table.name} is malformed"
            with readable(problem, code="wrapped-key-invalid", field=table.name):
                for kek_id, number in self._connection.execute(grouped):
                    counts.setdefault(blob(kek_id), {})[table.name] = number
        return counts

    def elsewhere(
        self, table: Table, *, than: bytes, after: Sequence[object] | None, limit: int
    ) -> tuple[Mapping[str, object], ...]:
        """Return rows of one of ``WRAPPED_TABLES`` that are wrapped under another key, in the order of primary keys.

        A version of a key has the key's purpose, to which it is bound. ``after`` is the primary key of the row after
        which to start.
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
        """Replace the wrapped form of a row, if it is still the one that was read; return True if so."""
        same = [table.c[column.name] == row[column.name] for column in table.primary_key.columns]
        found = self._connection.execute(whole_rows(table).where(*same)).one_or_none()
        now = None if found is None else self._genuine(table, found)
        if now is None or (now["kek_id"], now["wrapped"]) != (row["kek_id"], row["wrapped"]):
            return False
        self._replace(table, now, wrapped=wrapped.content, kek_id=wrapped.kek_id)
        return True


def _holds_something(table: Table) -> ColumnElement[bool]:
    """Exclude destroyed material, which needs no key."""
    return func.length(table.c.wrapped) > 0
