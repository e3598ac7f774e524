"""Who may administer what."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0003"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "grants",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("means", sa.String(16), nullable=False),
        sa.Column("name", _name(512), nullable=False),
        sa.Column("tenant", _name(64), nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("granted_by_means", sa.String(16), nullable=False),
        sa.Column("granted_by", _name(512), nullable=False),
        sa.Column("granted_at", sa.String(40), nullable=False),
        sa.Column("revoked_by_means", sa.String(16)),
        sa.Column("revoked_by", _name(512)),
        sa.Column("revoked_at", sa.String(40)),
    )
    op.create_index("grants_identity", "grants", ["means", "name"])
