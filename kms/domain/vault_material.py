"""Material of a vault's keys: symmetric keys as they are, RSA and EC keys as PKCS #8 (DER).

Spec: specs/azure-skr.md, sections 6 and 9; RFC 5958; RFC 7518, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from attest.encoding import base64url_text
from kms.domain.errors import KeyConflictError
from kms.domain.kek import RandomBytes
from kms.domain.keys import KeyPurpose
from kms.domain.secret import EXPORT, SecretBytes

OCT: Final = "skr-oct"
"""Algorithm of imported symmetric keys of any length."""
OCT_BYTES: Final = range(1, 65)
EXPONENT: Final = 65537
_JUDGED_BYTES: Final = 16
"""Shorter keys are not examined for repeated bytes."""
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)
VaultPrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultAlgorithm:
    """Algorithm of a vault's key.

    Attributes:
        bits: of a symmetric key or a modulus; 0 for any length that an owner imports, and for curves.
        curve: of an EC key.
        crv: its name in key documents.
    """

    purpose: KeyPurpose
    bits: int = 0
    curve: ec.EllipticCurve | None = None
    crv: str | None = None

    @property
    def is_generated(self) -> bool:
        """True if the service can make such a key."""
        return bool(self.bits or self.curve)


VAULT_ALGORITHMS: Final = {
    OCT: VaultAlgorithm(purpose=KeyPurpose.SKR_OCT),
    **{f"skr-oct-{bits}": VaultAlgorithm(purpose=KeyPurpose.SKR_OCT, bits=bits) for bits in (128, 192, 256)},
    **{f"skr-rsa-{bits}": VaultAlgorithm(purpose=KeyPurpose.SKR_RSA, bits=bits) for bits in (2048, 3072, 4096)},
    **{
        f"skr-ec-{crv.replace('-', '').lower()}": VaultAlgorithm(purpose=KeyPurpose.SKR_EC, curve=curve, crv=crv)
        for crv, curve in (("P-256", ec.SECP256R1()), ("P-384", ec.SECP384R1()), ("P-521", ec.SECP521R1()))
    },
}


def new_vault_material(found: VaultAlgorithm, *, random: RandomBytes) -> SecretBytes:
    """Generate a key; RSA and EC keys come from the library's own random source."""
    if found.purpose is KeyPurpose.SKR_OCT:
        return SecretBytes(random(found.bits // 8))
    if found.curve is not None:
        return _encoded(ec.generate_private_key(found.curve))
    return _encoded(rsa.generate_private_key(public_exponent=EXPONENT, key_size=found.bits))


class ImportedKey(NamedTuple):
    """An owner's key in the stored form, and its algorithm."""

    material: SecretBytes
    algorithm: str


def imported_symmetric_key(content: bytes) -> ImportedKey:
    """Return an imported symmetric key."""
    return ImportedKey(SecretBytes(content), OCT)


def imported_private_key(key: VaultPrivateKey) -> ImportedKey:
    """Return an imported RSA or EC key.

    Raises:
        KeyConflictError: ``key-material-invalid``: there is no algorithm for such a key.
    """
    for name, one in VAULT_ALGORITHMS.items():
        if _is_of(key, one):
            return ImportedKey(_encoded(key), name)
    raise _invalid("an RSA key of 2048, 3072 or 4096 bits, or a key on P-256, P-384 or P-521", "another key")


def require_vault_material(material: SecretBytes, found: VaultAlgorithm) -> None:
    """Refuse material that does not fit the algorithm, or a symmetric key that no random generator makes.

    Raises:
        KeyConflictError: ``key-material-invalid`` or ``key-material-weak``.
    """
    if found.purpose is KeyPurpose.SKR_OCT:
        _require_symmetric(material, found)
        return
    if not material.lend(EXPORT, lambda view: _holds(view, found)):
        raise _invalid(f"PKCS #8 of a key of {found.purpose}", "another content")


def _holds(content: memoryview, found: VaultAlgorithm) -> bool:
    key = _read(content, is_examined=True)
    # The examination of an RSA key takes long, so it comes last.
    return key is not None and _is_of(key, found) and _read(content) is not None


def _require_symmetric(material: SecretBytes, found: VaultAlgorithm) -> None:
    size = len(material)
    if size not in OCT_BYTES or found.bits not in {0, size * 8}:
        raise _invalid(f"{found.bits // 8 if found.bits else '1 to 64'} bytes", f"{size} bytes")
    if size >= _JUDGED_BYTES and material.lend(EXPORT, lambda view: len(set(view))) <= size // 4:
        raise KeyConflictError(
            "the key is not random: it repeats a few bytes",
            code="key-material-weak",
            expected=f"{size} bytes of a random generator",
            hint="nothing was stored",
        )


def public_members(material: SecretBytes) -> dict[str, str]:
    """Return the public members of an RSA or EC key's document, and those of no other key.

    The material was examined before it was stored. The numbers of an RSA key are not examined again, which takes 30 ms
    to 200 ms.

    Raises:
        KeyConflictError: ``key-material-invalid``.
    """
    return material.lend(EXPORT, public_members_of)


def public_members_of(content: bytes | memoryview) -> dict[str, str]:
    """Return the public members of a private key in PKCS #8; as ``public_members``."""
    key = _read(content, is_examined=True)
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"n": _number(numbers.n), "e": _number(numbers.e)}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        point, size = key.public_key().public_numbers(), (key.curve.key_size + 7) // 8
        crv = next(one.crv for one in VAULT_ALGORITHMS.values() if one.crv and _is_of(key, one))
        return {"crv": crv, "x": _number(point.x, size), "y": _number(point.y, size)}
    raise _invalid("PKCS #8", "another content")


def _read(content: bytes | memoryview, *, is_examined: bool = False) -> VaultPrivateKey | None:
    try:
        key = load_der_private_key(bytes(content), password=None, unsafe_skip_rsa_key_validation=is_examined)
    except _UNREADABLE:
        return None
    return key if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) else None


def _is_of(key: VaultPrivateKey, found: VaultAlgorithm) -> bool:
    if isinstance(key, rsa.RSAPrivateKey):
        exponent = key.public_key().public_numbers().e
        return found.purpose is KeyPurpose.SKR_RSA and key.key_size == found.bits and exponent >= EXPONENT
    return found.curve is not None and key.curve.name == found.curve.name


def _encoded(key: VaultPrivateKey) -> SecretBytes:
    return SecretBytes(bytearray(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())))


def _number(value: int, size: int = 0) -> str:
    return base64url_text(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def _invalid(expected: str, got: str) -> KeyConflictError:
    return KeyConflictError(
        f"the key does not fit its algorithm: expected {expected}, got {got}",
        code="key-material-invalid",
        expected=expected,
        got=got,
    )
