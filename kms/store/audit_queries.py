"""What can be asked of a database about itself, without a word of what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection, and_, exists, func, select

from kms.store import postgres, sqlite
from kms.store.schema import PROTECTED, metadata, used_nonces

__all__ = [
    "loose_rows",
    "max_connections",
    "schema_differences",
    "storage_problems",
    "unprotected",
    "waiting_nonces",
    "weak_durability",
]


class _Dialect(Protocol):
    """What the modules of both databases have."""

    def triggers(self, connection: Connection) -> frozenset[str]: ...
    def trigger_names(self, table: str) -> tuple[str, ...]: ...
    def storage_problems(self, connection: Connection) -> tuple[str, ...]: ...
    def weak_durability(self, connection: Connection) -> str | None: ...


def max_connections(connection: Connection) -> int | None:
    """Return how many connections the server lets everybody have together; None where there is no server."""
    if connection.dialect.name != "postgresql":
        return None
    return int(connection.exec_driver_sql("SHOW max_connections").scalar_one())


def waiting_nonces(connection: Connection) -> int:
    """Return how many used challenges are remembered, until each would have ended anyway."""
    return int(connection.execute(select(func.count()).select_from(used_nonces)).scalar_one())


def schema_differences(connection: Connection) -> tuple[str, ...]:
    """Compare the tables that are there with those that this version works with."""
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415  'kms serve' starts faster without it
    from alembic.migration import MigrationContext  # noqa: PLC0415

    differences = compare_metadata(MigrationContext.configure(connection), metadata)
    return tuple(" ".join(str(difference).split())[:200] for difference in differences)


def unprotected(connection: Connection) -> tuple[str, ...]:
    """Return the append-only tables that lack a trigger."""
    found = _dialect(connection).triggers(connection)
    return tuple(
        f"{table} lacks its trigger {name}"
        for table in PROTECTED
        for name in _dialect(connection).trigger_names(table)
        if name not in found
    )


def loose_rows(connection: Connection) -> Mapping[str, int]:
    """Count, for each foreign key, the rows that refer to nothing."""
    found: dict[str, int] = {}
    for table in metadata.sorted_tables:
        for constraint in table.foreign_key_constraints:
            parent = constraint.referred_table.alias()
            same = and_(*(parent.c[each.column.name] == each.parent for each in constraint.elements))
            given = (each.parent.is_not(None) for each in constraint.elements)  # NULL refers to nothing, and may
            statement = select(func.count()).select_from(table).where(~exists().where(same), *given)
            name = f"{table.name} ({', '.join(constraint.column_keys)})"
            found[name] = connection.execute(statement).scalar_one()
    return found


def storage_problems(connection: Connection) -> tuple[str, ...]:
    """Let the database look at its own pages, where it can."""
    return _dialect(connection).storage_problems(connection)


def weak_durability(connection: Connection) -> str | None:
    """Say what keeps a commit from being on the disk, or None."""
    return _dialect(connection).weak_durability(connection)


def _dialect(connection: Connection) -> _Dialect:
    """Return the module of this database."""
    if connection.dialect.name == "postgresql":
        return postgres
    return sqlite
