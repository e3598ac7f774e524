"""The connection to a service, compared with the keys that its machine's evidence is bound to.

Spec: specs/providers.md, section 5.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Literal, TypeAlias

from attest.encoding import JsonValue

Connection: TypeAlias = Literal["bound", "not bound to this connection"]
_RECIPIENTS = ("public_key", "kem_public_key", "hpke_public_key")


def connection_of(
    claims: Mapping[str, JsonValue], *, peer_spki_sha256: bytes | None = None, recipient_key: bytes | None = None
) -> Connection:
    """Say whether a connection ends in a verified machine, or its requests are encrypted to it.

    Args:
        claims: of the machine's CPU in a verified document.
        peer_spki_sha256: SHA-256 of the SubjectPublicKeyInfo of the TLS peer's certificate.
        recipient_key: the public key that requests are encrypted to, as the claim ``binding`` has it.
    """
    binding = claims.get("binding")
    bound = binding if isinstance(binding, Mapping) else {}
    held = [(bound.get("tls_spki_sha256"), peer_spki_sha256), *((bound.get(n), recipient_key) for n in _RECIPIENTS)]
    return "bound" if any(_same(stated, key) for stated, key in held) else "not bound to this connection"


def _same(stated: JsonValue, key: bytes | None) -> bool:
    return isinstance(stated, str) and key is not None and hmac.compare_digest(stated, key.hex())
