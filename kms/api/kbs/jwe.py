"""Encryption of a resource to the guest's key: JWE (RFC 7516), flattened JSON, A256GCM.

Clients parse the protected header and serialise it again to get the additional data of the encryption. The header is
therefore compact, with the members in the one order that they write, and with no others.

Spec: specs/kbs-protocol.md, section 15; RFC 7518, sections 4.3 and 4.6.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash
from cryptography.hazmat.primitives.keywrap import aes_key_wrap

from attest.encoding import base64url_text
from kms.api.kbs.tee_key import EC_ALGORITHM, RSA_ALGORITHM, TeeKey, coordinate

_KEY_BYTES: Final = 32
_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
_OAEP: Final = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)
RandomBytes = Callable[[int], bytes]


def encrypt(plaintext: bytes | memoryview, *, key: TeeKey, random: RandomBytes) -> bytes:
    """Return the JWE as JSON; content key and IV are fresh."""
    content_key, iv = random(_KEY_BYTES), random(_IV_BYTES)
    header, encrypted_key = _wrapped(content_key, key)
    protected = base64url_text(json.dumps(header, separators=(",", ":")).encode())
    sealed = AESGCM(content_key).encrypt(iv, plaintext, protected.encode())
    document = {
        "protected": protected,
        "encrypted_key": base64url_text(encrypted_key),
        "iv": base64url_text(iv),
        "ciphertext": base64url_text(sealed[:-_TAG_BYTES]),
        "tag": base64url_text(sealed[-_TAG_BYTES:]),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _wrapped(content_key: bytes, key: TeeKey) -> tuple[dict[str, object], bytes]:
    """Return the protected header and the content key, encrypted to the guest's key."""
    if isinstance(key.public, ec.EllipticCurvePublicKey):
        curve = key.public.curve
        ephemeral = ec.generate_private_key(curve)
        numbers = ephemeral.public_key().public_numbers()
        shared = ephemeral.exchange(ec.ECDH(), key.public)
        epk = {
            "crv": key.jwk["crv"],
            "kty": "EC",
            "x": coordinate(numbers.x, curve),
            "y": coordinate(numbers.y, curve),
        }
        header: dict[str, object] = {"alg": EC_ALGORITHM, "enc": "A256GCM", "epk": epk}
        return header, aes_key_wrap(key_encryption_key(shared), content_key)
    return {"alg": RSA_ALGORITHM, "enc": "A256GCM"}, key.public.encrypt(content_key, _OAEP)


def key_encryption_key(shared: bytes) -> bytes:
    """Derive the key that wraps the content key: one round of Concat KDF (RFC 7518, section 4.6.2)."""
    algorithm = EC_ALGORITHM.encode()
    none = bytes(4)  # neither party's information
    info = len(algorithm).to_bytes(4, "big") + algorithm + none + none + (_KEY_BYTES * 8).to_bytes(4, "big")
    return ConcatKDFHash(algorithm=SHA256(), length=_KEY_BYTES, otherinfo=info).derive(shared)
