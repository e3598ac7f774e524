"""The first schema: keys, policies, used challenges, the log."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "meta",
        sa.Column("name", name_of(64), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", name_of(64), primary_key=True),
        sa.Column("algorithm", sa.String(32), nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "policies",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("name", name_of(64), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "key_versions",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("algorithm", sa.String(32), nullable=False),
        sa.Column("policy_digest", sa.LargeBinary, sa.ForeignKey("policies.digest"), nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    op.create_table(
        "used_nonces",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("used_nonces_expires_at", "used_nonces", ["expires_at"])
    op.create_table(
        "log_entries",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
        sa.Column("previous", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    make_append_only("log_entries", "policies")
