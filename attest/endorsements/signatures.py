"""Signatures of vendor certificates: a closed table of algorithms, and one pure function of bytes.

Outcomes are cached in bounded tables, so that a known chain costs no public-key operation. The cache contains
no dates, names or anchors: those are checked on every call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from attest.endorsements.asn1 import tlv
from attest.errors import ChainError

_REMEMBERED = 1024
_REMEMBERED_LARGE = 32
_LARGE_BYTES = 16 * 1024
"""Certificates are smaller; revocation lists may have a mebibyte, too large for a cache of a thousand."""
_RSA_BITS = range(2048, 8193)
_CURVES = frozenset({"secp256r1", "secp384r1"})


def _pss_sha384_identifiers() -> Iterator[bytes]:
    """Return all DER forms of RSASSA-PSS with SHA-384, MGF1-SHA-384 and a salt of 48 bytes.

    Hash parameters are NULL or absent, trailerField 1 is explicit or the default: AMD issues both
    (specs/sev-snp.md, section 8). No other parameter may differ.
    """
    null = tlv(0x05)
    sha384 = bytes.fromhex("0609608648016503040202")
    mgf1 = bytes.fromhex("06092a864886f70d010108")
    pss = bytes.fromhex("06092a864886f70d01010a")
    salt = tlv(0xA2, tlv(0x02, bytes([48])))
    trailers = (b"", tlv(0xA3, tlv(0x02, b"\x01")))
    for hash_null, mgf_null, trailer in product((null, b""), (null, b""), trailers):
        digest = tlv(0xA0, tlv(0x30, sha384, hash_null))
        mask = tlv(0xA1, tlv(0x30, mgf1, tlv(0x30, sha384, mgf_null)))
        yield tlv(0x30, pss, tlv(0x30, digest, mask, salt, trailer))


class SignatureAlgorithm(enum.Enum):
    """The signature algorithms that vendor certificates use; anything else is refused."""

    RSA_PSS_SHA384 = "RSASSA-PSS with SHA-384, MGF1-SHA-384, salt 48"
    RSA_SHA256 = "RSASSA-PKCS1-v1_5 with SHA-256"
    RSA_SHA384 = "RSASSA-PKCS1-v1_5 with SHA-384"
    RSA_SHA512 = "RSASSA-PKCS1-v1_5 with SHA-512"
    ECDSA_SHA256 = "ECDSA with SHA-256"
    ECDSA_SHA384 = "ECDSA with SHA-384"


_ALGORITHMS: dict[bytes, SignatureAlgorithm] = {
    **dict.fromkeys(_pss_sha384_identifiers(), SignatureAlgorithm.RSA_PSS_SHA384),
    bytes.fromhex("300d06092a864886f70d01010b0500"): SignatureAlgorithm.RSA_SHA256,
    bytes.fromhex("300d06092a864886f70d01010c0500"): SignatureAlgorithm.RSA_SHA384,
    bytes.fromhex("300d06092a864886f70d01010d0500"): SignatureAlgorithm.RSA_SHA512,
    bytes.fromhex("300a06082a8648ce3d040302"): SignatureAlgorithm.ECDSA_SHA256,
    bytes.fromhex("300a06082a8648ce3d040303"): SignatureAlgorithm.ECDSA_SHA384,
}

_PSS_SHA384 = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
_RSA: dict[SignatureAlgorithm, tuple[padding.AsymmetricPadding, hashes.HashAlgorithm]] = {
    SignatureAlgorithm.RSA_PSS_SHA384: (_PSS_SHA384, hashes.SHA384()),
    SignatureAlgorithm.RSA_SHA256: (padding.PKCS1v15(), hashes.SHA256()),
    SignatureAlgorithm.RSA_SHA384: (padding.PKCS1v15(), hashes.SHA384()),
    SignatureAlgorithm.RSA_SHA512: (padding.PKCS1v15(), hashes.SHA512()),
}
_ECDSA = {
    SignatureAlgorithm.ECDSA_SHA256: ec.ECDSA(hashes.SHA256()),
    SignatureAlgorithm.ECDSA_SHA384: ec.ECDSA(hashes.SHA384()),
}

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


@lru_cache(maxsize=_REMEMBERED)
def load_public_key(spki: bytes) -> PublicKey:
    """Parse an RSA or elliptic-curve public key from its SubjectPublicKeyInfo.

    Raises:
        ChainError: ``public-key-invalid``, an unsupported kind or size of key, or a point outside its curve.
    """
    try:
        key = serialization.load_der_public_key(spki)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ChainError(f"public key cannot be read: {exc}", code="public-key-invalid") from exc
    match key:
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return key
        case rsa.RSAPublicKey() if key.key_size in _RSA_BITS:
            return key
        case _:
            raise ChainError(
                f"public key is of kind {type(key).__name__}, expected RSA of 2048 to 8192 bits, P-256 or P-384",
                code="public-key-invalid",
            )


def algorithm_of(identifier: bytes) -> SignatureAlgorithm | None:
    """Return the algorithm of a DER AlgorithmIdentifier, or None if it is not in the table."""
    return _ALGORITHMS.get(identifier)


def signature_holds(signed: bytes, signature: bytes, algorithm: bytes, spki: bytes) -> bool:
    """Return True if a signature is valid under the key; a pure function of four byte strings.

    Args:
        signed: the bytes as received.
        signature: content of the BIT STRING.
        algorithm: the DER AlgorithmIdentifier; one outside the table never verifies.
        spki: the DER SubjectPublicKeyInfo of the supposed signer.
    """
    remembered = _large_holds if len(signed) > _LARGE_BYTES else _holds
    return remembered(signed, signature, algorithm, spki)


def _verify(signed: bytes, signature: bytes, algorithm: bytes, spki: bytes) -> bool:
    key, named = load_public_key(spki), _ALGORITHMS.get(algorithm)
    if named is None:
        return False
    try:
        if named in _ECDSA and isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, _ECDSA[named])
        elif named in _RSA and isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, signed, *_RSA[named])
        else:
            return False
    except InvalidSignature:
        return False
    return True


_holds = lru_cache(maxsize=_REMEMBERED)(_verify)
_large_holds = lru_cache(maxsize=_REMEMBERED_LARGE)(_verify)


def forget() -> None:
    """Clear every cache of this module, for measurements of a cold start."""
    for table in (_holds, _large_holds, load_public_key):
        table.cache_clear()
