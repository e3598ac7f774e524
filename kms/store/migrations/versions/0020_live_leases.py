"""The way to the leases that may be live, past those that ended."""

import sqlalchemy as sa
from alembic import op

from kms.store.schema import name_of

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "live_leases",
        sa.Column("lease_id", name_of(32), sa.ForeignKey("leases.lease_id"), primary_key=True),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("key_id", name_of(128), nullable=False),
        sa.Column("holder", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Index("live_leases_key", "tenant", "key_id", "expires_at"),
        sa.Index("live_leases_holder", "tenant", "key_id", "holder"),
        sa.Index("live_leases_expires_at", "expires_at"),
    )
    # Those that the sum of a key covers; a database from before the sums has no row of them yet.
    op.execute(
        "INSERT INTO live_leases (lease_id, tenant, key_id, holder, expires_at) "
        "SELECT l.lease_id, l.tenant, l.key_id, l.holder, l.expires_at FROM leases l "
        "LEFT JOIN lease_ends e ON e.lease_id = l.lease_id "
        "LEFT JOIN lease_counts c ON c.tenant = l.tenant AND c.key_id = l.key_id AND c.chip = '' "
        "WHERE e.lease_id IS NULL AND l.expires_at > COALESCE(c.live_since, 0)"
    )
