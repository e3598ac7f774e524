"""``/v1/break-glass``: list and close relaxations. Opening one is a change, see ``/v1/changes``."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path

from kms.admin_api.context import WithCaller
from kms.admin_api.models.controls import BreakGlassListModel, ReasonModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.auth.authorisation import require
from kms.controls.break_glass import BreakGlassService
from kms.domain.actors import Actor
from kms.domain.break_glass import BreakGlass, glass_state
from kms.domain.permissions import Operation, may
from kms.quorum.break_glass import close_glass
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, prefix="/v1/break-glass", tags=["break-glass"])
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("", summary="List relaxations", responses=reads())
def list_break_glass(caller: WithCaller) -> BreakGlassListModel:
    """List every relaxation, past and present, and its state; one without a seal of the service is void."""
    caller.require(Operation.GLASS_READ)
    service, at = BreakGlassService(caller.vault.kek), caller.now()
    with caller.vault.store.reading() as reader:
        found = reader.break_glass.all()
    rows = [_row(one, str(glass_state(one, closed, sealed=service.is_sealed(one), at=at))) for one, closed in found]
    return BreakGlassListModel(break_glass=rows)


@router.post("/{number}/close", summary="Close a relaxation", responses=changes(409))
def close_break_glass(
    number: Number, caller: WithCaller, given: Annotated[ReasonModel, body(ReasonModel)]
) -> BreakGlassListModel:
    """End a relaxation immediately. One person suffices, because this makes the service stricter."""
    caller.demand(partial(_require_close, identity=caller.identity, number=number))
    close_glass(caller.vault.store, number, reason=given.reason, actor=caller.identity, at=caller.now())
    with caller.vault.store.reading() as reader:
        ended = [one for one, _ in reader.break_glass.all() if one.number == number]
    return BreakGlassListModel(break_glass=[_row(one, "closed") for one in ended])


def _row(one: BreakGlass, state: str) -> dict[str, object]:
    return {"number": one.number, "state": state, **one.members()}


def _require_close(reader: ReadTransaction, *, identity: Actor, number: int) -> None:
    """Require the permission in the key's tenant; for other callers the relaxation does not exist."""
    tenants = {one.key.tenant for one, _ in reader.break_glass.all() if one.number == number}
    grants = reader.grants.held_by(identity)
    if any(may(identity, grants=grants, operation=Operation.GLASS_CLOSE, tenant=one) is not None for one in tenants):
        return
    require(reader, identity, Operation.GLASS_CLOSE, tenant=None)
