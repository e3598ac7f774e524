"""Raw signatures of tokens: the three algorithms that JWT and CWT share, and keys as JWK.

A signature here is ``r ‖ s`` of fixed length for ECDSA, big-endian, and 64 bytes for Ed25519; never DER. ECDSA is
deterministic (RFC 6979), so that signing needs no source of randomness and a vector can be compared byte by byte.

NOTE: ``joserfc`` is not used: it signs with random numbers only, warns of ``EdDSA``, which older Relying Parties still
need, and takes no signer that keeps its key elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from attest.encoding import JsonValue, base64url_bytes, base64url_text
from attest.errors import ConfigurationError, EvidenceError

PublicKey = ec.EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """An ECDSA algorithm: its curve, hash, and the length of a coordinate in bytes."""

    jwk_name: str
    curve: ec.EllipticCurve
    digest: hashes.HashAlgorithm
    size: int


_P256: Final = _Curve(jwk_name="P-256", curve=ec.SECP256R1(), digest=hashes.SHA256(), size=32)
_P384: Final = _Curve(jwk_name="P-384", curve=ec.SECP384R1(), digest=hashes.SHA384(), size=48)
_CURVES = {"ES256": _P256, "ES384": _P384}
_BY_NAME = {"secp256r1": _P256, "secp384r1": _P384}
_ED25519_NAMES = ("Ed25519", "EdDSA")
"""RFC 9864 and RFC 8037: two names of one algorithm."""

SIGNING_ALGORITHMS: Final = ("ES256", "ES384", "Ed25519", "EdDSA")
"""JWS names of the algorithms that may sign a token here."""
_REQUIRED = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key that signs tokens; its private half may be elsewhere.

    Attributes:
        algorithm: one of ``SIGNING_ALGORITHMS``, fitting the key. ``EdDSA`` is the older name of ``Ed25519``, for
            Relying Parties that do not know RFC 9864.
        sign: returns the raw signature of a message; for ECDSA ``r ‖ s``.
    """

    public: PublicKey
    algorithm: str
    sign: Callable[[bytes], bytes] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.algorithm not in _names_for(self.public):
            raise ValueError(f"{self.algorithm} is not an algorithm of this key")

    @property
    def jwk(self) -> dict[str, JsonValue]:
        """The public half as a member of a key set, with ``kid``, ``alg`` and ``use``."""
        return {**public_jwk(self.public), "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    @property
    def kid(self) -> str:
        """The RFC 7638 thumbprint."""
        return jwk_thumbprint(public_jwk(self.public))

    @staticmethod
    def of(private: ec.EllipticCurvePrivateKey | Ed25519PrivateKey, *, algorithm: str | None = None) -> SigningKey:
        """Return the key for a private key in memory.

        Raises:
            ValueError: an algorithm that does not fit the key, or a key of another kind.
        """
        public = private.public_key()
        names = _names_for(public)
        if not names:
            raise ValueError("a token is signed with P-256, P-384 or Ed25519")
        return SigningKey(public=public, algorithm=algorithm or names[0], sign=_signer(private))


def read_signing_key(pem: bytes, *, algorithm: str | None = None) -> SigningKey:
    """Read a private key: PEM, PKCS #8, not encrypted.

    Raises:
        ConfigurationError: ``token-key-invalid``.
    """
    try:
        private = load_pem_private_key(pem, password=None)
        if isinstance(private, ec.EllipticCurvePrivateKey | Ed25519PrivateKey):
            return SigningKey.of(private, algorithm=algorithm)
        problem = "another kind of key"
    except (ValueError, TypeError, UnsupportedAlgorithm):
        problem = "no private key that can be read, or not one for this algorithm"  # repeats nothing of the input
    raise ConfigurationError(
        f"token key: {problem}",
        code="token-key-invalid",
        expected="a P-256, P-384 or Ed25519 private key in PEM, not encrypted",
        hint="make one with 'attest token keygen'",
    )


def signature_holds(key: PublicKey, *, algorithm: str, message: bytes, signature: bytes) -> bool:
    """Return True if a raw signature verifies under exactly this algorithm.

    A key of another curve, another length, and DER are no error: the signature then does not hold.
    """
    if algorithm not in _names_for(key):
        return False
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, message)
            return True
        curve = _CURVES[algorithm]
        if len(signature) != 2 * curve.size:
            return False
        r, s = (int.from_bytes(half, "big") for half in (signature[: curve.size], signature[curve.size :]))
        key.verify(encode_dss_signature(r, s), message, ec.ECDSA(curve.digest))
    except (InvalidSignature, ValueError):
        return False
    return True


def _signer(private: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    if isinstance(private, Ed25519PrivateKey):
        return private.sign
    curve = _BY_NAME[private.curve.name]

    def sign(message: bytes) -> bytes:
        der = private.sign(message, ec.ECDSA(curve.digest, deterministic_signing=True))
        return b"".join(number.to_bytes(curve.size, "big") for number in decode_dss_signature(der))

    return sign


def _names_for(key: PublicKey) -> tuple[str, ...]:
    if isinstance(key, Ed25519PublicKey):
        return _ED25519_NAMES
    curve = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else None
    return tuple(name for name, known in _CURVES.items() if known.curve.name == curve)


# -- JWK


def public_jwk(key: PublicKey) -> dict[str, JsonValue]:
    """Return the required public members of a key (RFC 7518, section 6.2; RFC 8037, section 2)."""
    if isinstance(key, Ed25519PublicKey):
        return {"kty": "OKP", "crv": "Ed25519", "x": base64url_text(key.public_bytes_raw())}
    curve, numbers = _BY_NAME[key.curve.name], key.public_numbers()
    x, y = (base64url_text(number.to_bytes(curve.size, "big")) for number in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": curve.jwk_name, "x": x, "y": y}


def jwk_thumbprint(jwk: Mapping[str, JsonValue]) -> str:
    """Return the RFC 7638 thumbprint of a public key: base64url of SHA-256 over its required members.

    Raises:
        ValueError: a member is missing, or the key is of another kind.
    """
    names = _REQUIRED.get(cast("str", jwk.get("kty")) if isinstance(jwk.get("kty"), str) else "", ())
    if not names or not all(isinstance(jwk.get(name), str) for name in names):
        raise ValueError("expected a JWK of kind EC, OKP or RSA with all its public members")
    canonical = json.dumps({name: jwk[name] for name in names}, separators=(",", ":"), ensure_ascii=False)
    return base64url_text(sha256(canonical.encode()).digest())


def public_key_of(jwk: Mapping[str, JsonValue]) -> PublicKey:
    """Return the key of a JWK on P-256, P-384 or Ed25519.

    Raises:
        ValueError: another kind of key, or one that is not on its curve.
    """
    match jwk:
        case {"kty": "OKP", "crv": "Ed25519", "x": str(x)}:
            return Ed25519PublicKey.from_public_bytes(_coordinate(x, 32))
        case {"kty": "EC", "crv": str(name), "x": str(x), "y": str(y)}:
            for curve in _CURVES.values():
                if curve.jwk_name == name:
                    point = b"\x04" + _coordinate(x, curve.size) + _coordinate(y, curve.size)
                    return ec.EllipticCurvePublicKey.from_encoded_point(curve.curve, point)
    raise ValueError("expected a key on P-256, P-384 or Ed25519")


def _coordinate(text: str, size: int) -> bytes:
    try:
        data = base64url_bytes(text, what="coordinate")
    except EvidenceError as exc:
        raise ValueError(exc.message) from exc
    if len(data) != size:
        raise ValueError(f"a coordinate of {len(data)} bytes, expected {size}")
    return data
