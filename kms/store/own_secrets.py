"""The service's own keys in the database, wrapped."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, String, Table, insert, select

from attest.encoding import rfc3339_text
from kms.domain.keys import Wrapped
from kms.store.keks import KekReader
from kms.store.repository import Repository
from kms.store.schema import metadata, name_of

secrets = Table(
    "secrets",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Index("secrets_kek_id", "kek_id"),
)
"""The service's own keys, wrapped."""


class OwnSecretReader(Repository):
    """The service's own keys in a reading transaction."""

    def find(self, name: str) -> tuple[str, Wrapped] | None:
        """Return algorithm and wrapped form of one of them."""
        row = self._connection.execute(
            select(secrets.c.algorithm, secrets.c.wrapped, secrets.c.kek_id).where(secrets.c.name == name)
        ).one_or_none()
        if row is None:
            return None
        content = row.wrapped if isinstance(row.wrapped, bytes) else b""
        return row.algorithm, Wrapped(kek_id=bytes(row.kek_id), content=content)

    def names(self) -> tuple[str, ...]:
        """Return the names of all of them."""
        return tuple(self._connection.execute(select(secrets.c.name).order_by(secrets.c.name)).scalars())


class OwnSecretRepository(OwnSecretReader):
    """The service's own keys in a writing transaction."""

    def add(self, name: str, *, algorithm: str, wrapped: Wrapped, at: datetime) -> None:
        """Store one of them.

        Raises:
            UnavailableError: ``kek-changing``.
        """
        KekReader(self._connection).require_wrapping(wrapped)
        values = {"name": name, "algorithm": algorithm, "wrapped": wrapped.content, "kek_id": wrapped.kek_id}
        self._connection.execute(insert(secrets).values(created_at=rfc3339_text(at), **values))
