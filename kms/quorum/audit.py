"""Audit of stored people, rules and proposals against the log."""

from __future__ import annotations

from collections.abc import Iterator

from attest.errors import SignatureError
from kms.domain.proposals import signers
from kms.quorum.admin import PROPOSAL_CREATED, PROPOSAL_EXECUTED, PROPOSAL_WITHDRAWN
from kms.quorum.changes import QUORUM_CHANGED
from kms.store import ReadTransaction

_ENDS = {PROPOSAL_EXECUTED: "executed", PROPOSAL_WITHDRAWN: "withdrawn"}


def differences(tx: ReadTransaction) -> Iterator[str]:
    """Yield a line for each difference from the log.

    Raises:
        IntegrityError: a record cannot be read.
    """
    versions, created, ended = _logged(tx)
    if [one.digest for one in tx.quorum.versions()] != versions:
        yield "people and rules are not those that the log says were put into force"
    stored = tx.proposals.digests()
    if set(stored) != created:
        yield "the proposals are not those that the log says were made"
    for digest in stored:
        yield from _of_proposal(tx, digest, ended.get(digest))


def _of_proposal(tx: ReadTransaction, digest: str, outcome: str | None) -> Iterator[str]:
    proposal = tx.proposals.find(digest)
    if proposal is None or proposal.digest != digest:
        yield f"proposal {digest} is not what was proposed"
        return
    if tx.proposals.outcome(digest) != outcome:
        yield f"proposal {proposal.serial} did not end as the log says"
    try:
        signers(proposal, tx.proposals.approvals(digest), tx.quorum.current())
    except SignatureError as exc:
        yield exc.message


def _logged(tx: ReadTransaction) -> tuple[list[str], set[str], dict[str, str]]:
    """Return from the log: digests of people and rules, digests of proposals, and the outcomes of these."""
    versions: list[str] = []
    created: set[str] = set()
    ended: dict[str, str] = {}
    for entry in tx.log.entries():
        document = entry.document()
        kind, digest = str(document.get("kind")), str(document.get("proposal"))
        if kind == QUORUM_CHANGED:
            versions.append(str(document.get("sha256")))
        elif kind == PROPOSAL_CREATED:
            created.add(digest)
        elif kind in _ENDS:
            ended[digest] = _ENDS[kind]
    return versions, created, ended
