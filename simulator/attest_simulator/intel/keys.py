"""The keys of the software Intel. Every private key here is public by design.

The keys are neither secret nor proof of anything: a scalar is an expansion of public labels by SHAKE256,
modulo the order of P-256. The verifier separates them by their root
(``TrustAnchors.simulation()``).
"""

from __future__ import annotations

import enum
from functools import lru_cache
from hashlib import shake_256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

COORDINATE_BYTES: Final = 32

_DOMAIN = "attest simulator v1, Intel"
_ORDER_P256: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SEED_BYTES = 48  # 128 bits more than the order has: without measurable bias.
_ECDSA = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
"""RFC 6979: the same message gives the same signature."""


class IntelAuthority(enum.StrEnum):
    """Simulated authorities of Intel; the value is the subject's CN, equal to the real one's."""

    ROOT = "Intel SGX Root CA"
    PLATFORM = "Intel SGX PCK Platform CA"
    PROCESSOR = "Intel SGX PCK Processor CA"
    TCB_SIGNING = "Intel SGX TCB Signing"


def derived_bytes(size: int, *labels: str) -> bytes:
    """Return ``size`` bytes in place of random bytes of hardware.

    Args:
        size: bytes.
        labels: public texts without NUL.
    """
    return shake_256("\0".join((_DOMAIN, *labels)).encode("utf-8")).digest(size)


@lru_cache(maxsize=512)
def p256_key(*labels: str) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key for these public texts."""
    scalar = 1 + int.from_bytes(derived_bytes(_SEED_BYTES, "P-256", *labels), "big") % (_ORDER_P256 - 1)
    return ec.derive_private_key(scalar, ec.SECP256R1())


def authority_key(authority: IntelAuthority) -> ec.EllipticCurvePrivateKey:
    """Return the key of a simulated authority; not secret."""
    return p256_key("authority", authority.value)


def spki_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the DER SubjectPublicKeyInfo of the public half, point uncompressed."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def raw_public_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return x and y, 32 bytes each, big-endian, the form in quotes (specs/intel-tdx-sgx.md, introduction)."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]


def sign_der(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Sign with ECDSA and SHA-256 in the form of certificates: DER SEQUENCE of r and s."""
    return key.sign(message, _ECDSA)


def sign_raw(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Sign with ECDSA and SHA-256 in the form of quotes and collateral: r and s, 32 bytes each, big-endian."""
    numbers = decode_dss_signature(sign_der(key, message))
    return b"".join(number.to_bytes(COORDINATE_BYTES, "big") for number in numbers)
