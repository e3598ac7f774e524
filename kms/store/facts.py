"""Named facts about the database: rows of ``meta``."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Table, delete, insert, select

from kms.store.repository import Repository
from kms.store.schema import metadata, name_of

meta = Table(
    "meta",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""``origin``: the service of this database."""


class FactReader(Repository):
    """Facts in a reading transaction."""

    def find(self, name: str) -> bytes | None:
        """Return a fact, or None; empty if it was altered into another type."""
        value = self._connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar_one_or_none()
        return value if value is None or isinstance(value, bytes) else b""


class FactRepository(FactReader):
    """Facts in a writing transaction."""

    def add(self, name: str, value: bytes) -> None:
        """Store a new fact."""
        self._connection.execute(insert(meta).values(name=name, value=value))

    def put(self, name: str, value: bytes) -> None:
        """Store a fact, or replace it."""
        self._connection.execute(delete(meta).where(meta.c.name == name))
        self.add(name, value)
