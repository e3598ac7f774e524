"""``GET /v1/identity``: the identity that the service states."""

from __future__ import annotations

from fastapi import APIRouter

from kms.api.context import WithContext
from kms.api.models import IdentityModel
from kms.api.schema import refusals

router = APIRouter(prefix="/v1/identity", tags=["identity"])
_SUITES = [
    "ML-KEM-768 + X25519 (0x647a), HKDF-SHA256, AES-256-GCM",
    "DHKEM(X25519) (0x0020), HKDF-SHA256, AES-256-GCM",
]


@router.get("", summary="Who the service is", responses=refusals())
async def read_identity(context: WithContext) -> IdentityModel:
    """Say who this is. A client compares it with the verifier key that it was configured with."""
    public = context.services.identity.public
    return IdentityModel(
        origin=public.name,
        verifier_key=public.text,
        protocol="kms-release/v1",
        suites=_SUITES,
        challenge_seconds=context.settings.challenge_seconds,
        simulated=context.settings.allow_simulated,
    )
