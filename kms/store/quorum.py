"""People, rules, proposals and approvals in the database. Rows are never changed; the newest version is in force."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, String, Table, func, insert, select

from attest.encoding import json_value, rfc3339_text
from kms.domain.canonical_json import canonical_json
from kms.domain.people import NOBODY, Quorum, read_quorum
from kms.domain.proposals import Approval, Proposal, read_proposal
from kms.store.repository import Repository, blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of

quorum_documents = Table(
    "quorum_documents",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Named people and rules, see ``kms/domain/people.py``; the highest version is in force. Triggers refuse changes."""

proposals = Table(
    "proposals",
    metadata,
    Column("digest", name_of(64), primary_key=True),
    Column("serial", Integer, nullable=False, unique=True),
    Column("document", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""Proposals by the SHA-256 of their document, hex; never changed."""

approvals = Table(
    "approvals",
    metadata,
    Column("digest", name_of(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("key_id", name_of(64), primary_key=True),
    Column("person", name_of(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Signatures over them, verified at every use. Never changed."""

proposal_ends = Table(
    "proposal_ends",
    metadata,
    Column("digest", name_of(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("ended_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Outcomes of proposals, at most one each. Never changed."""


class QuorumReader(Repository):
    """People and rules in a reading transaction."""

    def current(self) -> Quorum:
        """Return the people and rules in force.

        Raises:
            IntegrityError: ``quorum-record-invalid``. Nothing that takes a quorum is done while it cannot be read.
        """
        versions = self.versions()
        return versions[-1] if versions else NOBODY

    def versions(self) -> tuple[Quorum, ...]:
        """Return every version of people and rules, the oldest first.

        Raises:
            IntegrityError: ``quorum-record-invalid``.
        """
        rows = self._connection.execute(select(quorum_documents).order_by(quorum_documents.c.version)).all()
        with readable("stored people and rules cannot be read", code="quorum-record-invalid", field="quorum"):
            return tuple(_quorum(row.version, row.document, number=number) for number, row in enumerate(rows, start=1))


class QuorumRepository(QuorumReader):
    """People and rules in a writing transaction."""

    def add(self, quorum: Quorum, *, at: datetime) -> None:
        """Put people and rules into force."""
        self._connection.execute(
            insert(quorum_documents).values(
                version=quorum.version, document=canonical_json(quorum.members()), set_at=rfc3339_text(at)
            )
        )


class ProposalReader(Repository):
    """Proposals and approvals in a reading transaction."""

    def count(self) -> int:
        """Return the number of all proposals."""
        return self._connection.execute(select(func.count()).select_from(proposals)).scalar_one()

    def find(self, digest: str) -> Proposal | None:
        """Return the proposal stored under this digest, which the caller compares, or None.

        Raises:
            IntegrityError: ``proposal-altered``.
        """
        row = self._connection.execute(select(proposals).where(proposals.c.digest == digest)).one_or_none()
        return None if row is None else _proposal(row.document)

    def digests(self) -> tuple[str, ...]:
        """Return the digests of all proposals in their order."""
        return tuple(self._connection.execute(select(proposals.c.digest).order_by(proposals.c.serial)).scalars())

    def outcome(self, digest: str) -> str | None:
        """Return the outcome of a proposal, or None."""
        columns = proposal_ends.c
        return self._connection.execute(select(columns.outcome).where(columns.digest == digest)).scalar_one_or_none()

    def approvals(self, digest: str) -> tuple[Approval, ...]:
        """Return the signatures over a proposal, unverified."""
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


class ProposalRepository(ProposalReader):
    """Proposals and approvals in a writing transaction."""

    def add(self, proposal: Proposal) -> None:
        """Store a proposal."""
        self._connection.execute(
            insert(proposals).values(digest=proposal.digest, serial=proposal.serial, document=proposal.raw)
        )

    def add_approval(self, approval: Approval, *, person: str, at: datetime) -> None:
        """Store a signature."""
        self._connection.execute(
            insert(approvals).values(
                digest=approval.proposal,
                key_id=approval.key_id,
                person=person,
                signature=approval.signature,
                added_at=rfc3339_text(at),
            )
        )

    def end(self, proposal: Proposal, *, outcome: str, at: datetime) -> None:
        """Store the outcome of a proposal; there is at most one."""
        self._connection.execute(
            insert(proposal_ends).values(digest=proposal.digest, outcome=outcome, ended_at=rfc3339_text(at))
        )


def _quorum(version: int, document: object, *, number: int) -> Quorum:
    found = read_quorum(json_value(blob(document), what="people and rules"))
    if not found.version == version == number or canonical_json(found.members()) != document:
        raise ValueError("people and rules are not what was stored, or a version is missing")
    return found


def _proposal(document: object) -> Proposal:
    with readable("a stored proposal cannot be read", code="proposal-altered", field="quorum"):
        return read_proposal(blob(document))
