"""``/v1/tenants``: tenants of the service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from attest.encoding import rfc3339_text
from kms.admin_api.context import WithCaller
from kms.admin_api.models.keys import TenantListModel, TenantRequestModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.domain.permissions import Operation
from kms.keys.tenants import create_tenant

router = APIRouter(route_class=AdminRoute, prefix="/v1/tenants", tags=["tenants"])


@router.get("", summary="List tenants", responses=reads())
def list_tenants(caller: WithCaller) -> TenantListModel:
    """List all tenants with their creation times."""
    caller.require(Operation.TENANTS_READ)
    with caller.vault.store.reading() as reader:
        found = reader.tenants.all()
    return TenantListModel(tenants={name: rfc3339_text(at) for name, at in found.items()})


@router.post("", operation_id="createTenant", summary="Create a tenant", responses=changes(409))
def make_tenant(caller: WithCaller, wanted: Annotated[TenantRequestModel, body(TenantRequestModel)]) -> TenantListModel:
    """Create a tenant, without any roles in it. A tenant cannot be removed."""
    caller.require(Operation.TENANTS_CREATE)
    at = caller.now()
    create_tenant(caller.vault.store, wanted.tenant, actor=caller.identity, at=at)
    return TenantListModel(tenants={wanted.tenant: rfc3339_text(at)})
