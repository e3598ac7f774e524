"""Queries about the database itself, for ``kms fsck``, ``kms config check`` and the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, and_, exists, func, select

from kms.store import postgres, sqlite
from kms.store.failures import translated
from kms.store.repository import Repository
from kms.store.schema import metadata, protected


class _Dialect(Protocol):
    """The functions of each database's module that describe the database."""

    def triggers(self, connection: Connection) -> frozenset[str]: ...
    def trigger_names(self, table: str) -> tuple[str, ...]: ...
    def storage_problems(self, connection: Connection) -> tuple[str, ...]: ...
    def weak_durability(self, connection: Connection) -> str | None: ...


class AuditQueries(Repository):
    """Queries that concern no aggregate."""

    @contextmanager
    def part(self) -> Iterator[None]:
        """Open a part of the transaction, after whose failure the next part can still read.

        Raises:
            AttestError: as ``translated``.
        """
        with translated(), self._connection.begin_nested():
            yield

    def max_connections(self) -> int | None:
        """Return the number of connections that the server allows in total; None without a server."""
        if self._connection.dialect.name != "postgresql":
            return None
        return int(self._connection.exec_driver_sql("SHOW max_connections").scalar_one())

    def schema_differences(self) -> tuple[str, ...]:
        """Return the differences between the tables of the database and those of this version."""
        from alembic.autogenerate import compare_metadata  # noqa: PLC0415  'kms serve' starts faster without it
        from alembic.migration import MigrationContext  # noqa: PLC0415

        differences = compare_metadata(MigrationContext.configure(self._connection), metadata)
        return tuple(" ".join(str(difference).split())[:200] for difference in differences)

    def unprotected(self) -> tuple[str, ...]:
        """Return the append-only tables that lack a trigger."""
        found = self._dialect.triggers(self._connection)
        return tuple(
            f"the trigger {name} of {table} is missing"
            for table in protected()
            for name in self._dialect.trigger_names(table)
            if name not in found
        )

    def loose_rows(self) -> Mapping[str, int]:
        """Return the number of rows with a missing parent, for each foreign key."""
        found: dict[str, int] = {}
        for table in metadata.sorted_tables:
            for constraint in table.foreign_key_constraints:
                parent = constraint.referred_table.alias()
                same = and_(*(parent.c[each.column.name] == each.parent for each in constraint.elements))
                given = (each.parent.is_not(None) for each in constraint.elements)  # NULL has no parent
                statement = select(func.count()).select_from(table).where(~exists().where(same), *given)
                name = f"{table.name} ({', '.join(constraint.column_keys)})"
                found[name] = self._connection.execute(statement).scalar_one()
        return found

    def storage_problems(self) -> tuple[str, ...]:
        """Return the problems that the database finds in its own pages, if it can check them."""
        return self._dialect.storage_problems(self._connection)

    def weak_durability(self) -> str | None:
        """Return the setting that keeps a commit from reaching the disk, or None."""
        return self._dialect.weak_durability(self._connection)

    @property
    def _dialect(self) -> _Dialect:
        """The module of this database."""
        return postgres if self._connection.dialect.name == "postgresql" else sqlite
