"""Limits of keys in the database; the highest version of a key's limits is in force."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKeyConstraint, Integer, LargeBinary, String, Table

from attest.encoding import json_value, rfc3339_text
from attest.release import KeyName
from kms.domain.canonical_json import canonical_json
from kms.domain.limits import NO_LIMITS, KeyLimits, read_limits
from kms.store.keys import stored_name
from kms.store.repository import blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
from kms.store.versions import VersionReader

key_limits = Table(
    "key_limits",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    info=authenticated(more=APPEND_ONLY),
)
"""Limits of keys, see ``kms/domain/limits.py``; the highest version is in force. Triggers refuse changes."""


class LimitReader(VersionReader):
    """Limits in a reading transaction."""

    def in_force(self, name: KeyName) -> KeyLimits:
        """Return the limits of a key, or ``NO_LIMITS``.

        Raises:
            IntegrityError: ``limits-record-invalid``. Nothing is released while they cannot be read.
        """
        row = self._newest(key_limits, **stored_name(name))
        return NO_LIMITS if row is None else _limits(row)

    def all(self) -> tuple[tuple[KeyName, KeyLimits], ...]:
        """Return every version of the limits of every key."""
        columns = key_limits.c
        rows = self._connection.execute(
            whole_rows(key_limits).order_by(columns.tenant, columns.key_id, columns.version)
        ).all()
        found = [self._genuine(key_limits, row) for row in rows]
        return tuple((KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"])), _limits(row)) for row in found)


class LimitRepository(LimitReader):
    """Limits in a writing transaction."""

    def add(self, name: KeyName, limits: KeyLimits, *, at: datetime) -> None:
        """Put limits into force."""
        document = canonical_json(limits.members())
        values = {"version": limits.version, "document": document, "set_at": rfc3339_text(at)}
        self._add(key_limits, {**stored_name(name), **values})


def _limits(row: Values) -> KeyLimits:
    version, document = row["version"], row["document"]
    with readable("the stored limits of a key are malformed", code="limits-record-invalid", field="key_limits"):
        found = read_limits(json_value(blob(document), what="limits"))
        if found.version != version or canonical_json(found.members()) != document or found == NO_LIMITS:
            raise ValueError("these limits were altered")
        return found
