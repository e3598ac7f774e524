"""Versions of a key that follow one another and end, schedules of rotation, and tags."""

import sqlalchemy as sa
from alembic import op

from kms.store.schema import name_of

revision = "0006"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("key_versions", sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("key_versions", sa.Column("overlap_until", sa.BigInteger))
    op.add_column("key_versions", sa.Column("destroy_at", sa.BigInteger))
    current = sa.text("overlap_until IS NULL")
    op.create_index(
        "key_versions_current",
        "key_versions",
        ["tenant", "key_id"],
        unique=True,
        sqlite_where=current,
        postgresql_where=current,
    )
    op.create_index("key_versions_destroy_at", "key_versions", ["destroy_at"])
    op.create_table(
        "key_schedules",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("every_seconds", sa.BigInteger, nullable=False),
        sa.Column("overlap_seconds", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    op.create_index("key_schedules_due_at", "key_schedules", ["due_at"])
    op.create_table(
        "key_tags",
        sa.Column("tenant", name_of(64), primary_key=True),
        sa.Column("key_id", name_of(128), primary_key=True),
        sa.Column("name", name_of(64), primary_key=True),
        sa.Column("value", name_of(256), nullable=False),
        sa.ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    )
    op.create_index("key_tags_name", "key_tags", ["name", "value"])
