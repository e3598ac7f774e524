"""Named relaxations for a key, until a moment."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0014"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "break_glass",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tenant", name_of(64), nullable=False),
        sa.Column("key_id", name_of(128), nullable=False),
        sa.Column("lifts_scope", name_of(16)),
        sa.Column("lifts_name", name_of(256)),
        sa.Column("policy_digest", sa.LargeBinary, sa.ForeignKey("policies.digest")),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("kek_id", sa.LargeBinary, nullable=False),
        sa.Column("seal", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    op.create_index("break_glass_until", "break_glass", ["until"])
    op.create_table(
        "break_glass_ends",
        sa.Column("number", sa.Integer, sa.ForeignKey("break_glass.number"), primary_key=True, autoincrement=False),
        sa.Column("closed_at", sa.BigInteger, nullable=False),
    )
    make_append_only("break_glass", "break_glass_ends")
