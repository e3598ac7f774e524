"""Relaxations in the database: opened once, never changed; early ends are rows of another table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
)

from attest.release import KeyName
from kms.domain.break_glass import BreakGlass
from kms.domain.freezes import Scope, Target
from kms.domain.keys import Wrapped
from kms.store.repository import Repository, blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.timestamps import milliseconds, moment_of

break_glass = Table(
    "break_glass",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("lifts_scope", name_of(16)),
    Column("lifts_name", name_of(256)),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest")),
    Column("reason", String(1000), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("kek_id", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("break_glass_until", "until"),
    info=APPEND_ONLY,
)
"""Named relaxations, see ``kms/domain/break_glass.py``; milliseconds since 1970, UTC. Triggers refuse changes."""

break_glass_ends = Table(
    "break_glass_ends",
    metadata,
    Column("number", Integer, ForeignKey("break_glass.number"), primary_key=True, autoincrement=False),
    Column("closed_at", BigInteger, nullable=False),
    info=APPEND_ONLY,
)
"""Relaxations that were closed early. Triggers refuse changes."""


class BreakGlassReader(Repository):
    """Relaxations in a reading transaction."""

    def in_force(self, *, at: datetime) -> tuple[BreakGlass, ...]:
        """Return those that were opened, have not ended and were not closed; their seals are not verified.

        Raises:
            IntegrityError: ``glass-record-invalid``.
        """
        return tuple(_record(row) for row in self._connection.execute(_OPEN, {"at": milliseconds(at)}))

    def all(self) -> tuple[tuple[BreakGlass, datetime | None], ...]:
        """Return all that were ever opened, each with the moment of its early end, or None."""
        rows = self._connection.execute(_ALL)
        return tuple((_record(row), None if row.closed_at is None else moment_of(row.closed_at)) for row in rows)

    def count(self) -> int:
        """Return the number that were ever opened."""
        return self._connection.execute(select(func.count()).select_from(break_glass)).scalar_one()


class BreakGlassRepository(BreakGlassReader):
    """Relaxations in a writing transaction."""

    def add(self, opened: BreakGlass) -> None:
        """Store one."""
        self._connection.execute(
            insert(break_glass).values(
                number=opened.number,
                tenant=opened.key.tenant,
                key_id=opened.key.key_id,
                lifts_scope=None if opened.lifts is None else str(opened.lifts.scope),
                lifts_name=None if opened.lifts is None else opened.lifts.name,
                policy_digest=opened.policy_digest,
                reason=opened.reason,
                opened_at=milliseconds(opened.opened_at),
                until=milliseconds(opened.until),
                kek_id=opened.seal.kek_id,
                seal=opened.seal.content,
            )
        )

    def close(self, number: int, *, at: datetime) -> None:
        """Store an early end."""
        self._connection.execute(insert(break_glass_ends).values(number=number, closed_at=milliseconds(at)))


_ALL = (
    select(break_glass, break_glass_ends.c.closed_at)
    .select_from(break_glass.outerjoin(break_glass_ends, break_glass_ends.c.number == break_glass.c.number))
    .order_by(break_glass.c.number)
)
_OPEN = _ALL.where(break_glass.c.until > bindparam("at"), break_glass_ends.c.number.is_(None))


def _record(row: Row[Any]) -> BreakGlass:  # Any: rows of two tables
    problem = "a stored relaxation (break-glass) cannot be read"
    with readable(problem, code="glass-record-invalid", field="break_glass"):
        lifts = None if row.lifts_scope is None else Target(scope=Scope(row.lifts_scope), name=str(row.lifts_name))
        if (lifts is None) is (row.policy_digest is None):
            raise ValueError("expected a freeze or a policy")
        return BreakGlass(
            number=row.number,
            key=KeyName(tenant=row.tenant, key_id=row.key_id),
            lifts=lifts,
            policy_digest=None if row.policy_digest is None else blob(row.policy_digest),
            reason=str(row.reason),
            opened_at=moment_of(row.opened_at),
            until=moment_of(row.until),
            seal=Wrapped(kek_id=blob(row.kek_id), content=blob(row.seal)),
        )
