"""Tokens in the shape of NRAS, signed with keys that these tests make."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey

from attest.results.jose import TokenKey, read_jwks

ISSUER = "https://nras.attestation.nvidia.com"
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NONCE = bytes(range(32))
NOT_BEFORE = int(AT.timestamp()) - 60
EXPIRES = NOT_BEFORE + 3600


@dataclass
class Signer:
    """An issuer's key."""

    kid: str = "kid-1"
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-384"))

    def sign(self, claims: dict[str, Any], *, alg: str = "ES384", **header: object) -> str:
        head = {"alg": alg, "kid": self.kid, **header}
        return jws.serialize_compact(head, json.dumps(claims), self.key, algorithms=[alg])

    def jwks(self, **members: object) -> bytes:
        return json.dumps({"keys": [{**self.key.as_dict(private=False), "kid": self.kid, **members}]}).encode()

    def keys(self) -> tuple[TokenKey, ...]:
        return read_jwks(self.jwks())


def times() -> dict[str, Any]:
    return {"iss": ISSUER, "nbf": NOT_BEFORE, "exp": EXPIRES, "iat": NOT_BEFORE, "jti": "b872dc4f"}


def device_claims(**more: object) -> dict[str, Any]:
    return {**times(), "eat_nonce": NONCE.hex(), "measres": "success", "hwmodel": "GH100 A01 GSP BROM", **more}


def overall_claims(devices: dict[str, str], **more: object) -> dict[str, Any]:
    digests = {name: ["DIGEST", ["SHA-256", sha256(text.encode()).hexdigest()]] for name, text in devices.items()}
    return {
        **times(),
        "sub": "NVIDIA-PLATFORM-ATTESTATION",
        "x-nvidia-ver": "3.0",
        "x-nvidia-overall-att-result": True,
        "eat_nonce": NONCE.hex(),
        "submods": digests,
        **more,
    }


def detached(overall: str, devices: dict[str, str]) -> bytes:
    return json.dumps([["JWT", overall], devices]).encode()


def token(signer: Signer, *, devices: int = 1, device: dict[str, Any] | None = None, **overall: object) -> bytes:
    texts = {f"GPU-{index}": signer.sign(device_claims(**(device or {}))) for index in range(devices)}
    return detached(signer.sign(overall_claims(texts, **overall)), texts)
