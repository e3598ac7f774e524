"""Operations that migrations share. Each does the same for ever: databases of every version went through them."""

from __future__ import annotations

from alembic import op

from kms.store import postgres, sqlite


def make_append_only(*tables: str) -> None:
    """Let tables refuse every change of their rows."""
    dialect = postgres if op.get_bind().dialect.name == "postgresql" else sqlite
    for table in tables:
        for statement in dialect.append_only(table):
            op.execute(statement)


def allow_changes(table: str) -> None:
    """Let rows of an append-only table change again, until ``make_append_only``."""
    on_server = op.get_bind().dialect.name == "postgresql"
    for name in (postgres if on_server else sqlite).trigger_names(table):
        op.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if on_server else ""))
