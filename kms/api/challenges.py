"""``POST /v1/challenges``: issue a challenge for fresh evidence."""

from __future__ import annotations

from fastapi import APIRouter, Request

from kms.api.body import read_json
from kms.api.context import WithContext
from kms.api.models import ChallengeModel, EmptyModel
from kms.api.schema import refusals, request_body

MAX_BODY_BYTES = 1024
router = APIRouter(prefix="/v1/challenges", tags=["challenges"])


@router.post(
    "", summary="Request a challenge", openapi_extra=request_body(EmptyModel), responses=refusals(400, 413, 415, 422)
)
async def create_challenge(request: Request, context: WithContext) -> ChallengeModel:
    """Issue a challenge, which can be used once before it expires. The service stores nothing for it."""
    await read_json(request, EmptyModel, limit=MAX_BODY_BYTES, seconds=context.settings.request_seconds)
    return ChallengeModel.model_validate(context.releases.challenge().to_json())
