"""A signer of COSE_Sign1, with cbor2 (RFC 9052, section 4.4)."""

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

CosePrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
PSS: dict[int, hashes.HashAlgorithm] = {-37: hashes.SHA256(), -38: hashes.SHA384(), -39: hashes.SHA512()}


def cose_sign(key: CosePrivateKey, *, protected: bytes, payload: bytes, algorithm: int = -37) -> bytes:
    """Sign with Ed25519, with P-256 and SHA-256, with P-384 and SHA-384, or with RSA and this algorithm."""
    message = cbor2.dumps(["Signature1", protected, b"", payload])
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    if isinstance(key, rsa.RSAPrivateKey):
        digest = PSS[algorithm]
        return key.sign(message, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
    size = key.curve.key_size // 8
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256() if size == 32 else hashes.SHA384())))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")
