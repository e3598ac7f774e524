"""People, rules, proposals and approvals in the database. Nothing of it is ever changed; what counts is the newest."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from attest.encoding import json_value, rfc3339_text
from attest.errors import AttestError
from kms.domain.errors import IntegrityError
from kms.domain.people import NOBODY, Quorum, canonical, read_quorum
from kms.domain.proposals import Approval, Proposal, read_proposal
from kms.store.schema import approvals, proposal_ends, proposals, quorum_documents

__all__ = ["QuorumReader", "QuorumWriter"]


class QuorumReader:
    """What can be read of it in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def quorum(self) -> Quorum:
        """Return people and rules as they are now.

        Raises:
            IntegrityError: ``quorum-record-invalid``. Nothing that takes a quorum is done while it cannot be read.
        """
        versions = self.quorum_versions()
        return versions[-1] if versions else NOBODY

    def quorum_versions(self) -> tuple[Quorum, ...]:
        """Return people and rules as they were, the oldest first.

        Raises:
            IntegrityError: ``quorum-record-invalid``.
        """
        rows = self._connection.execute(select(quorum_documents).order_by(quorum_documents.c.version)).all()
        found = tuple(_quorum(row.version, row.document) for row in rows)
        if [one.version for one in found] != list(range(1, len(found) + 1)):
            raise _damaged("quorum-record-invalid", "a version of people and rules is missing")
        return found

    def proposal_count(self) -> int:
        """Return how many proposals there ever were."""
        return self._connection.execute(select(func.count()).select_from(proposals)).scalar_one()

    def proposal(self, digest: str) -> Proposal | None:
        """Return the proposal that is stored under this digest, which the caller compares.

        Raises:
            IntegrityError: ``proposal-altered``.
        """
        row = self._connection.execute(select(proposals).where(proposals.c.digest == digest)).one_or_none()
        return None if row is None else _proposal(row.document)

    def proposal_digests(self) -> tuple[str, ...]:
        """Return the digests of all proposals in their order."""
        return tuple(self._connection.execute(select(proposals.c.digest).order_by(proposals.c.serial)).scalars())

    def proposal_outcome(self, digest: str) -> str | None:
        """Return how a proposal ended, or None."""
        columns = proposal_ends.c
        return self._connection.execute(select(columns.outcome).where(columns.digest == digest)).scalar_one_or_none()

    def approvals(self, digest: str) -> tuple[Approval, ...]:
        """Return the signatures over a proposal, as they were taken in."""
        rows = self._connection.execute(
            select(approvals).where(approvals.c.digest == digest).order_by(approvals.c.key_id)
        )
        return tuple(
            Approval(
                proposal=digest,
                key_id=str(row.key_id),
                signature=row.signature if isinstance(row.signature, bytes) else b"",
            )
            for row in rows
        )


class QuorumWriter(QuorumReader):
    """What can be written."""

    def add_quorum(self, quorum: Quorum, *, at: datetime) -> None:
        """Put people and rules into force."""
        self._connection.execute(
            insert(quorum_documents).values(
                version=quorum.version, document=canonical(quorum.members()), set_at=rfc3339_text(at)
            )
        )

    def add_proposal(self, proposal: Proposal) -> None:
        """Keep a proposal."""
        self._connection.execute(
            insert(proposals).values(digest=proposal.digest, serial=proposal.serial, document=proposal.raw)
        )

    def add_approval(self, approval: Approval, *, person: str, at: datetime) -> None:
        """Keep a signature."""
        self._connection.execute(
            insert(approvals).values(
                digest=approval.proposal,
                key_id=approval.key_id,
                person=person,
                signature=approval.signature,
                added_at=rfc3339_text(at),
            )
        )

    def end_proposal(self, proposal: Proposal, *, outcome: str, at: datetime) -> None:
        """Note how a proposal ended; there is room for one end."""
        self._connection.execute(
            insert(proposal_ends).values(digest=proposal.digest, outcome=outcome, ended_at=rfc3339_text(at))
        )


def _quorum(version: int, document: object) -> Quorum:
    try:
        raw = document if isinstance(document, bytes) else b""
        found = read_quorum(json_value(raw, what="people and rules"))
    except AttestError as exc:
        raise _damaged("quorum-record-invalid", "stored people and rules cannot be read") from exc
    if found.version != version or canonical(found.members()) != document:
        raise _damaged("quorum-record-invalid", "stored people and rules are not what was stored")
    return found


def _proposal(document: object) -> Proposal:
    try:
        return read_proposal(document if isinstance(document, bytes) else b"")
    except AttestError as exc:
        raise _damaged("proposal-altered", "a stored proposal cannot be read") from exc


def _damaged(code: str, problem: str) -> IntegrityError:
    hint = "the database was altered or damaged; restore it from a backup"
    return IntegrityError(problem, code=code, field="quorum", hint=hint)
