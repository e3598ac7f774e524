"""Whole tables, row by row, for backups."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from sqlalchemy import Table, insert, select

from kms.store import postgres
from kms.store.repository import Repository
from kms.store.schema import metadata

_PAGE_ROWS = 500


class TableReader(Repository):
    """Tables in a reading transaction."""

    def rows(self, table: Table) -> Generator[Mapping[str, object], None, None]:
        """Iterate over every row of a table in the order of its primary key; close the iterator to stop early."""
        statement = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_PAGE_ROWS)
        with self._connection.execute(statement) as rows:
            for row in rows.mappings():
                yield {column.name: row[column] for column in table.columns}


class TableRepository(TableReader):
    """Tables in a writing transaction."""

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Write rows with their numbers; call ``settle_numbers`` after the last of them."""
        self._connection.execute(insert(table), [dict(row) for row in rows])

    def settle_numbers(self) -> None:
        """Let the database continue its numbers after the highest one."""
        if self._connection.dialect.name == "postgresql":
            postgres.settle_numbers(self._connection, metadata.sorted_tables)
