"""Freezes of keys, tenants, products, or everything."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0005"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "freezes",
        sa.Column("scope", _name(16), primary_key=True),
        sa.Column("name", _name(256), primary_key=True),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("actor", sa.String(1024), nullable=False),
        sa.Column("means", sa.String(16), nullable=False),
        sa.Column("frozen_at", sa.String(40), nullable=False),
    )
