"""Sealing of keys to a workload: HPKE to a key pair that exists only inside it.

The default suite combines ML-KEM-768 with X25519, so that a release recorded today cannot be opened by a quantum
computer later; X25519 alone is the fallback for clients without the hybrid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey, Suite

from attest.errors import BindingError, VerificationError

KEM_HYBRID = 0x647A
"""X-Wing: ML-KEM-768 and X25519 (IANA HPKE KEM id)."""
KEM_X25519 = 0x0020
"""DHKEM(X25519, HKDF-SHA256)."""

_ID_BYTES = 2
_MLKEM_PUBLIC_BYTES = 1184
_X25519_BYTES = 32
_SEED_BYTES = 64
MATERIAL_BYTES = {KEM_HYBRID: _SEED_BYTES + _X25519_BYTES, KEM_X25519: _X25519_BYTES}
"""Lengths of private keys as bytes."""
_SUITES = {
    KEM_HYBRID: Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM),
    KEM_X25519: Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM),
}

_Private = MLKEM768X25519PrivateKey | X25519PrivateKey
_Public = MLKEM768X25519PublicKey | X25519PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKey:
    """A workload's HPKE key pair. The private key never leaves this object.

    Attributes:
        public: two bytes of KEM id, big-endian, and the raw public key; the ``key`` of a binding.
    """

    public: bytes
    _private: _Private = field(repr=False)

    @staticmethod
    def generate(kem: int = KEM_HYBRID) -> WorkloadKey:
        """Generate a key pair from the operating system's randomness.

        Raises:
            ValueError: an unsupported KEM.
        """
        if kem == KEM_X25519:
            single = X25519PrivateKey.generate()
            raw, private = single.public_key().public_bytes_raw(), single
            return WorkloadKey(public=_tagged(kem, raw), _private=private)
        if kem == KEM_HYBRID:
            lattice, curve = MLKEM768PrivateKey.generate(), X25519PrivateKey.generate()
            raw = lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
            return WorkloadKey(public=_tagged(kem, raw), _private=MLKEM768X25519PrivateKey(lattice, curve))
        raise ValueError(f"KEM {kem:#06x} is not offered: expected {KEM_HYBRID:#06x} or {KEM_X25519:#06x}")

    @staticmethod
    def from_material(kem: int, material: bytes | memoryview) -> WorkloadKey:
        """Return a key pair from its private key.

        It has 32 bytes of X25519; before them, with the hybrid, the 64 bytes of an ML-KEM-768 seed.

        Raises:
            ValueError: an unsupported KEM, or another number of bytes.
        """
        raw, curve, lattice = read_material(kem, material)
        private = curve if lattice is None else MLKEM768X25519PrivateKey(lattice, curve)
        return WorkloadKey(public=_tagged(kem, raw), _private=private)

    def open(self, sealed: bytes, *, info: bytes) -> bytes:
        """Open a secret sealed to this key in this exchange.

        Raises:
            BindingError: ``release-not-for-this-exchange``: another key, another exchange, or altered bytes.
        """
        suite = _SUITES[int.from_bytes(self.public[:_ID_BYTES], "big")]
        try:
            return suite.decrypt(sealed, self._private, info)
        except (InvalidTag, ValueError) as exc:
            raise BindingError(
                "the sealed key does not open: it is for another key or another exchange, or it was altered",
                code="release-not-for-this-exchange",
                clause="RFC 9180, section 6.1",
            ) from exc

    def __reduce__(self) -> NoReturn:
        raise TypeError("a WorkloadKey does not leave its process")


def read_material(kem: int, material: bytes | memoryview) -> tuple[bytes, X25519PrivateKey, MLKEM768PrivateKey | None]:
    """Return the raw public key and both private keys of a private key; with X25519 there is no second one.

    Raises:
        ValueError: an unsupported KEM, or another number of bytes.
    """
    if len(material) != MATERIAL_BYTES.get(kem):
        raise ValueError(f"the private key of KEM {kem:#06x} has another number of bytes than {len(material)}")
    curve = X25519PrivateKey.from_private_bytes(material[-_X25519_BYTES:])
    point = curve.public_key().public_bytes_raw()
    if kem == KEM_X25519:
        return point, curve, None
    lattice = MLKEM768PrivateKey.from_seed_bytes(material[:_SEED_BYTES])
    return lattice.public_key().public_bytes_raw() + point, curve, lattice


def seal(secret: bytes | memoryview, *, recipient: bytes, info: bytes) -> bytes:
    """Encrypt to a workload's public key (HPKE base mode, one shot, empty AAD); return ``enc ‖ ciphertext``.

    The recipient is the ``WorkloadKey.public`` of a verified binding; ``info`` is the agreed context of the exchange,
    and opening needs the same bytes.

    Raises:
        VerificationError: ``recipient-key-invalid``: an unknown KEM, another length, or an invalid key.
    """
    kem, raw = int.from_bytes(recipient[:_ID_BYTES], "big"), recipient[_ID_BYTES:]
    try:
        return _SUITES[kem].encrypt(secret, _public_key(kem, raw), info)
    except (KeyError, ValueError) as exc:
        raise VerificationError(
            "the workload's public key cannot be sealed to",
            code="recipient-key-invalid",
            field="binding.key",
            expected=f"KEM {KEM_HYBRID:#06x} and 1216 bytes, or {KEM_X25519:#06x} and 32 bytes",
            got=f"KEM {kem:#06x} and {len(raw)} bytes",
        ) from exc


def _public_key(kem: int, raw: bytes) -> _Public:
    if kem == KEM_X25519:
        return X25519PublicKey.from_public_bytes(raw)
    lattice, curve = raw[:_MLKEM_PUBLIC_BYTES], raw[_MLKEM_PUBLIC_BYTES:]
    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(lattice), X25519PublicKey.from_public_bytes(curve)
    )


def _tagged(kem: int, raw: bytes) -> bytes:
    return kem.to_bytes(_ID_BYTES, "big") + raw
