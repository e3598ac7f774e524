"""Keys that sign policies: Ed25519, and ECDSA with P-256 or P-384, each with its one algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from attest.errors import ConfigurationError

PolicyPrivateKey = Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PolicyPublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey

_CURVES: Mapping[str, tuple[str, hashes.HashAlgorithm]] = {
    "secp256r1": ("ES256", hashes.SHA256()),
    "secp384r1": ("ES384", hashes.SHA384()),
}
ALGORITHMS: Final = ("Ed25519", "ES256", "ES384")
"""Ed25519; ECDSA with P-256 and SHA-256; ECDSA with P-384 and SHA-384. Signatures of ECDSA are DER, as OpenSSL's."""
KINDS: Final = "an Ed25519, P-256 or P-384 key"


def key_id(key: PolicyPublicKey) -> bytes:
    """Return SHA-256 of the SubjectPublicKeyInfo (DER), 32 bytes."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def read_private_key(pem: bytes) -> PolicyPrivateKey:
    """Read a key to sign with: PEM, PKCS #8 or SEC 1, not encrypted.

    Raises:
        ConfigurationError: ``policy-key-invalid``.
    """
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:  # TypeError: it is encrypted
        raise _bad_key("a private key in PEM, not encrypted", str(exc)) from exc
    if isinstance(key, PolicyPrivateKey) and algorithm_of(key.public_key()) is not None:
        return key
    raise _bad_key(KINDS, "another kind of key")


def read_public_key(pem: bytes) -> PolicyPublicKey:
    """Read a key to verify with: PEM, SubjectPublicKeyInfo. A private key is refused.

    Raises:
        ConfigurationError: ``policy-key-invalid``.
    """
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _bad_key("a public key in PEM ('openssl pkey -pubout' prints that of a private one)", str(exc)) from exc
    if isinstance(key, PolicyPublicKey) and algorithm_of(key) is not None:
        return key
    raise _bad_key(KINDS, "another kind of key")


def algorithm_of(key: PolicyPublicKey) -> str | None:
    """Return the one algorithm of a key; None for a curve that is not used here."""
    if isinstance(key, Ed25519PublicKey):
        return "Ed25519"
    return _CURVES.get(key.curve.name, (None, None))[0]


def _bad_key(expected: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"expected {expected}: {' '.join(problem.split())[:120]}",
        code="policy-key-invalid",
        expected=expected,
        hint="'openssl genpkey -algorithm ed25519' makes a key",
    )


# -- raw signatures


def raw_signature(key: PolicyPrivateKey, message: bytes) -> bytes:
    """Sign; ECDSA is deterministic (RFC 6979)."""
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(message)
    return key.sign(message, ec.ECDSA(_CURVES[key.curve.name][1], deterministic_signing=True))


def is_signed(key: PolicyPublicKey, signature: bytes, message: bytes) -> bool:
    """Return True if a signature verifies; any valid ECDSA signature does."""
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, message)
        else:
            key.verify(signature, message, ec.ECDSA(_CURVES[key.curve.name][1]))
    except InvalidSignature:
        return False
    return True
