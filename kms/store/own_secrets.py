"""The service's own keys in the database, wrapped."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, String, Table, select

from attest.encoding import rfc3339_text
from kms.domain.keys import Wrapped
from kms.store.keks import KekReader
from kms.store.repository import Repository
from kms.store.schema import metadata, name_of
from kms.store.state_rows import authenticated

secrets = Table(
    "secrets",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Index("secrets_kek_id", "kek_id"),
    info=authenticated(),
)
"""The service's own keys, wrapped."""


class OwnSecretReader(Repository):
    """The service's own keys in a reading transaction."""

    def find(self, name: str) -> tuple[str, Wrapped] | None:
        """Return algorithm and wrapped form of one of them."""
        found = self._row(secrets, name=name)
        if found is None:
            return None
        kek_id, content = (value if isinstance(value, bytes) else b"" for value in (found["kek_id"], found["wrapped"]))
        return str(found["algorithm"]), Wrapped(kek_id=kek_id, content=content)

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
        KekReader(self._connection, self._state).require_wrapping(wrapped)
        values = {"name": name, "algorithm": algorithm, "wrapped": wrapped.content, "kek_id": wrapped.kek_id}
        self._add(secrets, {"created_at": rfc3339_text(at), **values})
