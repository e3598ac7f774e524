"""The authenticated state, numbers of leases, and the image that a stop concerns."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import allow_changes, make_append_only
from kms.store.schema import name_of

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "state_nodes",
        sa.Column("path", sa.LargeBinary, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "state_root",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("mac", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "lease_counts",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("chip", name_of(160), primary_key=True),
        sa.Column("released", sa.BigInteger, nullable=False),
        sa.Column("live", sa.LargeBinary, nullable=False),
        sa.Column("live_since", sa.BigInteger, nullable=False),
    )
    for column in ("number", "chip_number"):
        op.add_column("leases", sa.Column(column, sa.BigInteger))
    op.create_index("leases_number", "leases", ["tenant", "key_id", "number"])
    op.create_index("leases_chip_number", "leases", ["tenant", "key_id", "chip", "chip_number"])
    op.add_column("lease_stops", sa.Column("tee", name_of(32)))
    op.add_column("lease_stops", sa.Column("measurement", sa.LargeBinary))
    _number_leases()


def _number_leases() -> None:
    """Number the leases of each key, and of each key and chip; say of which image each stopped one is."""
    allow_changes("leases")
    for column, chip, where in (("number", "", ""), ("chip_number", ", chip", "WHERE chip IS NOT NULL")):
        op.execute(
            f"UPDATE leases SET {column} = n.number FROM (SELECT lease_id, row_number() OVER "  # noqa: S608  no input
            f"(PARTITION BY tenant, key_id{chip} ORDER BY released_at, log_seq, lease_id) AS number FROM leases {where}) n "
            "WHERE n.lease_id = leases.lease_id"
        )
    make_append_only("leases")
    op.execute(
        "UPDATE lease_stops SET tee = l.tee, measurement = l.measurement FROM leases l "
        "WHERE l.lease_id = lease_stops.lease_id"
    )
