"""COSE_Sign1 with one pinned key (RFC 9052, section 4.2): the signature, independent of the payload.

::

    Sig_structure = ["Signature1", protected, external_aad (empty), payload]

ES256 and ES384 carry r and s of fixed length one after the other; EdDSA is Ed25519. PS256, PS384 and PS512 are
RSASSA-PSS with a salt as long as the digest (RFC 8230).
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.encoding import cbor_bytes

CoseKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

_CURVES: dict[str, tuple[tuple[int, ...], int, type[hashes.HashAlgorithm]]] = {
    "secp256r1": ((-7, -9), 32, hashes.SHA256),
    "secp384r1": ((-35, -51), 48, hashes.SHA384),
}
"""Algorithm numbers (the second is RFC 9864's), bytes of r and of s, hash."""
_EDDSA = (-8, -19)
_PSS: dict[int, hashes.HashAlgorithm] = {-37: hashes.SHA256(), -38: hashes.SHA384(), -39: hashes.SHA512()}


def algorithm_numbers(key: CoseKey) -> tuple[int, ...]:
    """Return the algorithms of a key, the usual one first; none for an unsupported curve."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return _EDDSA
    if isinstance(key, rsa.RSAPublicKey):
        return tuple(_PSS)
    row = _CURVES.get(key.curve.name)
    return () if row is None else row[0]


def cose_signature_holds(key: CoseKey, *, algorithm: int, protected: bytes, payload: bytes, signature: bytes) -> bool:
    """Return True if the signature is valid; an algorithm that is not the key's is not."""
    if algorithm not in algorithm_numbers(key):
        return False
    message = cbor_bytes(("Signature1", protected, b"", payload))
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, message)
        elif isinstance(key, rsa.RSAPublicKey):
            digest = _PSS[algorithm]
            key.verify(signature, message, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
        else:
            _verify_ecdsa(key, signature, message)
    except InvalidSignature:
        return False
    return True


def _verify_ecdsa(key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes) -> None:
    _, size, digest = _CURVES[key.curve.name]
    if len(signature) != 2 * size:
        raise InvalidSignature
    r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
    key.verify(encode_dss_signature(r, s), message, ec.ECDSA(digest()))
