"""Public halves of prompt keys, each with the entry of the log that published it."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "prompt_keys",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("policy_digest", sa.LargeBinary, primary_key=True),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("published_at", sa.String(40), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "key_id", "version"], ["key_versions.tenant", "key_versions.key_id", "key_versions.version"]
        ),
    )
    make_append_only("prompt_keys")
