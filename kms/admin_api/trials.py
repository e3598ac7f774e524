"""``/v1/releases/try``: what a release on given evidence would come to, for those who see its keys."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request

from attest import parse_envelope
from attest.release import KeyReference
from kms.admin_api.bodies import read_body
from kms.admin_api.context import WithCaller
from kms.admin_api.models.controls import TrialModel, TrialRequestModel
from kms.api.schema import refusals, request_body
from kms.auth.authorisation import require
from kms.domain.actors import Actor
from kms.domain.permissions import Operation
from kms.release.service import ReleaseService
from kms.store import ReadTransaction

__all__ = ["router"]

router = APIRouter(prefix="/v1/releases", tags=["releases"])


@router.post(
    "/try",
    operation_id="tryRelease",
    summary="What a release would come to",
    openapi_extra=request_body(TrialRequestModel),
    responses=refusals(400, 401, 403, 413, 415, 422, 500, 503),
)
async def try_release(request: Request, caller: WithCaller) -> TrialModel:
    """Judge evidence as a release would, tell every reason and check, and change nothing.

    Whoever asks needs to see the tenant of each key. No lease can be named: what an id that somebody knows is good
    for is told to its holder alone.
    """
    asked = await read_body(request, TrialRequestModel)
    references = tuple(dict.fromkeys(map(KeyReference.parse, asked.keys)))
    tenants = frozenset(one.name.tenant for one in references)
    vault, at = caller.vault_for(partial(_require_sight, caller.identity, tenants)), caller.now()
    services = replace(caller.context.base.services, store=vault.store)

    def look() -> TrialModel:
        with vault.store.reading():  # whether they may is said first, and what is wrong with what they sent after that
            pass
        evidence = parse_envelope(json.dumps(asked.evidence).encode())
        trial = ReleaseService(services).try_release(evidence, tuple(map(str, references)), at=at)
        return TrialModel(trial=trial.members())

    return await caller.run(look)


def _require_sight(identity: Actor, tenants: frozenset[str], reader: ReadTransaction) -> None:
    for tenant in sorted(tenants):
        require(reader, identity, Operation.RELEASES_TRY, tenant=tenant)
