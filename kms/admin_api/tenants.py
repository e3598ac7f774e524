"""``/v1/tenants``: which there are."""

from __future__ import annotations

from fastapi import APIRouter, Request

from attest.encoding import rfc3339_text
from kms.admin_api.bodies import read_body
from kms.admin_api.context import WithCaller
from kms.admin_api.models.keys import TenantListModel, TenantRequestModel
from kms.api.schema import refusals, request_body
from kms.domain.permissions import Operation
from kms.keys.tenants import create_tenant

__all__ = ["router"]

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])


@router.get("", operation_id="listTenants", summary="Every tenant", responses=refusals(401, 403, 500, 503))
async def list_tenants(caller: WithCaller) -> TenantListModel:
    """List every tenant, and since when there is it."""
    found = await caller.read(Operation.TENANTS_READ, lambda reader: dict(reader.tenants.all()))
    return TenantListModel(tenants={name: rfc3339_text(at) for name, at in found.items()})


@router.post(
    "",
    operation_id="createTenant",
    summary="Make a tenant",
    openapi_extra=request_body(TenantRequestModel),
    responses=refusals(400, 401, 403, 409, 413, 415, 422, 500, 503),
)
async def make_tenant(request: Request, caller: WithCaller) -> TenantListModel:
    """Make a tenant; nobody has a role in it yet. One that was made stays."""
    wanted = await read_body(request, TenantRequestModel)
    store, at = caller.vault(Operation.TENANTS_CREATE).store, caller.now()

    def make() -> TenantListModel:
        create_tenant(store, wanted.tenant, actor=caller.identity, at=at)
        return TenantListModel(tenants={wanted.tenant: rfc3339_text(at)})

    return await caller.run(make)
