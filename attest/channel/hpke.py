r"""HPKE in base mode beyond the library's one-shot form: contexts, secret export, and the hybrid KEM.

::

    key schedule   LabeledExtract / LabeledExpand over HKDF-SHA256 (RFC 9180, sections 4 and 5.1)
    nonce(seq)     base_nonce XOR seq, 12 bytes, big-endian; only a successful call increments seq
    0x0020         DHKEM(X25519, HKDF-SHA256); enc 32, public 32
    0x647a         X-Wing: SHA3-256( ss_M ‖ ss_X ‖ ct_X ‖ pk_X ‖ label ); enc ct_M ‖ ct_X, public pk_M ‖ pk_X

The primitives are `cryptography`'s. One-shot sealing uses the library itself (``attest.release.sealed_key``); this
module is for Oblivious HTTP, which exports the answer's key and seals several chunks under one context.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha3_256, shake_256
from typing import Final, NoReturn, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from attest.errors import ChannelError, ChannelTamperError, VerificationError
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519, MATERIAL_BYTES, read_material

KDF_SHA256: Final = 0x0001
AES_128_GCM: Final = 0x0001
"""Algorithms of published vectors; clients never choose them."""
AES_256_GCM: Final = 0x0002
CHACHA20_POLY1305: Final = 0x0003
KEY_BYTES: Final = {AES_128_GCM: 16, AES_256_GCM: 32, CHACHA20_POLY1305: 32}
PUBLIC_BYTES: Final = {KEM_X25519: 32, KEM_HYBRID: 1216}
ENC_BYTES: Final = {KEM_X25519: 32, KEM_HYBRID: 1120}
SEED_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
MAX_SEQUENCE: Final = (1 << 8 * NONCE_BYTES) - 1
_HASH_BYTES = 32
_X25519_BYTES = 32
_LATTICE_PUBLIC_BYTES = 1184
_VERSION = b"HPKE-v1"
_MODE_BASE = b"\x00"
_XWING_LABEL = bytes.fromhex("5c2e2f2f5e5c")
_CLAUSE = "RFC 9180"


class _Aead(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes | memoryview, associated_data: bytes | None) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A KEM, HKDF-SHA256 and an AEAD.

    Attributes:
        kem: ``KEM_HYBRID`` or ``KEM_X25519``.
        aead: ``AES_256_GCM``, ``CHACHA20_POLY1305``, or ``AES_128_GCM`` for vectors.

    Raises:
        ValueError: an unsupported KEM or AEAD.
    """

    kem: int
    aead: int

    def __post_init__(self) -> None:
        if self.kem not in ENC_BYTES or self.aead not in KEY_BYTES:
            raise ValueError(f"no suite of KEM {self.kem:#06x} and AEAD {self.aead:#06x}")

    @property
    def key_bytes(self) -> int:
        """Length of the AEAD's key."""
        return KEY_BYTES[self.aead]

    def to_bytes(self) -> bytes:
        """Return the three ids, two bytes each, big-endian."""
        return b"".join(number.to_bytes(2, "big") for number in (self.kem, KDF_SHA256, self.aead))

    def cipher(self, key: bytes) -> _Aead:
        """Return the AEAD under a key."""
        return ChaCha20Poly1305(key) if self.aead == CHACHA20_POLY1305 else AESGCM(key)


def extract(salt: bytes, material: bytes) -> bytes:
    """HKDF-Extract with SHA-256; an empty salt is 32 zero bytes."""
    return HKDF.extract(SHA256(), salt or bytes(_HASH_BYTES), material)


