"""Floors of the service and of tenants."""

import sqlalchemy as sa
from alembic import op

from kms.store.append_only import append_only

revision = "0016"
down_revision = "0015"


def _name(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "floors",
        sa.Column("scope", _name(64), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.String(40), nullable=False),
    )
    for statement in append_only(op.get_bind(), "floors"):
        op.execute(statement)
