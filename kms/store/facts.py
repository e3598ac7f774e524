"""Named facts about the database: rows of ``meta``."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Table

from kms.store.repository import Repository
from kms.store.schema import metadata, name_of
from kms.store.state_rows import authenticated

meta = Table(
    "meta",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
    info=authenticated(),
)
"""``origin``: the service of this database."""


class FactReader(Repository):
    """Facts in a reading transaction."""

    def find(self, name: str) -> bytes | None:
        """Return a fact, or None; empty if it was altered into another type."""
        row = self._row(meta, name=name)
        if row is None:
            return None
        return row["value"] if isinstance(row["value"], bytes) else b""


class FactRepository(FactReader):
    """Facts in a writing transaction."""

    def add(self, name: str, value: bytes) -> None:
        """Store a new fact."""
        self._add(meta, {"name": name, "value": value})

    def put(self, name: str, value: bytes) -> None:
        """Store a fact, or replace it."""
        row = self._row(meta, name=name)
        if row is None:
            self.add(name, value)
        else:
            self._replace(meta, row, value=value)
