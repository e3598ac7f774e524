"""Freezes in force in the database; ended ones are in the log."""

from __future__ import annotations

from sqlalchemy import Column, String, Table

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.freezes import Freeze, Scope, Target
from kms.store.repository import Repository, readable
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated

freezes = Table(
    "freezes",
    metadata,
    Column("scope", name_of(16), primary_key=True),
    Column("name", name_of(256), primary_key=True),
    Column("reason", String(1000), nullable=False),
    Column("actor", String(1024), nullable=False),
    Column("means", String(16), nullable=False),
    Column("frozen_at", String(40), nullable=False),
    info=authenticated("*"),
)
"""The freezes in force, see ``kms/domain/freezes.py``; those that ended are in the log."""


class FreezeReader(Repository):
    """Freezes in a reading transaction."""

    def all(self) -> tuple[Freeze, ...]:
        """Return every freeze in force, in the order of their targets.

        Raises:
            IntegrityError: ``freeze-record-invalid``. Nothing is released while one cannot be read.
        """
        return tuple(map(_freeze, self._all_of_scope(freezes, {})))


class FreezeRepository(FreezeReader):
    """Freezes in a writing transaction."""

    def add(self, freeze: Freeze) -> None:
        """Store a new freeze."""
        self._add(
            freezes,
            {
                "scope": str(freeze.target.scope),
                "name": freeze.target.name,
                "reason": freeze.reason,
                "actor": freeze.actor,
                "means": freeze.means,
                "frozen_at": rfc3339_text(freeze.frozen_at),
            },
        )

    def remove(self, target: Target) -> None:
        """End a freeze."""
        for row in self._all_of_scope(freezes, {}):
            if (row["scope"], row["name"]) == (str(target.scope), target.name):
                self._remove(freezes, row)


def _freeze(row: Values) -> Freeze:
    problem = f"the stored freeze of {row['scope']!s} {row['name']!s} is malformed"
    with readable(problem, code="freeze-record-invalid", field="freezes"):
        return Freeze(
            target=Target(scope=Scope(str(row["scope"])), name=str(row["name"])),
            reason=str(row["reason"]),
            actor=str(row["actor"]),
            means=str(row["means"]),
            frozen_at=rfc3339(str(row["frozen_at"]), what="frozen_at"),
        )
