"""Floors of the service and of tenants."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "floors",
        sa.Column("scope", name_of(64), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
    )
    make_append_only("floors")
