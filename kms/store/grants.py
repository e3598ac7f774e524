"""Grants in the database. A row is added once, and then only ever marked as revoked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Index, Integer, Row, String, Table, func, select

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.actors import Actor, Means
from kms.domain.permissions import Grant, Role
from kms.store.answers import require_answer
from kms.store.repository import Repository, readable, whole_number
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows

grants = Table(
    "grants",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("means", String(16), nullable=False),
    Column("name", name_of(512), nullable=False),
    Column("tenant", name_of(64), nullable=False),
    Column("role", String(32), nullable=False),
    Column("granted_by_means", String(16), nullable=False),
    Column("granted_by", name_of(512), nullable=False),
    Column("granted_at", String(40), nullable=False),
    Column("revoked_by_means", String(16)),
    Column("revoked_by", name_of(512)),
    Column("revoked_at", String(40)),
    Index("grants_identity", "means", "name"),
    info=authenticated(),
)
"""Roles of identities in tenants, see ``kms/auth/``. ``kms fsck`` compares them with the log."""


class GrantReader(Repository):
    """Grants in a reading transaction."""

    def held_by(self, identity: Actor) -> tuple[Grant, ...]:
        """Return the grants of an identity that are in force.

        Raises:
            IntegrityError: ``grant-record-invalid``.
        """
        statement = _ALL.where(grants.c.means == str(identity.means), grants.c.name == identity.name)
        found = tuple(map(self._grant, self._connection.execute(statement)))
        require_answer(grants, holds=all(grant.identity == identity for grant in found))
        return tuple(grant for grant in found if grant.counts)

    def all(self) -> Iterator[Grant]:
        """Iterate over all grants, including revoked ones, in the order of granting.

        Raises:
            IntegrityError: ``grant-record-invalid``.
        """
        yield from map(self._grant, self._connection.execute(_ALL).all())

    def _grant(self, row: Row[Any]) -> Grant:  # Any: the columns of a row
        return _grant(self._genuine(grants, row))


class GrantRepository(GrantReader):
    """Grants in a writing transaction."""

    def add(self, *, identity: Actor, tenant: str, role: Role, by: Actor, at: datetime) -> Grant:
        """Store a grant under the next number."""
        last: int | None = self._connection.execute(select(func.max(grants.c.number))).scalar_one()
        grant = Grant(number=(last or 0) + 1, identity=identity, tenant=tenant, role=role, granted_by=by, granted_at=at)
        self._add(
            grants,
            {
                "number": grant.number,
                "means": str(identity.means),
                "name": identity.name,
                "tenant": tenant,
                "role": str(role),
                "granted_by_means": str(by.means),
                "granted_by": by.name,
                "granted_at": rfc3339_text(at),
            },
        )
        return grant

    def revoke(self, number: int, *, by: Actor, at: datetime) -> None:
        """Mark a grant as revoked."""
        values = {"revoked_by_means": str(by.means), "revoked_by": by.name, "revoked_at": rfc3339_text(at)}
        row = self._row(grants, number=number)
        if row is not None:
            self._replace(grants, row, **values)


_ALL = whole_rows(grants).order_by(grants.c.number)


def _grant(row: Values) -> Grant:
    number = row["number"]
    with readable(f"the stored grant {number} is malformed", code="grant-record-invalid", field=f"grant {number}"):
        revocation = (row["revoked_by_means"], row["revoked_by"], row["revoked_at"])
        if {type(one) for one in revocation} not in ({str}, {type(None)}):
            raise ValueError("incomplete revocation")
        revoked = row["revoked_by"] is not None
        return Grant(
            number=whole_number(row["number"]),
            identity=Actor(name=str(row["name"]), means=Means(str(row["means"]))),
            tenant=str(row["tenant"]),
            role=Role(str(row["role"])),
            granted_by=Actor(name=str(row["granted_by"]), means=Means(str(row["granted_by_means"]))),
            granted_at=rfc3339(str(row["granted_at"]), what="granted_at"),
            revoked_by=Actor(name=str(row["revoked_by"]), means=Means(str(row["revoked_by_means"])))
            if revoked
            else None,
            revoked_at=rfc3339(str(row["revoked_at"]), what="revoked_at") if revoked else None,
        )
