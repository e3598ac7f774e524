"""Named people with their rules, proposals, and the signatures over them."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0010"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "quorum_documents",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "proposals",
        sa.Column("digest", name_of(64), primary_key=True),
        sa.Column("serial", sa.Integer, nullable=False, unique=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "approvals",
        sa.Column("digest", name_of(64), sa.ForeignKey("proposals.digest"), primary_key=True),
        sa.Column("key_id", name_of(64), primary_key=True),
        sa.Column("person", name_of(64), nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "proposal_ends",
        sa.Column("digest", name_of(64), sa.ForeignKey("proposals.digest"), primary_key=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("ended_at", sa.String(40), nullable=False),
    )
    make_append_only("quorum_documents", "proposals", "approvals", "proposal_ends")
