"""Encryption of a key to a workload's RSA key: RSA-OAEP of a fresh AES key, then AES-KWP of the material.

Spec: specs/azure-skr.md, section 9; RFC 5649; RFC 8017, section 7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, HashAlgorithm
from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

SHA1_WRAP: Final = "CKM_RSA_AES_KEY_WRAP"
"""The form of an answer to a client that names none."""
_HASHES: Final[dict[str, HashAlgorithm]] = {
    SHA1_WRAP: SHA1(),  # noqa: S303  the default of Azure's clients; an option refuses it
    "RSA_AES_KEY_WRAP_256": SHA256(),
    "RSA_AES_KEY_WRAP_384": SHA384(),
}
WRAPS: Final = tuple(_HASHES)
"""Every ``enc``."""
_AES_BYTES: Final = 32
RandomBytes = Callable[[int], bytes]


def encrypt(material: bytes | memoryview, *, kek: rsa.RSAPublicKey, enc: str, random: RandomBytes) -> bytes:
    """Return the ciphertext of a key's material, under a fresh AES key."""
    wrapping, digest = random(_AES_BYTES), _HASHES[enc]
    oaep = padding.OAEP(mgf=padding.MGF1(digest), algorithm=digest, label=None)
    return kek.encrypt(wrapping, oaep) + aes_key_wrap_with_padding(wrapping, bytes(material))
