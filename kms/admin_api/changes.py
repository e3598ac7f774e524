"""``/v1/changes`` and ``/v1/proposals``: changes that may require the signatures of several people.

A role permits a caller to make, propose and execute a change; a rule may also require signatures. Any caller who can
see a proposal can submit a signature; only the signer counts.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Path

from kms.admin_api.context import Caller, WithCaller
from kms.admin_api.freezes import tenant_of
from kms.admin_api.models.common import ConfirmModel
from kms.admin_api.models.controls import (
    ApprovalModel,
    ChangeModel,
    ChangeRequestModel,
    ExecutedModel,
    ProposalListModel,
    ProposalModel,
    ReasonModel,
)
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.auth.authorisation import opened, require, require_anywhere
from kms.auth.names import identity_text
from kms.domain.actors import Actor, Means
from kms.domain.errors import ForbiddenError
from kms.domain.people import ChangeKind
from kms.domain.permissions import EVERY_TENANT, Operation, may
from kms.domain.proposals import read_approval
from kms.quorum.admin import (
    QuorumService,
    approve,
    change_now,
    execute,
    find,
    propose,
    standing,
    withdraw,
)
from kms.quorum.anchors import AnchorsApprove
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.change_context import ProposedChange
from kms.quorum.changes import QuorumSet, Thaw, read_change
from kms.quorum.floors import FloorLower, FloorRaise
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from kms.quorum.vault_policy import VaultPolicySet
from kms.references.intake import reach_of
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, tags=["changes"])
Which = Annotated[str, Path(max_length=64, description="SHA-256 of a proposal in hex, or its number.")]
_OPERATIONS: Final = {
    KeyPolicySet.action: Operation.POLICIES_CHANGE,
    KeyLimitsSet.action: Operation.LIMITS_CHANGE,
    VaultPolicySet.action: Operation.POLICIES_CHANGE,
    BreakGlassOpen.action: Operation.BREAK_GLASS,
    Thaw.action: Operation.THAW,
    QuorumSet.action: Operation.QUORUM_CHANGE,
    AnchorsApprove.action: Operation.ANCHORS_CHANGE,
    FloorLower.action: Operation.FLOORS_LOWER,
    FloorRaise.action: Operation.FLOORS_RAISE,
}


def demanded_by(change: ProposedChange) -> tuple[Operation, str | None] | None:
    """Return the operation and the tenant of a change; None if this API does not make it."""
    operation = _OPERATIONS.get(change.action)
    if operation is None:
        return None
    match change:
        case KeyPolicySet(name=name) | KeyLimitsSet(name=name) | BreakGlassOpen(name=name) | VaultPolicySet(name=name):
            return operation, name.tenant
        case Thaw(target=what):
            return operation, tenant_of(what)
        case FloorLower(floor=floor):
            return operation, None if floor.scope == EVERY_TENANT else floor.scope
        case _:
            return operation, None


@router.post("/v1/changes", summary="Make or propose a change", responses=changes(404, 409))
def make_change(caller: WithCaller, wanted: Annotated[ChangeRequestModel, body(ChangeRequestModel)]) -> ChangeModel:
    """Make a change for which one person suffices, or propose it for others to sign."""
    operation = _OPERATIONS.get(wanted.action)
    if operation is not None:  # before the costly parsing of policies and signatures in the arguments
        caller.demand(partial(require_anywhere, identity=caller.identity, operation=operation))
    change = read_change(wanted.action, wanted.arguments)
    caller.demand(partial(_require_change, identity=caller.identity, change=change))
    service, at = _service(caller), caller.now()
    if not wanted.propose:
        return ChangeModel(done=change_now(service, change, actor=caller.identity, at=at))
    lifetime = timedelta(hours=wanted.hours)
    made = propose(
        service, change, reason=wanted.reason, actor=caller.identity, at=at, person=wanted.person, lifetime=lifetime
    )
    return ChangeModel(proposal=made.digest, serial=made.serial)


@router.get("/v1/proposals", summary="List proposals", responses=reads())
def list_proposals(caller: WithCaller) -> ProposalListModel:
    """List all proposals and their states."""
    caller.require(Operation.PROPOSALS_READ)
    with caller.vault.store.reading() as reader:
        found = [_members(caller, reader, digest) for digest in reader.proposals.digests()]
    return ProposalListModel(proposals=[ProposalModel.model_validate(one) for one in found])


@router.get("/v1/proposals/{digest}", summary="Get a proposal", responses=reads(404, 422))
def read_proposal(digest: Which, caller: WithCaller) -> ProposalModel:
    """Return a proposal, its signers and what is missing, to callers who may see all proposals or make this change."""
    return _model(caller, _require_proposal(caller, digest, seeing=True))


@router.post("/v1/proposals/{digest}/approve", summary="Submit a signature", responses=changes(404, 409))
def approve_proposal(
    digest: Which, caller: WithCaller, given: Annotated[ApprovalModel, body(ApprovalModel)]
) -> ProposalModel:
    """Submit a signature over this proposal, as written by 'kms proposal sign'."""
    found = _require_proposal(caller, digest, seeing=True)
    approval = read_approval(given.approval.encode())
    if approval.proposal != found:
        raise ForbiddenError("the signature is over a different proposal", code="not-permitted", field="proposal")
    approve(_service(caller), approval, actor=caller.identity, at=caller.now())
    return _model(caller, found)


@router.post(
    "/v1/proposals/{digest}/execute",
    dependencies=[body(ConfirmModel)],
    summary="Execute an approved proposal",
    responses=changes(404, 409),
)
def execute_proposal(digest: Which, caller: WithCaller) -> ExecutedModel:
    """Execute a proposal once, after enough people signed it. The caller needs permission for such a change."""
    found = _require_proposal(caller, digest)
    done = execute(_service(caller), found, actor=caller.identity, at=caller.now())
    with caller.vault.store.reading() as reader:
        return ExecutedModel.model_validate({**_members(caller, reader, found), "done": done})


@router.post("/v1/proposals/{digest}/withdraw", summary="Withdraw a proposal", responses=changes(404, 409))
def withdraw_proposal(
    digest: Which, caller: WithCaller, given: Annotated[ReasonModel, body(ReasonModel)]
) -> ProposalModel:
    """End a proposal without executing it. The caller needs permission for such a change."""
    found = _require_proposal(caller, digest)
    withdraw(_service(caller), found, reason=given.reason, actor=caller.identity, at=caller.now())
    return _model(caller, found)


def _require_proposal(caller: Caller, which: str, *, seeing: bool = False) -> str:
    """Refuse unless the caller may see the proposal or make its change, and return its digest."""
    digest = _digest(caller, which)
    caller.demand(partial(_require_sight, identity=caller.identity, digest=digest, seeing=seeing))
    return digest


def _digest(caller: Caller, which: str) -> str:
    """Return the digest for a number; any other text is treated as a digest."""
    number = int(which) if which.isascii() and which.isdigit() and len(which) < 10 else 0
    if not number:
        return which
    with opened(caller.context.services.vault.store.reading()) as reader:
        digests = reader.proposals.digests()
    return digests[number - 1] if number <= len(digests) else which


def _service(caller: Caller) -> QuorumService:
    return QuorumService(
        vault=caller.vault,
        audience=caller.service.text,
        alone=caller.settings.allow_thaw_by_one,
        longest_relaxation=timedelta(seconds=caller.settings.break_glass_seconds),
    )


def _require_change(reader: ReadTransaction, *, identity: Actor, change: ProposedChange) -> None:
    if identity.means is Means.LOCAL:
        return
    demanded = demanded_by(change)
    if demanded is None:
        raise ForbiddenError(
            f"{identity_text(identity)} is not permitted to do this here: {change.action}",
            code="not-permitted",
            field="action",
            hint="run 'kms' on the service's machine for changes that this API does not make",
        )
    operation, tenant = demanded
    require(reader, identity, operation, tenant=tenant)
    # The first rule determines who approves all later changes, so it is not set over the network (MC-31).
    if isinstance(change, QuorumSet) and reader.quorum.current().rule(ChangeKind.QUORUM) is None:
        raise ForbiddenError(
            "the first quorum rule must be set on the service's machine",
            code="not-permitted",
            field="action",
            expected="a rule for 'quorum'",
            hint="run 'kms people add' and 'kms quorum set quorum' there; later changes can be made over the network",
        )
    # Documents may accompany a policy for the key that gets it; documents that affect other keys are service-wide.
    if isinstance(change, KeyPolicySet) and any(
        set(reach_of(reader, one)) - {str(change.name)} for one in change.references
    ):
        require(reader, identity, Operation.REFERENCES_CHANGE, tenant=None)


def _require_sight(reader: ReadTransaction, *, identity: Actor, digest: str, seeing: bool) -> None:
    """Require the permission for the proposal's change; to see it, permission to see all proposals suffices."""
    grants = reader.grants.held_by(identity)
    if seeing and may(identity, grants=grants, operation=Operation.PROPOSALS_READ, tenant=None) is not None:
        return
    proposal = find(reader, digest)
    _require_change(reader, identity=identity, change=read_change(proposal.action, proposal.arguments))


def _model(caller: Caller, digest: str) -> ProposalModel:
    with caller.vault.store.reading() as reader:
        return ProposalModel.model_validate(_members(caller, reader, digest))


def _members(caller: Caller, reader: ReadTransaction, digest: str) -> dict[str, object]:
    alone = caller.settings.allow_thaw_by_one
    one = standing(reader, find(reader, digest), alone=alone, at=caller.now())
    return {
        "digest": one.proposal.digest,
        "document": json.loads(one.proposal.raw),
        "state": one.state,
        "signed": list(one.signed),
        "missing": list(one.missing),
    }
