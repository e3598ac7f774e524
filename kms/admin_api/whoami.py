"""``GET /v1/whoami``: the caller's own identity and roles."""

from __future__ import annotations

from fastapi import APIRouter

from kms.admin_api.context import WithCaller, in_thread
from kms.admin_api.grants import grant_model
from kms.admin_api.models.access import WhoAmIModel
from kms.api.schema import refusals
from kms.auth.names import identity_text

router = APIRouter(prefix="/v1/whoami", tags=["whoami"])


@router.get("", operation_id="whoAmI", summary="Who you are, and what you may", responses=refusals(401, 500, 503))
@in_thread
def who_am_i(caller: WithCaller) -> WhoAmIModel:
    """Return the identity of the token or the certificate, and its roles. It takes none of them."""
    with caller.context.services.vault.store.reading() as reader:
        grants = [grant_model(grant) for grant in reader.grants.held_by(caller.identity)]
    return WhoAmIModel(identity=identity_text(caller.identity), grants=grants)
