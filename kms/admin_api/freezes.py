"""``/v1/freezes``: stop releases immediately. Lifting a freeze is a change, see ``/v1/changes``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from attest.release import KeyName
from kms.admin_api.context import WithCaller
from kms.admin_api.models.controls import FreezeListModel, FreezeRequestModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.controls.admin import freeze, require_freezable
from kms.domain.freezes import Scope, Target, target
from kms.domain.permissions import Operation
from kms.quorum.admin import thaw_mode

router = APIRouter(route_class=AdminRoute, prefix="/v1/freezes", tags=["freezes"])


def tenant_of(what: Target) -> str | None:
    """Return the tenant whose releases a freeze affects; None for every tenant."""
    if what.scope is Scope.KEY:
        return KeyName.parse(what.name).tenant
    return what.name if what.scope is Scope.TENANT else None


@router.get("", summary="List freezes", responses=reads())
def list_freezes(caller: WithCaller) -> FreezeListModel:
    """List all freezes with time, person and reason, and who can lift them."""
    caller.require(Operation.FREEZES_READ)
    with caller.vault.store.reading() as reader:
        found, mode = reader.freezes.all(), thaw_mode(reader, alone=caller.settings.allow_thaw_by_one)
    return FreezeListModel(freezes=[dict(one.members()) for one in found], thaw=mode)


@router.post("", summary="Stop releases immediately", responses=changes(404, 409))
def create_freeze(
    caller: WithCaller, wanted: Annotated[FreezeRequestModel, body(FreezeRequestModel)]
) -> FreezeListModel:
    """Stop the release of a key, of a tenant's keys, to a product, or of everything. One person suffices.

    Lifting a freeze requires more. The response states who can lift it; use ``dry_run`` to check this first.
    """
    what = target(wanted.scope, wanted.name)
    key = KeyName.parse(what.name) if what.scope is Scope.KEY else None
    caller.require(Operation.FREEZE, tenant=tenant_of(what), key=key)
    with caller.vault.store.reading() as reader:
        mode = thaw_mode(reader, alone=caller.settings.allow_thaw_by_one)
        if wanted.dry_run:
            require_freezable(reader, what)
            return FreezeListModel(freezes=[], thaw=mode)
    made = freeze(caller.vault.store, what, reason=wanted.reason, actor=caller.identity, at=caller.now())
    return FreezeListModel(freezes=[dict(made.members())], thaw=mode)
