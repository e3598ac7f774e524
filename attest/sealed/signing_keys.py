"""Keys for signatures over models: ECDSA with P-384 or P-256, each with one hash. The format has no Ed25519."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from attest.errors import ConfigurationError

_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {"secp256r1": hashes.SHA256(), "secp384r1": hashes.SHA384()}


def read_signing_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Parse a private key for signatures over models: P-384 or P-256, PEM, not encrypted.

    Raises:
        ConfigurationError: ``model-key-invalid``.
    """
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:  # TypeError: encrypted
        raise _bad_key("a private key in PEM, not encrypted") from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
        raise _bad_key("a P-384 or P-256 key")
    return key


def read_trusted_key(pem: bytes) -> ec.EllipticCurvePublicKey:
    """Parse a trusted public key: P-384 or P-256, PEM. Private keys are refused.

    Raises:
        ConfigurationError: ``model-key-invalid``.
    """
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _bad_key("a public key in PEM ('openssl pkey -pubout' prints that of a private one)") from exc
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _HASHES:
        raise _bad_key("a P-384 or P-256 key")
    return key


def key_hint(key: ec.EllipticCurvePublicKey) -> str:
    """Return the hint of a key in signatures: SHA-256 of the PEM text, lower-case hex."""
    return sha256(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def raw_signature(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Sign deterministically (RFC 6979); DER."""
    return key.sign(message, ec.ECDSA(_HASHES[key.curve.name], deterministic_signing=True))


def is_signed(key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes) -> bool:
    """Return whether a signature (DER) is valid."""
    try:
        key.verify(signature, message, ec.ECDSA(_HASHES[key.curve.name]))
    except InvalidSignature:
        return False
    return True


def _bad_key(expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"expected {expected}",
        code="model-key-invalid",
        expected=expected,
        hint="'attest sealed keygen' makes a key that signs models",
    )
