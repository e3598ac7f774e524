"""``GET /v1/whoami``: whom the service takes the caller for."""

from __future__ import annotations

from fastapi import APIRouter

from kms.admin_api.context import WithCaller
from kms.admin_api.grants import grant_model
from kms.admin_api.models.access import WhoAmIModel
from kms.api.schema import refusals
from kms.auth.names import identity_text

__all__ = ["router"]

router = APIRouter(prefix="/v1/whoami", tags=["whoami"])


@router.get("", operation_id="whoAmI", summary="Who you are, and what you may", responses=refusals(401, 500, 503))
async def who_am_i(caller: WithCaller) -> WhoAmIModel:
    """Say whom the token or the certificate names, and which roles they have. Everybody who is known may ask."""

    def look() -> WhoAmIModel:
        with caller.context.base.services.store.reading() as reader:
            grants = [grant_model(grant) for grant in reader.grants.held_by(caller.identity)]
        return WhoAmIModel(identity=identity_text(caller.identity), grants=grants)

    return await caller.run(look)
