"""Digests to which a guest's evidence commits, over nonce, key and the evidence of devices.

Spec: specs/kbs-protocol.md, section 8.
"""

from __future__ import annotations

from hashlib import sha384

from attest import ExpectedRuntimeData
from attest.encoding import JsonValue
from kms.api.kbs.messages import Attestation
from kms.domain.canonical_json import canonical_json


def device_claims(attestation: Attestation, *, nonce: str) -> dict[str, JsonValue]:
    """Return the runtime data of devices; in version 0.2.0 also that of the CPU."""
    return {"nonce": nonce, "tee-pubkey": dict(attestation.key.jwk)}


def primary_claims(attestation: Attestation, *, nonce: str) -> dict[str, JsonValue]:
    """Return the runtime data of the CPU, which has the evidence of all devices, byte for byte."""
    return {"additional-evidence": attestation.additional, **device_claims(attestation, nonce=nonce)}


def expected_of(attestation: Attestation, *, nonce: str) -> ExpectedRuntimeData:
    """Return the digests that the evidence must carry: SHA-384 over canonical JSON."""
    device = sha384(canonical_json(device_claims(attestation, nonce=nonce))).digest()
    if attestation.nonce is None:
        return ExpectedRuntimeData(digest=device, device_digest=device)
    primary = sha384(canonical_json(primary_claims(attestation, nonce=nonce))).digest()
    return ExpectedRuntimeData(digest=primary, device_digest=device)
