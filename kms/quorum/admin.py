"""Changes by one person where that suffices; otherwise proposals, approvals and their execution. All is logged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError, SignatureError
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError, KeyUnknownError, QuorumRequiredError, damaged
from kms.domain.freezes import require_reason
from kms.domain.people import ChangeKind, Person, Quorum
from kms.domain.proposals import (
    DEFAULT_LIFETIME,
    MAX_LIFETIME,
    MAX_PROPOSAL_BYTES,
    Approval,
    Proposal,
    missing,
    signers,
)
from kms.keys.vault import Vault
from kms.quorum.change_context import Changing, ProposedChange
from kms.quorum.changes import read_change
from kms.store import ReadTransaction, WriteTransaction

ThawMode = Literal["quorum", "one", "none"]
PROPOSAL_CREATED = "proposal-created"
PROPOSAL_APPROVED = "proposal-approved"
PROPOSAL_WITHDRAWN = "proposal-withdrawn"
PROPOSAL_EXECUTED = "proposal-executed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumService:
    """Dependencies of changes and proposals.

    Attributes:
        audience: the service's verifier key: an approval for another service has no effect here.
        alone: the setting ``allow_thaw_by_one``.
        longest_relaxation: the setting ``break_glass_seconds``.
    """

    vault: Vault
    audience: str
    alone: bool
    longest_relaxation: timedelta = timedelta(hours=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalStatus:
    """Status of a proposal.

    Attributes:
        state: ``open``, ``expired``, ``executed`` or ``withdrawn``.
        signed: the signers that are registered now.
        missing: a line for each rule that it does not meet; empty when it can be executed.
    """

    proposal: Proposal
    state: str
    signed: tuple[str, ...]
    missing: tuple[str, ...]


def change_now(service: QuorumService, change: ProposedChange, *, actor: Actor, at: datetime) -> str:
    """Make a change for which one person suffices.

    Raises:
        QuorumRequiredError: ``quorum-required``.
        AttestError: as the change itself.
    """
    with service.vault.store.reading() as tx:
        # A refusal comes before secrets are wrapped; the writing transaction checks again.
        _require_alone(change, tx, service)
        change.state(tx)
    prepared = change.prepare(service.vault)
    with service.vault.store.writing() as tx:
        _require_alone(change, tx, service)
        change.state(tx)
        relaxation = service.longest_relaxation
        return change.apply(
            Changing(tx=tx, actor=actor, at=at, approval={}, prepared=prepared, longest_relaxation=relaxation)
        )


def thaw_mode(tx: ReadTransaction, *, alone: bool) -> ThawMode:
    """Return the way to end a freeze now: by a quorum, by one person (``alone`` is the setting), or none."""
    if tx.quorum.current().demanded(ChangeKind.THAW):
        return "quorum"
    return "one" if _counts_alone(tx, alone=alone) else "none"


def _counts_alone(tx: ReadTransaction, *, alone: bool) -> bool:
    """Return True if the setting is on and counts: for a service that never had a rule, dissolved ones included."""
    return alone and not tx.quorum.ever_ruled()


def _require_alone(change: ProposedChange, tx: ReadTransaction, service: QuorumService) -> None:
    rules = change.demanded(tx.quorum.current(), alone=_counts_alone(tx, alone=service.alone))
    if rules:
        first = rules[0]
        raise QuorumRequiredError(
            f"this kind of change requires {first.threshold} of {', '.join(first.people)}",
            code="quorum-required",
            field=str(first.kind),
            expected=f"{first.threshold} signatures over a proposal",
            hint="repeat the command with --propose, have the proposal signed, then 'kms proposal execute'",
        )


def propose(
    service: QuorumService,
    change: ProposedChange,
    *,
    reason: str,
    actor: Actor,
    at: datetime,
    person: str | None = None,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> Proposal:
    """Store a change for others to sign.

    Raises:
        ConfigurationError: ``reason-invalid``, ``proposal-invalid`` (too long, or it would end too late) or
            ``quorum-invalid``: the person is not registered.
        AttestError: the change is impossible in the current state.
    """
    require_reason(reason)
    _require_lifetime(lifetime)
    with service.vault.store.writing() as tx:
        if person is not None and person not in {one.name for one in tx.quorum.current().people}:
            raise ConfigurationError(
                f"no registered person is named {person[:80]!r}", code="quorum-invalid", field="person"
            )
        change.demanded(tx.quorum.current(), alone=_counts_alone(tx, alone=service.alone))
        at = at.replace(microsecond=0)
        proposal = Proposal(
            audience=service.audience,
            serial=tx.proposals.count() + 1,
            kind=change.kind,
            action=change.action,
            arguments=change.arguments(),
            state=change.state(tx),
            reason=reason,
            proposer=actor.members(),
            person=person,
            created=at,
            expires=at + lifetime,
        )
        _require_size(proposal)
        tx.proposals.add(proposal)
        body = {**_named(proposal), "reason": reason, "expires": rfc3339_text(proposal.expires)}
        _log(tx, PROPOSAL_CREATED, body, actor, at)
    return proposal


def _require_lifetime(lifetime: timedelta) -> None:
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ConfigurationError(
            f"a proposal can be valid for at most {MAX_LIFETIME.days} days",
            code="proposal-invalid",
            field="lifetime",
            expected=f"above 0 and at most {MAX_LIFETIME}",
            got=str(lifetime),
        )


def _require_size(proposal: Proposal) -> None:
    if len(proposal.raw) > MAX_PROPOSAL_BYTES:
        raise ConfigurationError(
            f"the proposal has {len(proposal.raw)} bytes",
            code="proposal-invalid",
            field="arguments",
            expected=f"at most {MAX_PROPOSAL_BYTES}",
        )


def approve(service: QuorumService, approval: Approval, *, actor: Actor, at: datetime) -> ProposalStatus:
    """Add a signature. The actor need not be its signer.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        KeyConflictError: ``proposal-ended``, ``proposal-expired`` or ``approval-repeated``.
        SignatureError: ``approval-signature-invalid``, or ``approval-unknown-key``: the key is not registered.
    """
    with service.vault.store.writing() as tx:
        proposal = _open(tx, approval.proposal, at)
        quorum = tx.quorum.current()
        name = _signer(proposal, approval, quorum).name
        if name in {one.name for one in signers(proposal, tx.proposals.approvals(proposal.digest), quorum)}:
            problem = f"{name} has already signed proposal {proposal.serial}"
            raise KeyConflictError(problem, code="approval-repeated", field=name)
        tx.proposals.add_approval(approval, person=name, at=at)
        body: dict[str, JsonValue] = {"person": name, "key_id": approval.key_id}
        _log(tx, PROPOSAL_APPROVED, {**_named(proposal), **body}, actor, at)
        return standing(tx, proposal, alone=service.alone, at=at)


def _signer(proposal: Proposal, approval: Approval, quorum: Quorum) -> Person:
    people = signers(proposal, (approval,), quorum)
    if people:
        return people[0]
    raise SignatureError(
        "the key of this signature does not belong to a registered person",
        code="approval-unknown-key",
        field="key_id",
        got=approval.key_id[:64],
        hint="'kms people list' lists the registered keys",
    )


def withdraw(service: QuorumService, digest: str, *, reason: str, actor: Actor, at: datetime) -> Proposal:
    """End a proposal without executing it.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        KeyConflictError: ``proposal-ended``.
    """
    require_reason(reason)
    with service.vault.store.writing() as tx:
        proposal = find(tx, digest)
        _require_not_ended(tx, proposal)
        tx.proposals.end(proposal, outcome="withdrawn", at=at)
        _log(tx, PROPOSAL_WITHDRAWN, {**_named(proposal), "reason": reason}, actor, at)
    return proposal


def execute(service: QuorumService, digest: str, *, actor: Actor, at: datetime) -> str:
    """Make an approved change, once, in one transaction with all of its checks.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        KeyConflictError: ``proposal-ended``, ``proposal-expired``, ``proposal-outdated`` or as the change itself.
        QuorumRequiredError: ``quorum-not-reached`` or ``quorum-required``.
        ConfigurationError: ``proposal-other-service``.
        IntegrityError: ``proposal-altered``.
    """
    # (0) Secrets are wrapped before the database is locked; the writing transaction repeats every check.
    with service.vault.store.reading() as tx:
        waiting = _open(tx, digest, at)
    prepared = read_change(waiting.action, waiting.arguments).prepare(service.vault)
    with service.vault.store.writing() as tx:
        # (1) It is a proposal for this service, not ended, in time, and stored as it was made.
        proposal = _open(tx, digest, at)
        _require_audience(proposal, service.audience)
        # (2) The state that it builds on is the one that its approvers read.
        change = read_change(proposal.action, proposal.arguments)
        _require_state(tx, proposal, change)
        # (3) Enough people signed: verified now, against the people and rules in force now.
        people = _require_signed(tx, proposal, change, alone=service.alone)
        # (4) The change is made, and cannot be made again.
        approved: list[JsonValue] = [f"{one.name} {one.key_id}" for one in people]
        named: dict[str, JsonValue] = {"proposal": digest, "approved_by": approved}
        relaxation = service.longest_relaxation
        done = change.apply(
            Changing(tx=tx, actor=actor, at=at, approval=named, prepared=prepared, longest_relaxation=relaxation)
        )
        tx.proposals.end(proposal, outcome="executed", at=at)
        _log(tx, PROPOSAL_EXECUTED, {**_named(proposal), "approved_by": approved}, actor, at)
    return done


def _require_audience(proposal: Proposal, audience: str) -> None:
    if proposal.audience != audience:
        raise ConfigurationError(
            "the proposal is for another service",
            code="proposal-other-service",
            field="audience",
            expected=audience,
            got=proposal.audience[:200],
        )


def _require_state(tx: ReadTransaction, proposal: Proposal, change: ProposedChange) -> None:
    if change.kind is not proposal.kind or change.state(tx) != proposal.state:
        raise KeyConflictError(
            f"the state that proposal {proposal.serial} is based on has changed",
            code="proposal-outdated",
            field=proposal.digest,
            expected="the state that its approvers read",
            hint="review the present state, and create a new proposal",
        )


def _require_signed(
    tx: ReadTransaction, proposal: Proposal, change: ProposedChange, *, alone: bool
) -> tuple[Person, ...]:
    """Return the signers of a proposal that has enough of them."""
    quorum = tx.quorum.current()
    people = signers(proposal, tx.proposals.approvals(proposal.digest), quorum)
    lacking = _lacking(change, proposal, people, quorum, alone=_counts_alone(tx, alone=alone))
    if not lacking:
        return people
    raise QuorumRequiredError(
        f"signatures of proposal {proposal.serial} are missing: {'; '.join(lacking)}",
        code="quorum-not-reached",
        field=proposal.digest,
        expected="; ".join(lacking),
        got=", ".join(sorted(one.name for one in people)) or "no signatures",
        hint="'kms proposal show --export FILE', 'kms proposal sign FILE', 'kms proposal approve'",
    )


def standing(tx: ReadTransaction, proposal: Proposal, *, alone: bool, at: datetime) -> ProposalStatus:
    """Return the status of a proposal."""
    quorum = tx.quorum.current()
    people = signers(proposal, tx.proposals.approvals(proposal.digest), quorum)
    ended = tx.proposals.outcome(proposal.digest)
    try:
        change = read_change(proposal.action, proposal.arguments)
        lacking = _lacking(change, proposal, people, quorum, alone=_counts_alone(tx, alone=alone))
    except QuorumRequiredError as exc:
        lacking = (exc.message,)
    return ProposalStatus(
        proposal=proposal,
        state=ended or ("expired" if at >= proposal.expires else "open"),
        signed=tuple(sorted(one.name for one in people)),
        missing=lacking,
    )


def _lacking(
    change: ProposedChange, proposal: Proposal, people: tuple[Person, ...], quorum: Quorum, *, alone: bool
) -> tuple[str, ...]:
    rules = change.demanded(quorum, alone=alone)
    found = (missing(rule, proposal, people) for rule in rules)
    return tuple(one for one in found if one is not None)


def _named(proposal: Proposal) -> dict[str, JsonValue]:
    kind, action = str(proposal.kind), proposal.action
    return {"proposal": proposal.digest, "serial": proposal.serial, "kind_of_change": kind, "action": action}


def _log(tx: WriteTransaction, kind: str, body: dict[str, JsonValue], actor: Actor, at: datetime) -> None:
    tx.log.add(kind=kind, at=at, body={**body, "actor": actor.members()})


def find(tx: ReadTransaction, digest: str) -> Proposal:
    """Return a proposal.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        IntegrityError: ``proposal-altered``.
    """
    found = tx.proposals.find(digest)
    if found is None:
        raise KeyUnknownError(
            f"there is no proposal {digest[:64]!r}",
            code="proposal-unknown",
            field=digest[:64],
            hint="'kms proposal list' lists all proposals",
        )
    if found.digest != digest:
        problem = f"the stored proposal {digest} was altered"
        raise damaged(problem, code="proposal-altered", field="proposals")
    return found


def _open(tx: ReadTransaction, digest: str, at: datetime) -> Proposal:
    proposal = find(tx, digest)
    _require_not_ended(tx, proposal)
    if not proposal.created <= at < proposal.expires:
        raise KeyConflictError(
            f"proposal {proposal.serial} expired at {rfc3339_text(proposal.expires)}",
            code="proposal-expired",
            field=digest,
            expected=f"from {rfc3339_text(proposal.created)}, before {rfc3339_text(proposal.expires)}",
            got=rfc3339_text(at),
            hint="create a new proposal",
        )
    return proposal


def _require_not_ended(tx: ReadTransaction, proposal: Proposal) -> None:
    ended = tx.proposals.outcome(proposal.digest)
    if ended is not None:
        raise KeyConflictError(
            f"proposal {proposal.serial} was {ended}",
            code="proposal-ended",
            field=proposal.digest,
            hint="create a new proposal; a proposal can be executed only once",
        )
