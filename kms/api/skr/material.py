"""Material of keys in requests: the algorithm that a new key asks for, and private keys that are imported.

Spec: specs/azure-skr.md, section 6; RFC 7518, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from attest.encoding import JsonValue, base64url_bytes
from attest.errors import AttestError
from kms.api.skr.bodies import number_of, text_of
from kms.api.skr.errors import bad_parameter
from kms.domain.keys import KeyPurpose
from kms.domain.vault_material import (
    EXPONENT,
    VAULT_ALGORITHMS,
    ImportedKey,
    imported_private_key,
    imported_symmetric_key,
)

_HSM: Final = "-HSM"
_PURPOSES: Final = {"RSA": KeyPurpose.SKR_RSA, "EC": KeyPurpose.SKR_EC, "oct": KeyPurpose.SKR_OCT}
_DEFAULT_BITS: Final = {KeyPurpose.SKR_RSA: 2048, KeyPurpose.SKR_OCT: 256}
_RSA_NUMBERS: Final = ("n", "e", "d", "p", "q", "dp", "dq", "qi")
_MOST_BYTES: Final = 512
"""Length of the modulus of the longest RSA key."""
Document: TypeAlias = Mapping[str, JsonValue]


def algorithm_of(members: Document) -> str:
    """Return the algorithm that a new key has.

    Raises:
        SkrRefusal: 400 ``skr-key-kind-unsupported``.
    """
    purpose = purpose_of(text_of(members, "kty"))
    bits, crv = number_of(members, "key_size"), text_of(members, "crv")
    if number_of(members, "public_exponent") not in {None, EXPONENT}:
        raise _unsupported(f"public_exponent: expected {EXPONENT}")
    wanted = _DEFAULT_BITS.get(purpose, 0) if bits is None or purpose is KeyPurpose.SKR_EC else bits
    curve = (crv or "P-256") if purpose is KeyPurpose.SKR_EC else None
    for name, one in VAULT_ALGORITHMS.items():
        if one.is_generated and (one.purpose, one.bits, one.crv) == (purpose, wanted, curve):
            return name
    raise _unsupported(f"{members.get('kty')} with key_size {bits} and crv {crv}")


def purpose_of(kty: str | None) -> KeyPurpose:
    """Return the purpose of keys of a kind; an HSM's and others are the same here.

    Raises:
        SkrRefusal: 400 ``skr-key-kind-unsupported``.
    """
    found = _PURPOSES.get((kty or "").removesuffix(_HSM))
    if found is None:
        raise _unsupported(f"kty {str(kty)[:40]!r}: expected RSA, EC or oct, with or without {_HSM}")
    return found


def read_private_key(value: JsonValue) -> ImportedKey:
    """Read the private key of an import; members that are not needed are ignored.

    Raises:
        SkrRefusal: 400 ``skr-key-invalid`` or ``skr-key-kind-unsupported``.
        KeyConflictError: ``key-material-invalid``: there is no algorithm for such a key.
    """
    members = value if isinstance(value, dict) else {}
    purpose = purpose_of(text_of(members, "kty"))
    try:
        if purpose is KeyPurpose.SKR_OCT:
            return imported_symmetric_key(_bytes(members, "k"))
        return imported_private_key(_rsa(members) if purpose is KeyPurpose.SKR_RSA else _ec(members))
    except ValueError as exc:
        raise bad_parameter("key: it cannot be read, or its numbers do not fit each other", "skr-key-invalid") from exc


def _rsa(members: Document) -> rsa.RSAPrivateKey:
    n, e, d, p, q, dp, dq, qi = (int.from_bytes(_bytes(members, name), "big") for name in _RSA_NUMBERS)
    public = rsa.RSAPublicNumbers(e=e, n=n)
    return rsa.RSAPrivateNumbers(p=p, q=q, d=d, dmp1=dp, dmq1=dq, iqmp=qi, public_numbers=public).private_key()


def _ec(members: Document) -> ec.EllipticCurvePrivateKey:
    crv = text_of(members, "crv")
    curve = next((one.curve for one in VAULT_ALGORITHMS.values() if one.curve is not None and one.crv == crv), None)
    if curve is None:
        raise _unsupported(f"crv {str(crv)[:40]!r}: expected P-256, P-384 or P-521")
    x, y, d = (int.from_bytes(_bytes(members, name), "big") for name in ("x", "y", "d"))
    return ec.EllipticCurvePrivateNumbers(
        private_value=d, public_numbers=ec.EllipticCurvePublicNumbers(x=x, y=y, curve=curve)
    ).private_key()


def _bytes(members: Document, name: str) -> bytes:
    value = members.get(name)
    try:
        found = base64url_bytes(value.rstrip("=") if isinstance(value, str) else "?", what=f"key.{name}")
    except AttestError as exc:
        raise bad_parameter(f"key.{name}: expected base64url", "skr-key-invalid") from exc
    if len(found) > _MOST_BYTES:
        raise bad_parameter(f"key.{name}: expected at most {_MOST_BYTES} bytes", "skr-key-invalid")
    return found


def _unsupported(text: str) -> Exception:
    return bad_parameter(f"such a key is not made here: {text}", "skr-key-kind-unsupported")
