"""Key-encryption keys have a table, and each wrapped row names the one that opens it."""

import sqlalchemy as sa
from alembic import op

from attest.errors import ConfigurationError

revision = "0004"
down_revision = "0007"

_WRAPPED = ("secrets", "key_versions")


def upgrade() -> None:
    keks = op.create_table(
        "keks",
        sa.Column("id", sa.LargeBinary, primary_key=True),
        sa.Column("backend", sa.String(16), nullable=False),
        sa.Column("description", sa.String(1024), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("proof", sa.LargeBinary, nullable=True),
        sa.Column("created_at", sa.String(40), nullable=False),
    )
    connection = op.get_bind()
    kek_id = _only_one(connection)
    if kek_id is not None:
        connection.execute(
            keks.insert().values(
                id=kek_id,
                backend="file",
                description="the file of before this schema",
                state="active",
                created_at=_since(connection),
            )
        )
    for table in _WRAPPED:
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("kek_id", sa.LargeBinary, nullable=True))
        connection.execute(sa.text(f"UPDATE {table} SET kek_id = :kek"), {"kek": kek_id})  # noqa: S608  no input
        with op.batch_alter_table(table) as batch:
            batch.alter_column("kek_id", nullable=False)
            batch.create_foreign_key(f"{table}_kek_id_fkey", "keks", ["kek_id"], ["id"])
        op.create_index(f"{table}_kek_id", table, ["kek_id"])
    connection.execute(sa.text("DELETE FROM meta WHERE name = 'kek_id'"))


def _only_one(connection: sa.Connection) -> bytes | None:
    """Return the id of the key that everything is wrapped under; None where nothing is."""
    found = connection.execute(sa.text("SELECT value FROM meta WHERE name = 'kek_id'")).scalar_one_or_none()
    if found is not None:
        return bytes(found)
    for table in _WRAPPED:
        if connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one():  # noqa: S608  no input
            raise ConfigurationError(
                "the database does not record its key-encryption key",
                code="database-not-initialised",
                field="database",
                hint="it was altered or damaged; restore it from a backup",
            )
    return None


def _since(connection: sa.Connection) -> str:
    """Return when the service's own keys were wrapped under it."""
    found = connection.execute(sa.text("SELECT min(created_at) FROM secrets")).scalar_one_or_none()
    return found or "1970-01-01T00:00:00Z"
