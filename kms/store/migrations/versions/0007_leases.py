"""Leases, their early ends, and stops of their renewal."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0007"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "lease_claims",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("claims", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("lease_id", name_of(32), primary_key=True),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("key_id", name_of(128), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("policy_digest", sa.LargeBinary, sa.ForeignKey("policies.digest"), nullable=False),
        sa.Column("evidence_digest", sa.LargeBinary, nullable=False),
        sa.Column("tee", name_of(32), nullable=False),
        sa.Column("product", name_of(64)),
        sa.Column("chip", name_of(160)),
        sa.Column("measurement", sa.LargeBinary),
        sa.Column("instance", sa.LargeBinary, nullable=False),
        sa.Column("holder", sa.LargeBinary, nullable=False),
        sa.Column("recipient", sa.LargeBinary, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("claims_digest", sa.LargeBinary, sa.ForeignKey("lease_claims.digest"), nullable=False),
        sa.Column("log_seq", sa.BigInteger, nullable=False),
        sa.Column("released_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("renewed_from", name_of(32)),
    )
    op.create_index("leases_key", "leases", ["tenant", "key_id", "expires_at"])
    op.create_index("leases_holder", "leases", ["holder"])
    op.create_index("leases_chip", "leases", ["chip"])
    op.create_index("leases_log_seq", "leases", ["log_seq", "lease_id"])
    op.create_table(
        "lease_ends",
        sa.Column("lease_id", name_of(32), sa.ForeignKey("leases.lease_id"), primary_key=True),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("log_seq", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "lease_stops",
        sa.Column("lease_id", name_of(32), sa.ForeignKey("leases.lease_id"), primary_key=True),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("key_id", name_of(128), nullable=False),
        sa.Column("instance", sa.LargeBinary, nullable=False),
        sa.Column("reason", sa.String(1024), nullable=False),
        sa.Column("stopped_at", sa.BigInteger, nullable=False),
        sa.Column("log_seq", sa.BigInteger, nullable=False),
    )
    op.create_index("lease_stops_instance", "lease_stops", ["tenant", "key_id", "instance"])
    make_append_only("lease_claims", "leases", "lease_ends")
