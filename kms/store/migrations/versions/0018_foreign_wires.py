"""Protocols of keys, addresses of other protocols, and documents of administrators of a Key Broker Service."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("keys", sa.Column("via", sa.String(64), nullable=True))
    op.create_table(
        "aliases",
        sa.Column("address", name_of(512), primary_key=True),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("key_id", name_of(128), nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
        sa.Index("aliases_key", "tenant", "key_id"),
    )
    op.create_table(
        "kbs_documents",
        sa.Column("name", name_of(512), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
    )
    make_append_only("kbs_documents")
