"""Signed tokens, and the documents in which readers find the key.

Spec: specs/azure-skr.md, sections 11 and 12; RFC 7515, 7517 and 7519.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding

from attest.encoding import JsonValue, base64url_json, base64url_text
from kms.config.maa import MaaSettings
from kms.domain.kek import RandomBytes

CERTIFICATES: Final = "/certs"
_JTI_BYTES: Final = 32


class TokenSigner:
    """The key of one file, and the names under which it signs."""

    def __init__(self, settings: MaaSettings, *, random: RandomBytes) -> None:
        self._settings = settings
        self._random = random
        self._public = settings.public_key.jwk
        self._kid = settings.public_key.kid
        self._jku = settings.issuer + CERTIFICATES
        text = base64url_text(settings.policy_text)
        self._policy_hash = base64url_text(sha256(text.encode()).digest())

    def sign(self, claims: Mapping[str, JsonValue], *, at: datetime) -> str:
        """Return a token with these claims, valid from this moment."""
        now = int(at.timestamp())
        header: dict[str, JsonValue] = {"alg": "RS256", "typ": "JWT", "kid": self._kid, "jku": self._jku}
        whole: dict[str, JsonValue] = {
            "iss": self._settings.issuer,
            "iat": now,
            "nbf": now,
            "exp": now + self._settings.token_seconds,
            "jti": self._random(_JTI_BYTES).hex(),
            "x-ms-ver": "1.0",
            "x-ms-policy-hash": self._policy_hash,
            **claims,
        }
        message = f"{base64url_json(header)}.{base64url_json(whole)}"
        signature = self._settings.key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{message}.{base64url_text(signature)}"

    def key_set(self) -> dict[str, JsonValue]:
        """Return the key set, with the chain of certificates."""
        chain: list[JsonValue] = [b64encode(one.public_bytes(Encoding.DER)).decode() for one in self._settings.chain]
        return {"keys": [{"kid": self._kid, "x5c": chain, "alg": "RS256", "use": "sig", **self._public}]}

    def configuration(self) -> dict[str, JsonValue]:
        """Return the description of the issuer (OpenID Connect Discovery)."""
        return {
            "issuer": self._settings.issuer,
            "jwks_uri": self._jku,
            "response_types_supported": ["token", "none"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
