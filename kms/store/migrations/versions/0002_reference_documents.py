"""Documents of reference values, and the signatures over them."""

import sqlalchemy as sa
from alembic import op

from kms.store.migration_operations import make_append_only
from kms.store.schema import name_of

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "reference_documents",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("name", name_of(256), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
    )
    op.create_index("reference_documents_name", "reference_documents", ["name", "version"])
    op.create_table(
        "reference_signatures",
        sa.Column("digest", sa.LargeBinary, sa.ForeignKey("reference_documents.digest"), primary_key=True),
        sa.Column("key_id", sa.LargeBinary, primary_key=True),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String(40), nullable=False),
    )
    make_append_only("reference_documents", "reference_signatures")
