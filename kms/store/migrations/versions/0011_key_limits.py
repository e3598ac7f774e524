"""Limits of keys: budgets, holders, chips, windows."""

import sqlalchemy as sa
from alembic import op

from kms.store.append_only import append_only

revision = "0011"
down_revision = "0010"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "key_limits",
        sa.Column("tenant", _name(64), primary_key=True),
        sa.Column("key_id", _name(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    for statement in append_only(op.get_bind(), "key_limits"):
        op.execute(statement)
