"""What is in force: the limits of a key, and the quorum. To change them is a change, ``/v1/changes``."""

from __future__ import annotations

from fastapi import APIRouter

from attest.release import KeyName
from kms.admin_api.context import WithCaller
from kms.admin_api.models.common import KeyId, Tenant
from kms.admin_api.models.controls import LimitsModel, QuorumModel
from kms.api.schema import refusals
from kms.controls.limit_rules import usage_of
from kms.domain.permissions import Operation
from kms.keys.admin import require_key

__all__ = ["router"]

router = APIRouter(tags=["changes"])


@router.get(
    "/v1/keys/{tenant}/{key_id}/limits",
    operation_id="readLimits",
    summary="The limits of a key",
    responses=refusals(401, 403, 404, 422, 500, 503),
)
async def read_limits(tenant: Tenant, key_id: KeyId, caller: WithCaller) -> LimitsModel:
    """Show the limits of a key, and what was used of them up to now."""
    name = KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_READ, key=name).store, caller.now()

    def look() -> LimitsModel:
        with store.reading() as reader:
            require_key(reader, name)
            found = reader.limits.in_force(name)
            used = usage_of(reader, name, found, holder=None, chip=None, at=at)
        releases = {str(budget): count for budget, count in used.releases.items()}
        return LimitsModel(limits=dict(found.members()), releases=releases, holders=used.other_holders)

    return await caller.run(look)


@router.get(
    "/v1/quorum",
    operation_id="readQuorum",
    summary="Who can sign, and what changes take",
    responses=refusals(401, 403, 500, 503),
)
async def read_quorum(caller: WithCaller) -> QuorumModel:
    """Show the registered people and the rules, as a change of them starts from."""
    found = await caller.read(Operation.PROPOSALS_READ, lambda reader: reader.quorum.current())
    return QuorumModel(quorum=dict(found.members()), sha256=found.digest)
