"""The keys of the software NVIDIA. Every private key here is public by design.

The keys are neither secret nor proof of anything: a scalar is an expansion of public labels by SHAKE256,
modulo the order of P-384. The verifier separates them by their two roots
(``TrustAnchors.simulation()``).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha1, shake_256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NUMBER_BYTES: Final = 48

_DOMAIN = "attest simulator v1, NVIDIA"
_ORDER_P384: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973
_SEED_BYTES = 72  # 192 bits more than the order has: without measurable bias.
_ECDSA = ec.ECDSA(hashes.SHA384(), deterministic_signing=True)
"""RFC 6979: the same message gives the same signature."""


def derived_bytes(size: int, *labels: str) -> bytes:
    """Return ``size`` bytes in place of random bytes of hardware, or of a measurement.

    Args:
        size: bytes.
        labels: public texts without NUL.
    """
    return shake_256("\0".join((_DOMAIN, *labels)).encode("utf-8")).digest(size)


@lru_cache(maxsize=512)
def p384_key(*labels: str) -> ec.EllipticCurvePrivateKey:
    """Return the P-384 key for these public texts."""
    scalar = 1 + int.from_bytes(derived_bytes(_SEED_BYTES, "P-384", *labels), "big") % (_ORDER_P384 - 1)
    return ec.derive_private_key(scalar, ec.SECP384R1())


def spki_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the DER SubjectPublicKeyInfo of the public half, point uncompressed."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def public_point(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the uncompressed point, 97 bytes, the BIT STRING of a SubjectPublicKeyInfo."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the SHA-1 of the point, NVIDIA's key identifier (RFC 5280, section 4.2.1.2, method 1)."""
    return sha1(public_point(key), usedforsecurity=False).digest()


def sign_der(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Sign with ECDSA and SHA-384 in the form of certificates and OCSP answers: DER SEQUENCE of r and s."""
    return key.sign(message, _ECDSA)


def sign_raw(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """Sign with ECDSA and SHA-384 in the form of reports and RIMs: r and s, 48 bytes each, big-endian."""
    numbers = decode_dss_signature(sign_der(key, message))
    return b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in numbers)
