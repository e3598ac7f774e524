"""Runtime data: the documents over which evidence commits to nonce, key and the evidence of devices.

Spec: specs/kbs-protocol.md, section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha384

from attest.encoding import JsonValue, canonical_json


def runtime_document(jwk: Mapping[str, str], *, nonce: str, additional: str | None = None) -> dict[str, JsonValue]:
    """Return the runtime data of the CPU, or of devices.

    Args:
        jwk: the guest's key; the known members alone.
        nonce: text of the challenge, as received.
        additional: the CPU commits to the evidence of devices, byte for byte as it is sent, empty without devices;
            None returns the document of devices.
    """
    devices: dict[str, JsonValue] = {"nonce": nonce, "tee-pubkey": dict(jwk)}
    return devices if additional is None else {"additional-evidence": additional, **devices}


def runtime_digest(document: Mapping[str, JsonValue]) -> bytes:
    """Return SHA-384 of the canonical JSON, the digest in the evidence."""
    return sha384(canonical_json(document)).digest()
