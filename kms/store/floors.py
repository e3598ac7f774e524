"""Floors in the database; the highest version of a scope is in force."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, Integer, LargeBinary, String, Table

from attest.encoding import json_value, rfc3339_text
from kms.domain.canonical_json import canonical_json
from kms.domain.floors import Floor, no_floor, read_floor
from kms.store.repository import blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
from kms.store.versions import VersionReader

floors = Table(
    "floors",
    metadata,
    Column("scope", name_of(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Floors of tenants and of the service (``*``), see ``kms/domain/floors.py``. Triggers refuse changes."""


class FloorReader(VersionReader):
    """Floors in a reading transaction."""

    def newest(self, scope: str) -> Floor:
        """Return the floor of a scope; version 0 if none was ever set.

        Raises:
            IntegrityError: ``floor-record-invalid``. Nothing is released while it cannot be read.
        """
        row = self._newest(floors, scope=scope)
        return no_floor(scope) if row is None else _floor(row)

    def all(self) -> tuple[Floor, ...]:
        """Return every version of every floor, in the order of scopes and versions."""
        rows = self._connection.execute(whole_rows(floors).order_by(floors.c.scope, floors.c.version)).all()
        return tuple(_floor(self._genuine(floors, row)) for row in rows)


class FloorRepository(FloorReader):
    """Floors in a writing transaction."""

    def add(self, floor: Floor, *, at: datetime) -> None:
        """Put a floor into force."""
        document = canonical_json(floor.members())
        values = {"scope": floor.scope, "version": floor.version, "document": document, "set_at": rfc3339_text(at)}
        self._add(floors, values)


def _floor(row: Values) -> Floor:
    with readable("a stored floor is malformed", code="floor-record-invalid", field="floors"):
        content = blob(row["document"])
        found = read_floor(json_value(content, what="floor"))
        if (found.scope, found.version) != (row["scope"], row["version"]) or canonical_json(found.members()) != content:
            raise ValueError("this floor was altered")
        return found
