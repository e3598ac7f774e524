"""Changing at once where one person suffices; else proposing, approving, withdrawing and executing. All is logged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError, SignatureError
from kms.domain.actors import Actor
from kms.domain.errors import IntegrityError, KeyConflictError, KeyUnknownError, QuorumRequiredError
from kms.domain.freezes import require_reason
from kms.domain.people import Person, Quorum
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
from kms.quorum.change_context import Changing, Prepared, ProposedChange
from kms.quorum.changes import read_change
from kms.store import ReadTransaction, WriteTransaction

PROPOSAL_CREATED = "proposal-created"
PROPOSAL_APPROVED = "proposal-approved"
PROPOSAL_WITHDRAWN = "proposal-withdrawn"
PROPOSAL_EXECUTED = "proposal-executed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumService:
    """Everything that changes and proposals work with.

    Attributes:
        vault: the database and the key-encryption key.
        audience: the service's verifier key: no approval for another service counts here.
        alone: the setting ``allow_thaw_by_one``.
        longest_glass: the setting ``break_glass_seconds``.
    """

    vault: Vault
    audience: str
    alone: bool
    longest_glass: timedelta = timedelta(hours=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalStatus:
    """How a proposal stands.

    Attributes:
        proposal: it.
        state: ``open``, ``expired``, ``executed`` or ``withdrawn``.
        signed: who signed, of those who are registered now.
        missing: what it lacks, a line a rule; empty when it can be executed.
    """

    proposal: Proposal
    state: str
    signed: tuple[str, ...]
    missing: tuple[str, ...]


def change_now(service: QuorumService, change: ProposedChange, *, actor: Actor, at: datetime) -> str:
    """Make a change for which one person suffices.

    Raises:
        QuorumRequiredError: ``quorum-required``.
        AttestError: whatever the change refuses.
    """
    with service.vault.store.reading() as tx:
        # Before anything is prepared; what counts is asked again below.
        _require_alone(change, tx.quorum.current(), service)
        change.state(tx)
    prepared = change.prepare(service.vault)
    with service.vault.store.writing() as tx:
        _require_alone(change, tx.quorum.current(), service)
        change.state(tx)
        return change.apply(_changing(service, tx, actor=actor, at=at, approval={}, prepared=prepared))


def _require_alone(change: ProposedChange, quorum: Quorum, service: QuorumService) -> None:
    rules = change.demanded(quorum, alone=service.alone)
    if rules:
        first = rules[0]
        raise QuorumRequiredError(
            f"a change of this kind takes {first.threshold} of {', '.join(first.people)}",
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
    """Write a change down for others to sign.

    Raises:
        ConfigurationError: ``reason-invalid``, ``proposal-invalid`` (too long, or it would end too late) or
            ``quorum-invalid``: nobody of that name.
        AttestError: the change could not be made as things are now.
    """
    require_reason(reason)
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ConfigurationError(
            f"a proposal stands for up to {MAX_LIFETIME.days} days",
            code="proposal-invalid",
            field="lifetime",
            expected=f"above 0 and at most {MAX_LIFETIME}",
            got=str(lifetime),
        )
    with service.vault.store.writing() as tx:
        if person is not None and person not in {one.name for one in tx.quorum.current().people}:
            raise ConfigurationError(f"there is nobody called {person[:80]!r}", code="quorum-invalid", field="person")
        change.demanded(tx.quorum.current(), alone=service.alone)
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
        if len(proposal.raw) > MAX_PROPOSAL_BYTES:
            raise ConfigurationError(
                f"the proposal has {len(proposal.raw)} bytes", code="proposal-invalid", field="arguments",
                expected=f"at most {MAX_PROPOSAL_BYTES}",
            )  # fmt: skip
        tx.proposals.add(proposal)
        body = {**_named(proposal), "reason": reason, "expires": rfc3339_text(proposal.expires)}
        _log(tx, PROPOSAL_CREATED, body, actor, at)
    return proposal


def approve(service: QuorumService, approval: Approval, *, actor: Actor, at: datetime) -> ProposalStatus:
    """Take a signature in. Who brings it does not matter, only who made it.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        KeyConflictError: ``proposal-ended``, ``proposal-expired`` or ``approval-repeated``.
        SignatureError: ``approval-signature-invalid``, or ``approval-unknown-key``: nobody here has that key.
    """
    with service.vault.store.writing() as tx:
        proposal = _open(tx, approval.proposal, at)
        people = signers(proposal, (approval,), tx.quorum.current())
        if not people:
            raise SignatureError(
                "nobody who is registered has the key of this signature",
                code="approval-unknown-key",
                field="key_id",
                got=approval.key_id[:64],
                hint="'kms people list' shows whose keys count",
            )
        already = signers(proposal, tx.proposals.approvals(proposal.digest), tx.quorum.current())
        if people[0].name in {one.name for one in already}:
            raise KeyConflictError(
                f"{people[0].name} has signed proposal {proposal.serial} already",
                code="approval-repeated",
                field=people[0].name,
            )
        tx.proposals.add_approval(approval, person=people[0].name, at=at)
        body: dict[str, JsonValue] = {"person": people[0].name, "key_id": approval.key_id}
        _log(tx, PROPOSAL_APPROVED, {**_named(proposal), **body}, actor, at)
        return standing(tx, proposal, alone=service.alone, at=at)


def withdraw(service: QuorumService, digest: str, *, reason: str, actor: Actor, at: datetime) -> Proposal:
    """End a proposal without doing it.

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
    """Do what was approved, once, in one transaction with everything that is looked at.

    Raises:
        KeyUnknownError: ``proposal-unknown``.
        KeyConflictError: ``proposal-ended``, ``proposal-expired``, ``proposal-outdated`` or what the change refuses.
        QuorumRequiredError: ``quorum-not-reached`` or ``quorum-required``.
        ConfigurationError: ``proposal-other-service``.
        IntegrityError: ``proposal-altered``.
    """
    # (0) What takes long is done before anything is locked; all that counts is looked at again in the transaction.
    with service.vault.store.reading() as tx:
        waiting = _open(tx, digest, at)
    prepared = read_change(waiting.action, waiting.arguments).prepare(service.vault)
    with service.vault.store.writing() as tx:
        # (1) It is a proposal for this service, not ended, in time, and stored as it was made.
        proposal = _open(tx, digest, at)
        if proposal.audience != service.audience:
            raise ConfigurationError(
                "the proposal is for another service",
                code="proposal-other-service",
                field="audience",
                expected=service.audience,
                got=proposal.audience[:200],
            )
        # (2) What it builds on is as it was when people read it.
        change = read_change(proposal.action, proposal.arguments)
        if change.kind is not proposal.kind or change.state(tx) != proposal.state:
            raise KeyConflictError(
                f"what proposal {proposal.serial} builds on is no longer so",
                code="proposal-outdated",
                field=digest,
                expected="the state that its approvers read",
                hint="look at what changed, and propose it anew",
            )
        # (3) Enough people signed: verified now, against those who are registered now, by the rules of now.
        quorum = tx.quorum.current()
        people = signers(proposal, tx.proposals.approvals(digest), quorum)
        lacking = _lacking(change, proposal, people, quorum, alone=service.alone)
        if lacking:
            raise QuorumRequiredError(
                f"proposal {proposal.serial} lacks signatures: {'; '.join(lacking)}",
                code="quorum-not-reached",
                field=digest,
                expected="; ".join(lacking),
                got=", ".join(sorted(one.name for one in people)) or "nobody",
                hint="'kms proposal show --export FILE', 'kms proposal sign FILE', 'kms proposal approve'",
            )
        # (4) It is done, and can never be done again.
        approved: list[JsonValue] = [f"{one.name} {one.key_id}" for one in people]
        named: dict[str, JsonValue] = {"proposal": digest, "approved_by": approved}
        done = change.apply(_changing(service, tx, actor=actor, at=at, approval=named, prepared=prepared))
        tx.proposals.end(proposal, outcome="executed", at=at)
        _log(tx, PROPOSAL_EXECUTED, {**_named(proposal), "approved_by": approved}, actor, at)
    return done


