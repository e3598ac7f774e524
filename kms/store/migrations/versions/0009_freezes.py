"""Freezes of keys, tenants, products, or everything."""

import sqlalchemy as sa
from alembic import op

from kms.store.schema import name_of

revision = "0009"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "freezes",
        sa.Column("scope", name_of(16), primary_key=True),
        sa.Column("name", name_of(256), primary_key=True),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("actor", sa.String(1024), nullable=False),
        sa.Column("means", sa.String(16), nullable=False),
        sa.Column("frozen_at", sa.String(40), nullable=False),
    )
