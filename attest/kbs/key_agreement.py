"""Encryption of a content key to the guest's key, for both sides: key agreement and RSA.

Spec: RFC 7518, sections 4.3 and 4.6; specs/kbs-protocol.md, section 15.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.concatkdf import ConcatKDFHash

from attest.kbs.tee_key import EC_ALGORITHM

CONTENT_KEY_BYTES: Final = 32
IV_BYTES: Final = 12
TAG_BYTES: Final = 16
CONTENT_ENCRYPTION: Final = "A256GCM"
OAEP: Final = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)
"""Encryption of the content key to an RSA key."""


def key_encryption_key(shared: bytes) -> bytes:
    """Derive the key that wraps the content key: one round of Concat KDF (RFC 7518, section 4.6.2)."""
    algorithm = EC_ALGORITHM.encode()
    none = bytes(4)  # neither party's information
    info = len(algorithm).to_bytes(4, "big") + algorithm + none + none + (CONTENT_KEY_BYTES * 8).to_bytes(4, "big")
    return ConcatKDFHash(algorithm=SHA256(), length=CONTENT_KEY_BYTES, otherinfo=info).derive(shared)
