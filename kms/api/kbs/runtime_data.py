"""Digests to which a guest's evidence commits, over nonce, key and the evidence of devices."""

from __future__ import annotations

from attest import ExpectedRuntimeData
from attest.encoding import JsonValue
from attest.kbs import runtime_digest, runtime_document
from kms.api.kbs.messages import Attestation


def device_claims(attestation: Attestation, *, nonce: str) -> dict[str, JsonValue]:
    """Return the runtime data of devices; in version 0.2.0 also that of the CPU."""
    return runtime_document(attestation.key.jwk, nonce=nonce)


def primary_claims(attestation: Attestation, *, nonce: str) -> dict[str, JsonValue]:
    """Return the runtime data of the CPU, which has the evidence of all devices, byte for byte."""
    return runtime_document(attestation.key.jwk, nonce=nonce, additional=attestation.additional)


def expected_of(attestation: Attestation, *, nonce: str) -> ExpectedRuntimeData:
    """Return the digests that the evidence must carry."""
    device = runtime_digest(device_claims(attestation, nonce=nonce))
    if attestation.nonce is None:
        return ExpectedRuntimeData(digest=device, device_digest=device)
    return ExpectedRuntimeData(digest=runtime_digest(primary_claims(attestation, nonce=nonce)), device_digest=device)