def standing(tx: ReadTransaction, proposal: Proposal, *, alone: bool, at: datetime) -> ProposalStatus:
    """Say how a proposal stands."""
    quorum = tx.quorum.current()
    people = signers(proposal, tx.proposals.approvals(proposal.digest), quorum)
    ended = tx.proposals.outcome(proposal.digest)
    try:
        change = read_change(proposal.action, proposal.arguments)
        lacking = _lacking(change, proposal, people, quorum, alone=alone)
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


def _changing(
    service: QuorumService,
    tx: WriteTransaction,
    *,
    actor: Actor,
    at: datetime,
    approval: dict[str, JsonValue],
    prepared: Prepared,
) -> Changing:
    return Changing(
        tx=tx, actor=actor, at=at, approval=approval, prepared=prepared, longest_glass=service.longest_glass
    )


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
            hint="'kms proposal list' shows those there are",
        )
    if found.digest != digest:
        raise IntegrityError(
            f"the stored proposal {digest} is not what was proposed",
            code="proposal-altered",
            field="proposals",
            hint="the database was altered or damaged; restore it from a backup",
        )
    return found


def _open(tx: ReadTransaction, digest: str, at: datetime) -> Proposal:
    proposal = find(tx, digest)
    _require_not_ended(tx, proposal)
    if not proposal.created <= at < proposal.expires:
        raise KeyConflictError(
            f"proposal {proposal.serial} stood until {rfc3339_text(proposal.expires)}",
            code="proposal-expired",
            field=digest,
            expected=f"from {rfc3339_text(proposal.created)}, before {rfc3339_text(proposal.expires)}",
            got=rfc3339_text(at),
            hint="propose it anew",
        )
    return proposal


def _require_not_ended(tx: ReadTransaction, proposal: Proposal) -> None:
    ended = tx.proposals.outcome(proposal.digest)
    if ended is not None:
        raise KeyConflictError(
            f"proposal {proposal.serial} was {ended}",
            code="proposal-ended",
            field=proposal.digest,
            hint="propose it anew; no proposal is done twice",
        )
