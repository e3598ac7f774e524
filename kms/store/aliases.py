"""Aliases in the database: addresses of other protocols that lead to keys."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKeyConstraint, Index, String, Table
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import rfc3339_text
from kms.domain.aliases import Alias
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyName
from kms.store.keys import stored_name
from kms.store.repository import Repository, readable
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows

aliases = Table(
    "aliases",
    metadata,
    Column("address", name_of(512), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("set_at", String(40), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("aliases_key", "tenant", "key_id"),
    info=authenticated(),
)


class AliasReader(Repository):
    """Aliases in a reading transaction."""

    def find(self, address: str) -> Alias | None:
        """Return the alias of an address, or None."""
        row = self._row(aliases, address=address)
        return None if row is None else _alias(row)

    def all(self) -> tuple[Alias, ...]:
        """Return every alias in the order of addresses."""
        rows = self._connection.execute(whole_rows(aliases).order_by(aliases.c.address)).all()
        return tuple(_alias(self._genuine(aliases, row)) for row in rows)


class AliasRepository(AliasReader):
    """Aliases in a writing transaction."""

    def add(self, alias: Alias, *, at: datetime) -> None:
        """Add an alias.

        Raises:
            KeyConflictError: ``alias-exists``.
        """
        try:
            self._add(aliases, {"address": alias.address, **stored_name(alias.key), "set_at": rfc3339_text(at)})
        except ConstraintError as exc:
            raise KeyConflictError(
                f"{alias.address} leads to a key already",
                code="alias-exists",
                field="address",
                hint="'kms alias list' shows to which; 'kms alias remove' removes it",
            ) from exc

    def remove(self, alias: Alias) -> None:
        """Remove an alias; its key stays."""
        row = self._row(aliases, address=alias.address)
        if row is not None:
            self._remove(aliases, row)


def _alias(row: Values) -> Alias:
    with readable("a stored alias is malformed", code="alias-record-invalid", field="aliases"):
        name = KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"]))
        return Alias(address=str(row["address"]), key=name)
