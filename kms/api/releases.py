"""``POST /v1/releases``: release keys to an attested workload."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from attest.encoding import JsonValue
from attest.release import MAX_SIZE, PassportRequest, ReleaseRequest
from kms.api.body import read_json
from kms.api.context import WithContext
from kms.api.models import ReleaseModel, ReleaseRequestModel
from kms.api.schema import refusals, request_body
from kms.telemetry import counted

router = APIRouter(prefix="/v1/releases", tags=["releases"])
LogSize = Annotated[
    int | None,
    Query(
        ge=1,
        le=MAX_SIZE,
        description="Last log size known to the workload; the response then has a consistency proof from it.",
    ),
]


@router.post(
    "",
    summary="Release keys to a workload",
    openapi_extra=request_body(ReleaseRequestModel),
    response_model_exclude_unset=True,
    responses=refusals(400, 401, 403, 404, 409, 410, 413, 415, 422, 500, 503),
)
async def create_release(request: Request, context: WithContext, log_size: LogSize = None) -> ReleaseModel:
    """Decide on the requested keys, log the decision, and seal the keys to the workload's public key."""
    settings = context.settings
    caller = await context.caller(request)
    _, document = await read_json(
        request, ReleaseRequestModel, limit=settings.max_body_bytes, seconds=settings.request_seconds
    )
    release = await context.run(
        lambda: counted(lambda: context.releases.release(_request(document), caller=caller, log_size=log_size))
    )
    return ReleaseModel.model_validate(release.to_json())


def _request(document: JsonValue) -> ReleaseRequest | PassportRequest:
    """Read either evidence or a passport."""
    if isinstance(document, dict) and "passport" in document:
        return PassportRequest.from_json(document)
    return ReleaseRequest.from_json(document)
