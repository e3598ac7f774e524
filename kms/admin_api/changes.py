"""``/v1/changes`` and ``/v1/proposals``: what may take the signatures of several people.

A role allows to make, propose and execute a change; the signatures that a rule demands are needed besides. Who brings a
signature does not matter, only who made it, so whoever may see a proposal may hand one in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from fastapi import APIRouter, Request

from kms.admin_api.bodies import read_body
from kms.admin_api.context import Caller, WithCaller
from kms.admin_api.freezes import tenant_of
from kms.admin_api.models.common import ConfirmModel, Digest
from kms.admin_api.models.controls import (
    ApprovalModel,
    ChangeModel,
    ChangeRequestModel,
    ProposalListModel,
    ProposalModel,
    ReasonModel,
)
from kms.api.schema import refusals, request_body
from kms.auth.authorisation import require
from kms.auth.names import identity_text
from kms.domain.actors import Actor
from kms.domain.errors import ForbiddenError
from kms.domain.people import ChangeKind
from kms.domain.permissions import Operation, may
from kms.domain.proposals import read_approval
from kms.keys.vault import Vault
from kms.quorum.admin import (
    ProposalStatus,
    QuorumService,
    approve,
    change_now,
    execute,
    find,
    propose,
    standing,
    withdraw,
)
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.change_context import ProposedChange
from kms.quorum.changes import QuorumSet, Thaw, read_change
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from kms.references.reach import reach_of
from kms.store import ReadTransaction

__all__ = ["router"]

router = APIRouter(tags=["changes"])
_CHANGE = refusals(400, 401, 403, 404, 409, 413, 415, 422, 500, 503)
_SERVICE_WIDE: Final = {QuorumSet.action: Operation.QUORUM_CHANGE, "anchors-approve": Operation.ANCHORS_CHANGE}


def demanded_by(change: ProposedChange) -> tuple[Operation, str | None] | None:
    """Return which operation a change is, and whose; None for one that this API does not make."""
    match change:
        case KeyPolicySet(name=name):
            return Operation.POLICIES_CHANGE, name.tenant
        case KeyLimitsSet(name=name):
            return Operation.LIMITS_CHANGE, name.tenant
        case BreakGlassOpen(name=name):
            return Operation.BREAK_GLASS, name.tenant
        case Thaw(target=what):
            return Operation.THAW, tenant_of(what)
        case _:
            operation = _SERVICE_WIDE.get(change.action)
            return None if operation is None else (operation, None)


@router.post(
    "/v1/changes",
    operation_id="makeChange",
    summary="Make or propose a change",
    openapi_extra=request_body(ChangeRequestModel),
    responses=_CHANGE,
)
async def make_change(request: Request, caller: WithCaller) -> ChangeModel:
    """Make a change for which one person suffices, or write it down for others to sign."""
    wanted = await read_body(request, ChangeRequestModel)
    # In a thread: it may be a whole policy with signatures to verify, and nobody else shall wait for that.
    change = await caller.run(lambda: read_change(wanted.action, wanted.arguments))
    demand = partial(_require_change, identity=caller.identity, change=change)
    desk, at = _desk(caller, caller.vault_for(demand)), caller.now()

    def make() -> ChangeModel:
        if not wanted.propose:
            return ChangeModel(done=change_now(desk, change, actor=caller.identity, at=at))
        lifetime = timedelta(hours=wanted.hours)
        made = propose(
            desk,
            change,
            reason=wanted.reason,
            actor=caller.identity,
            at=at,
            person=wanted.person,
            lifetime=lifetime,
        )
        return ChangeModel(proposal=made.digest)

    return await caller.run(make)


@router.get(
    "/v1/proposals", operation_id="listProposals", summary="Every proposal", responses=refusals(401, 403, 500, 503)
)
async def list_proposals(caller: WithCaller) -> ProposalListModel:
    """List every proposal and how it stands."""
    at, settings = caller.now(), caller.context.base.settings

    def look(reader: ReadTransaction) -> ProposalListModel:
        found = [find(reader, digest) for digest in reader.proposals.digests()]
        stands = [standing(reader, one, alone=settings.allow_thaw_by_one, at=at) for one in found]
        return ProposalListModel(proposals=[_model(one) for one in stands])

    return await caller.read(Operation.PROPOSALS_READ, look)


@router.get(
    "/v1/proposals/{digest}",
    operation_id="readProposal",
    summary="A proposal and how it stands",
    responses=refusals(401, 403, 404, 422, 500, 503),
)
async def read_proposal(digest: Digest, caller: WithCaller) -> ProposalModel:
    """Show a proposal, who signed it, and what it lacks; to those who may see all, or may make this change."""
    return await _on(caller, digest, lambda _: None, seeing=True)


@router.post(
    "/v1/proposals/{digest}/approve",
    operation_id="approveProposal",
    summary="Hand a signature in",
    openapi_extra=request_body(ApprovalModel),
    responses=_CHANGE,
)
async def approve_proposal(digest: Digest, request: Request, caller: WithCaller) -> ProposalModel:
    """Take in a signature over this proposal, as 'kms proposal sign' makes it."""
    given = await read_body(request, ApprovalModel)
    at = caller.now()

    def take(desk: QuorumService) -> None:
        approval = read_approval(given.approval.encode())
        if approval.proposal != digest:
            raise ForbiddenError("the signature is over another proposal", code="not-permitted", field="proposal")
        approve(desk, approval, actor=caller.identity, at=at)

    return await _on(caller, digest, take, seeing=True)


@router.post(
    "/v1/proposals/{digest}/execute",
    operation_id="executeProposal",
    summary="Do what was approved",
    openapi_extra=request_body(ConfirmModel),
    responses=_CHANGE,
)
async def execute_proposal(digest: Digest, request: Request, caller: WithCaller) -> ProposalModel:
    """Do what enough people signed, once; for those who may make such a change."""
    await read_body(request, ConfirmModel)
    at = caller.now()

    return await _on(caller, digest, lambda desk: execute(desk, digest, actor=caller.identity, at=at))


@router.post(
    "/v1/proposals/{digest}/withdraw",
    operation_id="withdrawProposal",
    summary="End it without doing it",
    openapi_extra=request_body(ReasonModel),
    responses=_CHANGE,
)
async def withdraw_proposal(digest: Digest, request: Request, caller: WithCaller) -> ProposalModel:
    """End a proposal without doing it; for those who may make such a change."""
    given = await read_body(request, ReasonModel)
    at = caller.now()

    return await _on(
        caller, digest, lambda desk: withdraw(desk, digest, reason=given.reason, actor=caller.identity, at=at)
    )


async def _on(
    caller: Caller, digest: str, work: Callable[[QuorumService], object], *, seeing: bool = False
) -> ProposalModel:
    """Work on a proposal, within what the caller may, and show how it stands then."""
    demand = partial(_require_proposal, identity=caller.identity, digest=digest, seeing=seeing)
    desk, at = _desk(caller, caller.vault_for(demand)), caller.now()

    def do() -> ProposalModel:
        with desk.vault.store.reading():  # whether they may is said first
            pass
        work(desk)
        with desk.vault.store.reading() as reader:
            return _model(standing(reader, find(reader, digest), alone=desk.alone, at=at))

    return await caller.run(do)


def _desk(caller: Caller, vault: Vault) -> QuorumService:
    settings = caller.context.base.settings
    return QuorumService(
        vault=vault,
        audience=caller.context.base.services.identity.public.text,
        alone=settings.allow_thaw_by_one,
        longest_glass=timedelta(seconds=settings.break_glass_seconds),
    )


def _require_change(reader: ReadTransaction, *, identity: Actor, change: ProposedChange) -> None:
    demanded = demanded_by(change)
    if demanded is None:
        raise ForbiddenError(
            f"{identity_text(identity)} may not do this here: {change.action}",
            code="not-permitted",
            field="action",
            hint="'kms' on the service's machine makes changes that this API does not",
        )
    operation, tenant = demanded
    require(reader, identity, operation, tenant=tenant)
    # Whoever sets up the first rule says who agrees to everything later. That is no matter of the network (MC-31).
    if isinstance(change, QuorumSet) and reader.quorum.current().rule(ChangeKind.QUORUM) is None:
        raise ForbiddenError(
            "who agrees to changes is first set up on the service's machine",
            code="not-permitted",
            field="action",
            expected="a rule for 'quorum'",
            hint="'kms people add' and 'kms quorum set quorum' there; later changes of it can come over the network",
        )
    # Documents come along with a policy for the key that gets it; what counts for others too is service-wide.
    if isinstance(change, KeyPolicySet) and any(
        set(reach_of(reader, one)) - {str(change.name)} for one in change.references
    ):
        require(reader, identity, Operation.REFERENCES_CHANGE, tenant=None)


def _require_proposal(reader: ReadTransaction, *, identity: Actor, digest: str, seeing: bool) -> None:
    """Demand what the proposal's own change demands; to see it, the right to see all of them suffices."""
    grants = reader.grants.held_by(identity)
    if seeing and may(identity, grants=grants, operation=Operation.PROPOSALS_READ, tenant=None) is not None:
        return
    proposal = find(reader, digest)
    _require_change(reader, identity=identity, change=read_change(proposal.action, proposal.arguments))


def _model(one: ProposalStatus) -> ProposalModel:
    return ProposalModel(
        digest=one.proposal.digest,
        document=json.loads(one.proposal.raw),
        state=one.state,
        signed=list(one.signed),
        missing=list(one.missing),
    )
