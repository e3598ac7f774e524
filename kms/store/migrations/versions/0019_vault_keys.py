"""Settings of a vault's keys: release policies, operations, tags and times."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "vault_keys",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    make_append_only("vault_keys")
