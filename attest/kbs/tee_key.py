"""The guest's public key, to which resources are encrypted: a JWK in the handshake.

Spec: specs/kbs-protocol.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from attest.encoding import JsonValue, base64url_bytes, base64url_text, canonical_json
from attest.errors import EvidenceError, VerificationError

EC_ALGORITHM: Final = "ECDH-ES+A256KW"
RSA_ALGORITHM: Final = "RSA-OAEP-256"
_RSA_BITS: Final = range(2048, 4097)
_EXPONENTS: Final = range(3, 1 << 32)
CURVES: Final[dict[str, ec.EllipticCurve]] = {"P-256": ec.SECP256R1(), "P-521": ec.SECP521R1()}
_MEMBERS: Final = {"EC": ("alg", "crv", "kty", "x", "y"), "RSA": ("alg", "e", "kty", "n")}
"""The members that the protocol knows; others are dropped before the key is hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeeKey:
    """A guest's key.

    Attributes:
        jwk: its known members, as the guest sent them.
    """

    jwk: dict[str, str]
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey

    def to_bytes(self) -> bytes:
        """Return the JWK in canonical JSON (RFC 8785), which identifies the key."""
        return canonical_json(dict(self.jwk))


def read_tee_key(document: JsonValue) -> TeeKey:
    """Read a key.

    Raises:
        VerificationError: ``tee-key-invalid``: not a point of P-256 or P-521 with ``ECDH-ES+A256KW``, and no RSA key of
            2,048 to 4,096 bits with ``RSA-OAEP-256``.
    """
    given = document if isinstance(document, dict) else {}
    names = _MEMBERS.get(str(given.get("kty")))
    if names is None:
        raise _invalid("kty", "EC or RSA", given.get("kty"))
    members = {name: given.get(name) for name in names}
    jwk = {name: value for name, value in members.items() if isinstance(value, str)}
    if missing := [name for name in names if name not in jwk]:
        raise _invalid(missing[0], "text", members[missing[0]])
    return TeeKey(jwk=jwk, public=_ec_key(jwk) if jwk["kty"] == "EC" else _rsa_key(jwk))


def _ec_key(jwk: dict[str, str]) -> ec.EllipticCurvePublicKey:
    curve = CURVES.get(jwk["crv"])
    if curve is None:
        raise _invalid("crv", " or ".join(CURVES), jwk["crv"])
    if jwk["alg"] != EC_ALGORITHM:
        raise _invalid("alg", EC_ALGORITHM, jwk["alg"])
    size = (curve.key_size + 7) // 8
    x, y = (_bytes(jwk, name) for name in ("x", "y"))
    if len(x) != size or len(y) != size:
        raise _invalid("x", f"coordinates of {size} bytes", f"{len(x)} and {len(y)} bytes")
    try:
        return ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), curve).public_key()
    except ValueError as exc:
        raise _invalid("x", "a point of the curve", "another pair of numbers") from exc


def _rsa_key(jwk: dict[str, str]) -> rsa.RSAPublicKey:
    if jwk["alg"] != RSA_ALGORITHM:
        raise _invalid("alg", RSA_ALGORITHM, jwk["alg"])
    n, e = (int.from_bytes(_bytes(jwk, name), "big") for name in ("n", "e"))
    if n.bit_length() not in _RSA_BITS or e not in _EXPONENTS:
        raise _invalid("n", f"{_RSA_BITS.start} to {_RSA_BITS.stop - 1} bits", f"{n.bit_length()} bits")
    try:
        return rsa.RSAPublicNumbers(e, n).public_key()
    except ValueError as exc:
        raise _invalid("n", "an RSA key", "other numbers") from exc


def _bytes(jwk: dict[str, str], name: str) -> bytes:
    try:
        return base64url_bytes(jwk[name], what=f"tee-pubkey.{name}")
    except EvidenceError as exc:
        raise _invalid(name, "base64url without padding", "other text") from exc


def coordinate(number: int, curve: ec.EllipticCurve) -> str:
    """Return a coordinate of the curve in its fixed length, base64url."""
    return base64url_text(number.to_bytes((curve.key_size + 7) // 8, "big"))


def _invalid(member: str, expected: str, got: object) -> VerificationError:
    return VerificationError(
        f"the guest's key cannot be used: {member}: expected {expected}",
        code="tee-key-invalid",
        field=f"tee-pubkey.{member}",
        expected=expected,
        got=str(got)[:80],
        clause="docs/kbs.md",
    )
