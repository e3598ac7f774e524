"""Tenants. An existing database has keys of one tenant, ``default``."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only

revision = "0005"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql"), primary_key=True),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    # A new database has no rows yet; the program that fills it adds its tenants, also from a backup.
    op.execute(
        "INSERT INTO tenants (name, created_at) SELECT 'default', MIN(created_at) FROM secrets HAVING COUNT(*) > 0"
    )
    make_append_only("tenants")
