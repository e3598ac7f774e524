"""Relaxations in the database: opened once, never changed; early ends are rows of another table."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    func,
    select,
)

from attest.release import KeyName
from kms.domain.break_glass import BreakGlass
from kms.domain.freezes import Scope, Target
from kms.domain.keys import Wrapped
from kms.store.repository import Repository, blob, readable, whole_number
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated
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
    info=authenticated("*", more=APPEND_ONLY),
)
"""Named relaxations, see ``kms/domain/break_glass.py``; milliseconds since 1970, UTC. Triggers refuse changes."""

break_glass_ends = Table(
    "break_glass_ends",
    metadata,
    Column("number", Integer, ForeignKey("break_glass.number"), primary_key=True, autoincrement=False),
    Column("closed_at", BigInteger, nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Relaxations that were closed early. Triggers refuse changes."""


class BreakGlassReader(Repository):
    """Relaxations in a reading transaction."""

    def in_force(self, *, at: datetime) -> tuple[BreakGlass, ...]:
        """Return those that were opened, have not ended and were not closed; their seals are not verified.

        Raises:
            IntegrityError: ``glass-record-invalid``.
        """
        return tuple(opened for opened, closed in self.all() if closed is None and at < opened.until)

    def all(self) -> tuple[tuple[BreakGlass, datetime | None], ...]:
        """Return all that were ever opened, each with the moment of its early end, or None."""
        return tuple((_record(row), self._closed_at(row["number"])) for row in self._all_of_scope(break_glass, {}))

    def _closed_at(self, number: object) -> datetime | None:
        row = self._row(break_glass_ends, number=number)
        with readable("the end of a relaxation is malformed", code="glass-record-invalid", field="break_glass_ends"):
            return None if row is None else moment_of(whole_number(row["closed_at"]))

    def count(self) -> int:
        """Return the number that were ever opened."""
        return self._connection.execute(select(func.count()).select_from(break_glass)).scalar_one()


class BreakGlassRepository(BreakGlassReader):
    """Relaxations in a writing transaction."""

    def add(self, opened: BreakGlass) -> None:
        """Store one."""
        self._add(
            break_glass,
            {
                "number": opened.number,
                "tenant": opened.key.tenant,
                "key_id": opened.key.key_id,
                "lifts_scope": None if opened.lifts is None else str(opened.lifts.scope),
                "lifts_name": None if opened.lifts is None else opened.lifts.name,
                "policy_digest": opened.policy_digest,
                "reason": opened.reason,
                "opened_at": milliseconds(opened.opened_at),
                "until": milliseconds(opened.until),
                "kek_id": opened.seal.kek_id,
                "seal": opened.seal.content,
            },
        )

    def close(self, number: int, *, at: datetime) -> None:
        """Store an early end."""
        self._add(break_glass_ends, {"number": number, "closed_at": milliseconds(at)})


def _record(row: Values) -> BreakGlass:
    problem = "a stored relaxation (break-glass) is malformed"
    with readable(problem, code="glass-record-invalid", field="break_glass"):
        scope, policy = row["lifts_scope"], row["policy_digest"]
        lifts = None if scope is None else Target(scope=Scope(str(scope)), name=str(row["lifts_name"]))
        if (lifts is None) is (policy is None):
            raise ValueError("expected a freeze or a policy")
        return BreakGlass(
            number=whole_number(row["number"]),
            key=KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"])),
            lifts=lifts,
            policy_digest=None if policy is None else blob(policy),
            reason=str(row["reason"]),
            opened_at=moment_of(whole_number(row["opened_at"])),
            until=moment_of(whole_number(row["until"])),
            seal=Wrapped(kek_id=blob(row["kek_id"]), content=blob(row["seal"])),
        )
