"""Tables that are never rewritten, in the SQL of each database."""

from __future__ import annotations

from sqlalchemy import Connection

from kms.store import postgres, sqlite


def append_only(connection: Connection, table: str) -> tuple[str, ...]:
    """Return the statements that make a table of this database refuse every change of its rows."""
    if connection.dialect.name == "postgresql":
        return postgres.append_only(table)
    return sqlite.append_only(table)


def dropped_append_only(connection: Connection, table: str) -> tuple[str, ...]:
    """Return the statements that let rows of a table change again, for a migration."""
    on = f" ON {table}" if connection.dialect.name == "postgresql" else ""
    names = postgres.trigger_names(table) if on else sqlite.trigger_names(table)
    return tuple(f"DROP TRIGGER {name}{on}" for name in names)
