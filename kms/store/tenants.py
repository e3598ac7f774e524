"""Tenants in the database: added, never changed, never removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Column, String, Table
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import KeyConflictError
from kms.store.repository import Repository, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import authenticated, whole_rows

tenants = Table(
    "tenants",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("created_at", String(40), nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Never changed, never removed. ``kms fsck`` checks the tenants of keys, since SQLite cannot add a foreign key to an
existing table."""


class TenantReader(Repository):
    """Tenants in a reading transaction."""

    def all(self) -> Mapping[str, datetime]:
        """Return every tenant with the moment at which it was added.

        Raises:
            IntegrityError: ``tenant-record-invalid``.
        """
        rows = self._connection.execute(whole_rows(tenants).order_by(tenants.c.name)).all()
        found = [self._genuine(tenants, row) for row in rows]
        with readable("a stored tenant is malformed", code="tenant-record-invalid", field="tenants"):
            return {str(row["name"]): rfc3339(str(row["created_at"]), what="created_at") for row in found}

    def exists(self, name: str) -> bool:
        """Return True if there is a tenant of this name."""
        return self._row(tenants, name=name) is not None


class TenantRepository(TenantReader):
    """Tenants in a writing transaction."""

    def add(self, name: str, *, at: datetime) -> None:
        """Store a new tenant.

        Raises:
            KeyConflictError: ``tenant-exists``.
        """
        try:
            self._add(tenants, {"name": name, "created_at": rfc3339_text(at)})
        except ConstraintError as exc:
            hint = "'kms tenant list' lists all tenants"
            raise KeyConflictError(
                f"the tenant {name!r} already exists", code="tenant-exists", field=name, hint=hint
            ) from exc
