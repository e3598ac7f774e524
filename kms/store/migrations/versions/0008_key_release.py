"""Release of a key: disclosure to a refused workload, and lifetime of leases."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("keys", sa.Column("disclosure", sa.String(16), nullable=True))
    op.add_column("keys", sa.Column("lease_seconds", sa.Integer, nullable=True))
