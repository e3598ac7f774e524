"""Public halves of prompt keys, each with the entry of the log that published it."""

import sqlalchemy as sa
from alembic import op

from kms.store.append_only import append_only

revision = "0015"
down_revision = "0014"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "prompt_keys",
        sa.Column("tenant", _name(64), primary_key=True),
        sa.Column("key_id", _name(128), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("policy_digest", sa.LargeBinary, primary_key=True),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("published_at", sa.String(40), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "key_id", "version"], ["key_versions.tenant", "key_versions.key_id", "key_versions.version"]
        ),
    )
    for statement in append_only(op.get_bind(), "prompt_keys"):
        op.execute(statement)
