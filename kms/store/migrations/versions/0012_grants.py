"""Grants of roles."""

import sqlalchemy as sa
from alembic import op

from kms.store.schema import name_of

revision = "0012"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "grants",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("means", sa.String(16), nullable=False),
        sa.Column("name", name_of(512), nullable=False),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("granted_by_means", sa.String(16), nullable=False),
        sa.Column("granted_by", name_of(512), nullable=False),
        sa.Column("granted_at", sa.String(40), nullable=False),
        sa.Column("revoked_by_means", sa.String(16)),
        sa.Column("revoked_by", name_of(512)),
        sa.Column("revoked_at", sa.String(40)),
    )
    op.create_index("grants_identity", "grants", ["means", "name"])
