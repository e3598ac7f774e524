"""Limits of keys: budgets, holders, chips, windows."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "key_limits",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    make_append_only("key_limits")
