"""Whole tables, row by row, for backups."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, islice

from sqlalchemy import Table, insert, select

from kms.store import postgres
from kms.store.repository import Repository
from kms.store.schema import metadata
from kms.store.state_rows import counts_together, digest_of_all, entry_key, row_digest, row_of, scope_of, whole_rows

_PAGE_ROWS = 500
_PAGE_ENTRIES = 100_000


class TableReader(Repository):
    """Tables in a reading transaction."""

    def rows(self, table: Table) -> Generator[Mapping[str, object], None, None]:
        """Iterate over every row of a table in the order of its primary key; close the iterator to stop early."""
        statement = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_PAGE_ROWS)
        with self._connection.execute(statement) as rows:
            for row in rows.mappings():
                yield {column.name: row[column] for column in table.columns}

    def entries(self, table: Table) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over the entries that an authenticated table should have in the state; close it to stop early."""
        scope = scope_of(table)
        order = [*(table.c[name] for name in scope), *table.primary_key.columns]
        statement = whole_rows(table).order_by(*order).execution_options(yield_per=_PAGE_ROWS)
        with self._connection.execute(statement) as rows:
            whole = (row_of(table, row) for row in rows)
            for _, group in groupby(whole, key=lambda row: [row[name] for name in scope]):
                first, *others = group
                digest = row_digest(table, first)
                if counts_together(table):
                    digest = digest_of_all([digest, *(row_digest(table, row) for row in others)]) or digest
                yield entry_key(table, first), digest


class TableRepository(TableReader):
    """Tables in a writing transaction."""

    def add(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Write rows with their numbers; call ``settle_numbers`` after the last of them."""
        self._connection.execute(insert(table), [dict(row) for row in rows])

    def authenticate(self, table: Table) -> int:
        """Put every row of a table into the state as it is, unverified; return the number of entries."""
        number = 0
        with closing(self.entries(table)) as entries:
            while page := list(islice(entries, _PAGE_ENTRIES)):
                for key, value in page:
                    self._state.put(key, value)
                self._state.flush()
                number += len(page)
        return number

    def settle_numbers(self) -> None:
        """Let the database continue its numbers after the highest one."""
        if self._connection.dialect.name == "postgresql":
            postgres.settle_numbers(self._connection, metadata.sorted_tables)
