"""``/v1/grants``: roles of every identity. ``/v1/whoami``: the caller's own identity and roles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import GrantListModel, GrantModel, RoleRequestModel, WhoAmIModel
from kms.admin_api.models.common import ConfirmModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.api.schema import refusals
from kms.auth.authorisation import opened
from kms.auth.grants import give_role, grant_members, read_role, revoke_role
from kms.auth.names import identity_text, parse_identity
from kms.domain.permissions import Grant, Operation

router = APIRouter(route_class=AdminRoute)
Revoked = Annotated[bool, Query(description="Include revoked grants.")]


@router.get("/v1/grants", summary="List grants of roles", tags=["grants"], responses=reads(422))
def list_grants(caller: WithCaller, *, revoked: Revoked = False) -> GrantListModel:
    """List the grants in force, or also the revoked ones."""
    caller.require(Operation.GRANTS_READ)
    with caller.vault.store.reading() as reader:
        found = list(reader.grants.all())
    return GrantListModel(grants=[_model(grant) for grant in found if revoked or grant.counts])


@router.post("/v1/grants", summary="Grant a role", tags=["grants"], responses=changes(409))
def create_grant(caller: WithCaller, wanted: Annotated[RoleRequestModel, body(RoleRequestModel)]) -> GrantModel:
    """Grant a role to another identity."""
    caller.require(Operation.GRANTS_CHANGE)
    given = give_role(
        caller.vault.store,
        identity=parse_identity(wanted.identity),
        tenant=wanted.tenant,
        role=read_role(wanted.role),
        actor=caller.identity,
        at=caller.now(),
    )
    return _model(given)


@router.post(
    "/v1/grants/{number}/revoke",
    dependencies=[body(ConfirmModel)],
    summary="Revoke a grant",
    tags=["grants"],
    responses=changes(404, 409),
)
def revoke_grant(number: int, caller: WithCaller) -> GrantModel:
    """Revoke a grant, effective with the next transaction. The last administrator cannot be revoked."""
    caller.require(Operation.GRANTS_CHANGE)
    return _model(revoke_role(caller.vault.store, number, actor=caller.identity, at=caller.now()))


@router.get("/v1/whoami", summary="Get your identity and roles", tags=["whoami"], responses=refusals(401, 500, 503))
def who_am_i(caller: WithCaller) -> WhoAmIModel:
    """Return the identity of the token or the certificate, and its roles. This requires no role."""
    with opened(caller.context.services.vault.store.reading()) as reader:
        grants = [_model(grant) for grant in reader.grants.held_by(caller.identity)]
    return WhoAmIModel(identity=identity_text(caller.identity), grants=grants)


def _model(grant: Grant) -> GrantModel:
    return GrantModel.model_validate(grant_members(grant))
