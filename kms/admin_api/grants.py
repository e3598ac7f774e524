"""``/v1/grants``: who has which role where."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kms.admin_api.context import WithCaller, in_thread
from kms.admin_api.models.access import GrantListModel, GrantModel, RoleRequestModel
from kms.admin_api.models.common import ConfirmModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.auth.grants import give_role, grant_members, read_role, revoke_role
from kms.auth.names import parse_identity
from kms.domain.permissions import Grant, Operation

router = APIRouter(route_class=AdminRoute, prefix="/v1/grants", tags=["grants"])
Revoked = Annotated[bool, Query(description="Those that were revoked, too.")]


def grant_model(grant: Grant) -> GrantModel:
    """Return a grant as it travels."""
    return GrantModel.model_validate(grant_members(grant))


@router.get("", operation_id="listGrants", summary="Who has which role", responses=reads(422))
@in_thread
def list_grants(caller: WithCaller, *, revoked: Revoked = False) -> GrantListModel:
    """List the grants that count, or all that were ever given."""
    caller.require(Operation.GRANTS_READ)
    with caller.vault.store.reading() as reader:
        found = list(reader.grants.all())
    return GrantListModel(grants=[grant_model(grant) for grant in found if revoked or grant.counts])


@router.post("", operation_id="createGrant", summary="Give somebody a role", responses=changes(409))
@in_thread
def create_grant(caller: WithCaller, wanted: Annotated[RoleRequestModel, body(RoleRequestModel)]) -> GrantModel:
    """Give a role to somebody else."""
    caller.require(Operation.GRANTS_CHANGE)
    given = give_role(
        caller.vault.store,
        identity=parse_identity(wanted.identity),
        tenant=wanted.tenant,
        role=read_role(wanted.role),
        actor=caller.identity,
        at=caller.now(),
    )
    return grant_model(given)


@router.post(
    "/{number}/revoke",
    operation_id="revokeGrant",
    dependencies=[body(ConfirmModel)],
    summary="Take a role away",
    responses=changes(404, 409),
)
@in_thread
def revoke_grant(number: int, caller: WithCaller) -> GrantModel:
    """Take a role away, from the next transaction on. The last administrator stays."""
    caller.require(Operation.GRANTS_CHANGE)
    return grant_model(revoke_role(caller.vault.store, number, actor=caller.identity, at=caller.now()))
