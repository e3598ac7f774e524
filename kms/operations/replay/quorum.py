"""People, rules and proposals of the replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attest.errors import SignatureError
from kms.domain.proposals import signers
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.quorum.admin import PROPOSAL_APPROVED, PROPOSAL_CREATED, PROPOSAL_EXECUTED, PROPOSAL_WITHDRAWN
from kms.quorum.changes import QUORUM_CHANGED
from kms.store import ReadTransaction

_ENDS = {PROPOSAL_EXECUTED: "executed", PROPOSAL_WITHDRAWN: "withdrawn"}


class PeopleAndRules(Noun):
    """Every version of people and rules."""

    check = "quorum"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            QUORUM_CHANGED: lambda entry: self.make(
                _version(entry.number("version")), entry, digest=entry.text("sha256")
            ),
        }

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((_version(one.version), {"digest": one.digest}) for one in tx.quorum.versions())


def _version(number: int) -> str:
    return f"people and rules, version {number}"


class Proposals(Noun):
    """Every proposal with its outcome, and every approval."""

    check = "quorum"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            PROPOSAL_CREATED: lambda entry: self.make(_proposal(entry.text("proposal")), entry, outcome=None),
            PROPOSAL_APPROVED: lambda entry: self.make(_approval(entry.text("proposal"), entry.text("key_id")), entry),
            **dict.fromkeys(_ENDS, self._ended),
        }

    def _ended(self, entry: ReplayedEntry) -> None:
        self.change(_proposal(entry.text("proposal")), entry, outcome=_ENDS[entry.kind])

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for digest in tx.proposals.digests():
            yield _proposal(digest), {"outcome": tx.proposals.outcome(digest)}
            yield from ((_approval(digest, one.key_id), {}) for one in tx.proposals.approvals(digest))

    def differences(self, tx: ReadTransaction, looked_at: list[str]) -> Iterator[str]:
        """Yield also altered proposals, and signatures that do not verify."""
        yield from super().differences(tx, looked_at)
        quorum = tx.quorum.current()
        for digest in tx.proposals.digests():
            proposal = tx.proposals.find(digest)
            if proposal is None or proposal.digest != digest:
                yield f"proposal {digest} was altered"
                continue
            try:
                signers(proposal, tx.proposals.approvals(digest), quorum)
            except SignatureError as exc:
                yield exc.message


def _proposal(digest: str) -> str:
    return f"proposal {digest}"


def _approval(digest: str, key_id: str) -> str:
    return f"approval of proposal {digest} by the key {key_id}"
