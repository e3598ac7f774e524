"""Named people with their rules, proposals, and the signatures over them."""

import sqlalchemy as sa
from alembic import op

from kms.store.append_only import append_only

revision = "0010"
down_revision = "0004"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "quorum_documents",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "proposals",
        sa.Column("digest", _name(64), primary_key=True),
        sa.Column("serial", sa.Integer, nullable=False, unique=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "approvals",
        sa.Column("digest", _name(64), sa.ForeignKey("proposals.digest"), primary_key=True),
        sa.Column("key_id", _name(64), primary_key=True),
        sa.Column("person", _name(64), nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "proposal_ends",
        sa.Column("digest", _name(64), sa.ForeignKey("proposals.digest"), primary_key=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("ended_at", sa.String(40), nullable=False),
    )
    for table in ("quorum_documents", "proposals", "approvals", "proposal_ends"):
        for statement in append_only(op.get_bind(), table):
            op.execute(statement)
