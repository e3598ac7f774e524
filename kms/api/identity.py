"""``GET /v1/identity`` and ``/v1/attestation``: identity of the service and its attestation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from attest.encoding import base64url_bytes
from attest.errors import EvidenceError
from attest.evidence import MAX_TEXT_CHARACTERS, NONCE_BYTES
from attest.release import ANYBODY
from kms.api.context import WithContext
from kms.api.models import AttestationModel, IdentityModel
from kms.api.schema import refusals
from kms.domain.errors import SchemaError

router = APIRouter(prefix="/v1", tags=["identity"])
_SUITES = [
    "ML-KEM-768 + X25519 (0x647a), HKDF-SHA256, AES-256-GCM",
    "DHKEM(X25519) (0x0020), HKDF-SHA256, AES-256-GCM",
]
Nonce = Annotated[
    str, Query(pattern=r"^[A-Za-z0-9_-]{43}$", description="32 random bytes of the client, base64url without padding.")
]
Audience = Annotated[
    str,
    Query(min_length=1, max_length=MAX_TEXT_CHARACTERS, description="Audience of the evidence, chosen by the client."),
]


@router.get("/identity", summary="Get the service's identity", responses=refusals())
async def read_identity(context: WithContext) -> IdentityModel:
    """Return the identity of the service. A client compares it with the verifier key in its own configuration."""
    public = context.services.identity.public
    return IdentityModel(
        origin=public.name,
        verifier_key=public.text,
        protocol="kms-release/v1",
        suites=_SUITES,
        challenge_seconds=context.settings.challenge_seconds,
        simulated=context.settings.allow_simulated,
    )


@router.get("/attestation", summary="Get evidence of the service's machine", responses=refusals(404, 422, 500, 503))
async def read_attestation(context: WithContext, nonce: Nonce, audience: Audience = ANYBODY) -> AttestationModel:
    """Return evidence that commits to the identity, the TLS key and the configuration of the service."""
    try:
        raw = base64url_bytes(nonce, what="nonce")
    except EvidenceError as exc:
        raise SchemaError(f"nonce: {exc.message}", code="request-schema", field="nonce") from exc
    if len(raw) != NONCE_BYTES or not audience.isprintable():
        raise SchemaError("expected a nonce of 32 bytes, and printable text", code="request-schema", field="audience")
    made = await context.run(lambda: context.attestation.answer(nonce=raw, audience=audience))
    return AttestationModel.model_validate(made.to_json())
