"""Encryption of a resource to the guest's key: JWE (RFC 7516), flattened JSON, A256GCM.

Clients parse the protected header and serialise it again to get the additional data of the encryption. The header is
therefore compact, with the members in the one order that they write, and with no others.

Spec: specs/kbs-protocol.md, section 15; RFC 7518, sections 4.3 and 4.6.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_wrap

from attest.encoding import JsonValue, base64url_json, base64url_text
from attest.kbs import (
    CONTENT_ENCRYPTION,
    CONTENT_KEY_BYTES,
    EC_ALGORITHM,
    IV_BYTES,
    OAEP,
    RSA_ALGORITHM,
    TAG_BYTES,
    TeeKey,
    coordinate,
    key_encryption_key,
)

RandomBytes = Callable[[int], bytes]


def encrypt(plaintext: bytes | memoryview, *, key: TeeKey, random: RandomBytes) -> bytes:
    """Return the JWE as JSON; content key and IV are fresh."""
    content_key, iv = random(CONTENT_KEY_BYTES), random(IV_BYTES)
    header, encrypted_key = _wrapped(content_key, key)
    protected = base64url_json(header)
    sealed = AESGCM(content_key).encrypt(iv, plaintext, protected.encode())
    document = {
        "protected": protected,
        "encrypted_key": base64url_text(encrypted_key),
        "iv": base64url_text(iv),
        "ciphertext": base64url_text(sealed[:-TAG_BYTES]),
        "tag": base64url_text(sealed[-TAG_BYTES:]),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _wrapped(content_key: bytes, key: TeeKey) -> tuple[dict[str, JsonValue], bytes]:
    """Return the protected header and the content key, encrypted to the guest's key."""
    if isinstance(key.public, ec.EllipticCurvePublicKey):
        curve = key.public.curve
        ephemeral = ec.generate_private_key(curve)
        numbers = ephemeral.public_key().public_numbers()
        shared = ephemeral.exchange(ec.ECDH(), key.public)
        epk: dict[str, JsonValue] = {
            "crv": key.jwk["crv"],
            "kty": "EC",
            "x": coordinate(numbers.x, curve),
            "y": coordinate(numbers.y, curve),
        }
        header: dict[str, JsonValue] = {"alg": EC_ALGORITHM, "enc": CONTENT_ENCRYPTION, "epk": epk}
        return header, aes_key_wrap(key_encryption_key(shared), content_key)
    return {"alg": RSA_ALGORITHM, "enc": CONTENT_ENCRYPTION}, key.public.encrypt(content_key, OAEP)
