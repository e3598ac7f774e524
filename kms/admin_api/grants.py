"""``/v1/grants``: who has which role where."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from kms.admin_api.bodies import read_body
from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import GrantListModel, GrantModel, RoleRequestModel
from kms.admin_api.models.common import ConfirmModel
from kms.api.schema import refusals, request_body
from kms.auth.grants import give_role, grant_members, read_role, revoke_role
from kms.auth.names import parse_identity
from kms.domain.permissions import Grant, Operation

__all__ = ["grant_model", "router"]

router = APIRouter(prefix="/v1/grants", tags=["grants"])
Revoked = Annotated[bool, Query(description="Those that were revoked, too.")]


def grant_model(grant: Grant) -> GrantModel:
    """Return a grant as it travels."""
    return GrantModel.model_validate(grant_members(grant))


@router.get("", operation_id="listGrants", summary="Who has which role", responses=refusals(401, 403, 422, 500, 503))
async def list_grants(caller: WithCaller, *, revoked: Revoked = False) -> GrantListModel:
    """List the grants that count, or all that were ever given."""
    found = await caller.read(Operation.GRANTS_READ, lambda reader: list(reader.grants.all()))
    return GrantListModel(grants=[grant_model(grant) for grant in found if revoked or grant.counts])


@router.post(
    "",
    operation_id="createGrant",
    summary="Give somebody a role",
    openapi_extra=request_body(RoleRequestModel),
    responses=refusals(400, 401, 403, 409, 413, 415, 422, 500, 503),
)
async def create_grant(request: Request, caller: WithCaller) -> GrantModel:
    """Give a role to somebody else."""
    wanted = await read_body(request, RoleRequestModel)
    store = caller.vault(Operation.GRANTS_CHANGE).store
    at = caller.context.base.services.clock()

    def give() -> Grant:
        identity, role = parse_identity(wanted.identity), read_role(wanted.role)
        return give_role(store, identity=identity, tenant=wanted.tenant, role=role, actor=caller.identity, at=at)

    return grant_model(await caller.run(give))


@router.post(
    "/{number}/revoke",
    operation_id="revokeGrant",
    summary="Take a role away",
    openapi_extra=request_body(ConfirmModel),
    responses=refusals(400, 401, 403, 404, 409, 413, 415, 422, 500, 503),
)
async def revoke_grant(number: int, request: Request, caller: WithCaller) -> GrantModel:
    """Take a role away, from the next transaction on. The last administrator stays."""
    await read_body(request, ConfirmModel)
    store = caller.vault(Operation.GRANTS_CHANGE).store
    at = caller.context.base.services.clock()
    return grant_model(await caller.run(lambda: revoke_role(store, number, actor=caller.identity, at=at)))
