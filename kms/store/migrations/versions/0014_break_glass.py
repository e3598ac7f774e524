"""Named relaxations for a key, until a moment."""

import sqlalchemy as sa
from alembic import op

from kms.store.append_only import append_only

revision = "0014"
down_revision = "0008"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "break_glass",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tenant", _name(64), nullable=False),
        sa.Column("key_id", _name(128), nullable=False),
        sa.Column("lifts_scope", _name(16)),
        sa.Column("lifts_name", _name(256)),
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
    for table in ("break_glass", "break_glass_ends"):
        for statement in append_only(op.get_bind(), table):
            op.execute(statement)
