"""People, rules, proposals and approvals in the database. Rows are never changed; the newest version is in force."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, String, Table, func, select

from attest.encoding import json_value, rfc3339_text
from kms.domain.canonical_json import canonical_json
from kms.domain.people import NOBODY, Quorum, read_quorum
from kms.domain.proposals import Approval, Proposal, read_proposal
from kms.store.repository import Repository, blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows

quorum_documents = Table(
    "quorum_documents",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Named people and rules, see ``kms/domain/people.py``; the highest version is in force. Triggers refuse changes."""

proposals = Table(
    "proposals",
    metadata,
    Column("digest", name_of(64), primary_key=True),
    Column("serial", Integer, nullable=False, unique=True),
    Column("document", LargeBinary, nullable=False),
    info=authenticated(more=APPEND_ONLY),
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
    info=authenticated(more=APPEND_ONLY),
)
"""Signatures over them, verified at every use. Never changed."""

proposal_ends = Table(
    "proposal_ends",
    metadata,
    Column("digest", name_of(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("ended_at", String(40), nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Outcomes of proposals, at most one each. Never changed."""


class QuorumReader(Repository):
    """People and rules in a reading transaction."""

    def current(self) -> Quorum:
        """Return the people and rules in force.

        Raises:
            IntegrityError: ``quorum-record-invalid``. Changes that require a quorum are refused while it is malformed.
        """
        versions = self.versions()
        return versions[-1] if versions else NOBODY

    def ever_ruled(self) -> bool:
        """Return True if any rule was ever in force.

        Raises:
            IntegrityError: ``quorum-record-invalid``.
        """
        return any(one.rules for one in self.versions())

    def versions(self) -> tuple[Quorum, ...]:
        """Return every version of people and rules, the oldest first.

        Raises:
            IntegrityError: ``quorum-record-invalid``.
        """
        ordered = whole_rows(quorum_documents).order_by(quorum_documents.c.version)
        rows = [self._genuine(quorum_documents, row) for row in self._connection.execute(ordered).all()]
        self._require_none(quorum_documents, version=len(rows) + 1)
        with readable("the stored people and rules are malformed", code="quorum-record-invalid", field="quorum"):
            return tuple(_quorum(row, number=number) for number, row in enumerate(rows, start=1))


class QuorumRepository(QuorumReader):
    """People and rules in a writing transaction."""

    def add(self, quorum: Quorum, *, at: datetime) -> None:
        """Put people and rules into force."""
        document = canonical_json(quorum.members())
        self._add(quorum_documents, {"version": quorum.version, "document": document, "set_at": rfc3339_text(at)})


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
        row = self._row(proposals, digest=digest)
        with readable("a stored proposal is malformed", code="proposal-altered", field="quorum"):
            return None if row is None else read_proposal(blob(row["document"]))

    def digests(self) -> tuple[str, ...]:
        """Return the digests of all proposals in their order."""
        return tuple(self._connection.execute(select(proposals.c.digest).order_by(proposals.c.serial)).scalars())

    def outcome(self, digest: str) -> str | None:
        """Return the outcome of a proposal, or None."""
        row = self._row(proposal_ends, digest=digest)
        return None if row is None else str(row["outcome"])

    def approvals(self, digest: str) -> tuple[Approval, ...]:
        """Return the signatures over a proposal, unverified."""
        statement = whole_rows(approvals).where(approvals.c.digest == digest).order_by(approvals.c.key_id)
        rows = [self._genuine(approvals, row) for row in self._connection.execute(statement).all()]
        with readable("a stored approval is malformed", code="proposal-altered", field="quorum"):
            return tuple(
                Approval(proposal=digest, key_id=str(row["key_id"]), signature=blob(row["signature"])) for row in rows
            )


class ProposalRepository(ProposalReader):
    """Proposals and approvals in a writing transaction."""

    def add(self, proposal: Proposal) -> None:
        """Store a proposal."""
        self._add(proposals, {"digest": proposal.digest, "serial": proposal.serial, "document": proposal.raw})

    def add_approval(self, approval: Approval, *, person: str, at: datetime) -> None:
        """Store a signature."""
        self._add(
            approvals,
            {
                "digest": approval.proposal,
                "key_id": approval.key_id,
                "person": person,
                "signature": approval.signature,
                "added_at": rfc3339_text(at),
            },
        )

    def end(self, proposal: Proposal, *, outcome: str, at: datetime) -> None:
        """Store the outcome of a proposal; there is at most one."""
        self._add(proposal_ends, {"digest": proposal.digest, "outcome": outcome, "ended_at": rfc3339_text(at)})


def _quorum(row: Values, *, number: int) -> Quorum:
    version, document = row["version"], row["document"]
    found = read_quorum(json_value(blob(document), what="people and rules"))
    if not found.version == version == number or canonical_json(found.members()) != document:
        raise ValueError("people and rules were altered, or a version is missing")
    return found
