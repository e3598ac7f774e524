"""Rules in force: limits of a key, floors, quorum, trust anchors. To change them, see ``/v1/changes``."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from attest.release import KeyName
from kms.admin_api.context import WithCaller, WithKey
from kms.admin_api.models.common import KEY_PATH, Tenant
from kms.admin_api.models.controls import AnchorsModel, FloorListModel, LimitsModel, QuorumModel
from kms.admin_api.routes import AdminRoute, reads
from kms.config.configuration import trust_lines
from kms.config.external_files import read_anchors
from kms.controls.floors import floors_of
from kms.controls.limit_rules import usage_of
from kms.domain.errors import KeyConflictError
from kms.domain.limits import KeyLimits
from kms.domain.people import ChangeKind
from kms.domain.permissions import Operation
from kms.keys.admin import require_key
from kms.quorum.anchors import APPROVED_ANCHORS, AnchorsApprove
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, tags=["changes"])


@router.get(f"{KEY_PATH}/limits", summary="Get the limits of a key", responses=reads(404, 422))
def read_limits(caller: WithCaller, name: WithKey) -> LimitsModel:
    """Return the limits of a key and their use so far."""
    caller.require(Operation.KEYS_READ, key=name)
    with caller.vault.store.reading() as reader:
        require_key(reader, name)
        found = reader.limits.in_force(name)
        return limits_model(reader, name, found, at=caller.now())


@router.get("/v1/floors", summary="List floors", responses=reads(409, 422))
def list_floors(caller: WithCaller, tenant: Tenant | None = None) -> FloorListModel:
    """List the floors of the service and of one tenant, or of all tenants. Version 0 means that there is no floor."""
    caller.require(Operation.FLOORS_READ, tenant=tenant)
    with caller.vault.store.reading() as reader:
        tenants = reader.tenants.all()
        if tenant is not None and tenant not in tenants:
            raise KeyConflictError(f"there is no tenant {tenant!r}", code="tenant-unknown", field="tenant")
        found = floors_of(reader, tenants if tenant is None else (tenant,))
    return FloorListModel(floors=[{**one.members(), "sha256": one.digest} for one in found])


@router.get("/v1/quorum", summary="Get the quorum rules", responses=reads())
def read_quorum(caller: WithCaller) -> QuorumModel:
    """Return the registered people and the rules, as the base of a change."""
    caller.require(Operation.PROPOSALS_READ)
    with caller.vault.store.reading() as reader:
        found = reader.quorum.current()
    return QuorumModel(quorum=dict(found.members()), sha256=found.digest)


@router.get("/v1/anchors", operation_id="readAnchors", summary="Get the configured trust anchors", responses=reads(422))
def read_trust_anchors(caller: WithCaller) -> AnchorsModel:
    """Return the roots that the settings accept, in the form of a change that approves them."""
    caller.require(Operation.ANCHORS_READ)
    change = AnchorsApprove(lines=trust_lines(caller.settings, read_anchors(caller.settings)))
    with caller.vault.store.reading() as reader:
        approved, rule = reader.facts.find(APPROVED_ANCHORS), reader.quorum.current().rule(ChangeKind.ANCHORS)
    return AnchorsModel(
        anchors=list(change.lines),
        sha256=change.digest.hex(),
        approved=approved == change.digest,
        rule=rule is not None,
    )


def limits_model(reader: ReadTransaction, name: KeyName, limits: KeyLimits, *, at: datetime) -> LimitsModel:
    """Return limits of a key and their use up to a moment."""
    used = usage_of(reader, name, limits, holder=None, chip=None, at=at)
    releases = {str(budget): count for budget, count in used.releases.items()}
    return LimitsModel(limits=dict(limits.members()), releases=releases, holders=used.other_holders)