def expand(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256.

    Raises:
        ValueError: more than 8,160 bytes.
    """
    return HKDFExpand(SHA256(), length, info).derive(secret)


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, material: bytes) -> bytes:
    return extract(salt, _VERSION + suite + label + material)


def _labeled_expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(secret, length.to_bytes(2, "big") + _VERSION + suite + label + info, length)


class CountedAead:
    """An AEAD key with counted nonces: seals or opens messages in order.

    It has one direction and one owner: concurrent sealing would reuse a nonce. The base nonce has 12 bytes, and
    ``sequence`` is the number of the next message.
    """

    __slots__ = ("_base", "_cipher", "_sequence")

    def __init__(self, cipher: _Aead, base_nonce: bytes, *, sequence: int = 0) -> None:
        self._cipher = cipher
        self._base = int.from_bytes(base_nonce, "big")
        self._sequence = sequence

    def seal(self, plaintext: bytes, *, aad: bytes = b"") -> bytes:
        """Encrypt the next message.

        Raises:
            ChannelError: ``channel-messages-exhausted``.
        """
        sealed = self._cipher.encrypt(self._nonce(), plaintext, aad)
        self._sequence += 1
        return sealed

    def open(self, sealed: bytes | memoryview, *, aad: bytes = b"") -> bytes:
        """Decrypt the next message; a failure does not advance the number.

        Raises:
            ChannelTamperError: ``channel-not-opened``.
            ChannelError: ``channel-messages-exhausted``.
        """
        try:
            plaintext = self._cipher.decrypt(self._nonce(), sealed, aad)
        except (InvalidTag, ValueError) as exc:
            raise not_opened() from exc
        self._sequence += 1
        return plaintext

    def _nonce(self) -> bytes:
        if self._sequence >= MAX_SEQUENCE:
            raise ChannelError(
                "the context has sealed as many messages as it may",
                code="channel-messages-exhausted",
                clause=f"{_CLAUSE}, section 5.2",
            )
        return (self._base ^ self._sequence).to_bytes(NONCE_BYTES, "big")

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: a copy would reuse nonces."""
        raise TypeError(f"a {type(self).__name__} does not leave its process")


class HpkeContext(CountedAead):
    """One side of an exchange in base mode: the sender seals, the recipient opens, both export.

    Args:
        shared_secret: 32 bytes of the KEM.
        info: agreed context of both sides.
    """

    __slots__ = ("_exporter", "_id")

    def __init__(self, suite: Suite, shared_secret: bytes, info: bytes, *, sequence: int = 0) -> None:
        """Run the key schedule (RFC 9180, section 5.1, mode_base)."""
        name = b"HPKE" + suite.to_bytes()
        context = (
            _MODE_BASE
            + _labeled_extract(name, b"", b"psk_id_hash", b"")
            + _labeled_extract(name, b"", b"info_hash", info)
        )
        secret = _labeled_extract(name, shared_secret, b"secret", b"")
        key = _labeled_expand(name, secret, b"key", context, suite.key_bytes)
        base_nonce = _labeled_expand(name, secret, b"base_nonce", context, NONCE_BYTES)
        super().__init__(suite.cipher(key), base_nonce, sequence=sequence)
        self._id = name
        self._exporter = _labeled_expand(name, secret, b"exp", context, _HASH_BYTES)

    def export(self, context: bytes, length: int) -> bytes:
        """Return a secret of both sides, independent of the sealed messages.

        Raises:
            ValueError: more than 8,160 bytes.
        """
        return _labeled_expand(self._id, self._exporter, b"sec", context, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class HpkeKey:
    """A recipient's key pair. The private key never leaves this object.

    Attributes:
        public: the raw public key: 32 bytes, or 1,216 of the hybrid.
    """

    kem: int
    public: bytes
    _curve: X25519PrivateKey = field(repr=False)
    _lattice: MLKEM768PrivateKey | None = field(repr=False)

    @staticmethod
    def from_seed(kem: int, seed: bytes) -> HpkeKey:
        """Make a key pair from random bytes.

        The seed has 32 bytes: it is the X25519 key, or X-Wing's seed.

        Raises:
            ValueError: another number of bytes, or an unknown KEM.
        """
        if len(seed) != SEED_BYTES or kem not in ENC_BYTES:
            raise ValueError(f"expected {SEED_BYTES} bytes for a known KEM, got {len(seed)} for {kem:#06x}")
        if kem == KEM_HYBRID:
            seed = shake_256(seed).digest(MATERIAL_BYTES[KEM_HYBRID])
        return HpkeKey.from_material(kem, seed)

    @staticmethod
    def from_material(kem: int, material: bytes) -> HpkeKey:
        """Make a key pair from a released private key (a prompt key's).

        It has 32 bytes of X25519; before them, with the hybrid, the 64 bytes of an ML-KEM-768 seed.

        Raises:
            ValueError: another number of bytes, or an unknown KEM.
        """
        public, curve, lattice = read_material(kem, material)
        return HpkeKey(kem=kem, public=public, _curve=curve, _lattice=lattice)

    def decapsulate(self, enc: bytes) -> bytes:
        """Return the shared secret of 32 bytes.

        ML-KEM refuses in silence: a damaged ``enc`` gives another secret, and the AEAD fails.

        Raises:
            ChannelTamperError: ``channel-not-opened``: another length, or a point that gives no secret.
        """
        if len(enc) != ENC_BYTES[self.kem]:
            raise not_opened()
        point = enc[-_X25519_BYTES:]
        try:
            secret = self._curve.exchange(X25519PublicKey.from_public_bytes(point))
            if self._lattice is None:
                return _dhkem_secret(secret, point, self.public)
            other = self._lattice.decapsulate(enc[:-_X25519_BYTES])
        except ValueError as exc:
            raise not_opened() from exc
        return _xwing_secret(other, secret, point, self.public)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an HpkeKey does not leave its process")


def encapsulate(kem: int, public: bytes, *, dangerous_ephemeral: X25519PrivateKey | None = None) -> tuple[bytes, bytes]:
    """Return a shared secret (32 bytes) with the holder of the private key, and ``enc``.

    The public key is raw and not validated yet. ``dangerous_ephemeral`` is the X25519 half of the sender's ephemeral
    key, for vectors; None generates it.

    Raises:
        VerificationError: ``channel-key-invalid``: an unknown KEM, another length, or an invalid key.
    """
    if len(public) != PUBLIC_BYTES.get(kem):
        raise _key_invalid(f"{len(public)} bytes for KEM {kem:#06x}")
    ephemeral = dangerous_ephemeral or X25519PrivateKey.generate()
    point = ephemeral.public_key().public_bytes_raw()
    try:
        secret = ephemeral.exchange(X25519PublicKey.from_public_bytes(public[-_X25519_BYTES:]))
        if kem == KEM_X25519:
            return _dhkem_secret(secret, point, public), point
        other, lattice = MLKEM768PublicKey.from_public_bytes(public[:_LATTICE_PUBLIC_BYTES]).encapsulate()
    except ValueError as exc:
        raise _key_invalid("no public key") from exc
    return _xwing_secret(other, secret, point, public), lattice + point


def _dhkem_secret(shared: bytes, enc: bytes, public: bytes) -> bytes:
    name = b"KEM" + KEM_X25519.to_bytes(2, "big")
    secret = _labeled_extract(name, b"", b"eae_prk", shared)
    return _labeled_expand(name, secret, b"shared_secret", enc + public, _HASH_BYTES)


def _xwing_secret(lattice: bytes, curve: bytes, point: bytes, public: bytes) -> bytes:
    return sha3_256(lattice + curve + point + public[-_X25519_BYTES:] + _XWING_LABEL).digest()


def not_opened() -> ChannelTamperError:
    """Return the single error for everything that does not open; it hides the failing part."""
    return ChannelTamperError(
        "the message does not open: it is for another key or another exchange, or it was altered",
        code="channel-not-opened",
        clause="RFC 9458, section 4",
    )


def _key_invalid(got: str) -> VerificationError:
    return VerificationError(
        "the service's public key cannot be sealed to",
        code="channel-key-invalid",
        expected="a key of its KEM",
        got=got,
        clause=_CLAUSE,
    )
