r"""Key configurations: the document with a service's keys and their algorithms (RFC 9458, section 3).

::

    KeyConfig   key_id (1) ‖ kem_id (2) ‖ public key ‖ n (2) ‖ { kdf_id (2) ‖ aead_id (2) } * n/4       big-endian
    document    { length (2) ‖ KeyConfig }*                                          application/ohttp-keys
    binding     key = SHA-256( "attest ohttp keys v1\0" ‖ document )

Evidence commits to the whole document. An intermediary therefore cannot remove the hybrid, offer a weaker AEAD or add a
key of its own: that would be another document.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from attest.channel.hpke import AES_256_GCM, CHACHA20_POLY1305, KDF_SHA256, PUBLIC_BYTES, Suite
from attest.errors import ChannelError, EvidenceError
from attest.evidence.reader import ByteReader
from attest.release.sealed_key import KEM_HYBRID

KEYS_MEDIA_TYPE: Final = "application/ohttp-keys"
DEFAULT_KEMS: Final = (KEM_HYBRID,)
"""KEMs that a client accepts by default."""
OFFERED: Final = ((KDF_SHA256, AES_256_GCM), (KDF_SHA256, CHACHA20_POLY1305))
"""Pairs that a service offers and a client accepts."""
MAX_CONFIGS: Final = 16
MAX_DOCUMENT_BYTES: Final = 32 * 1024
MAX_PAIRS_BYTES: Final = 65532
_DOMAIN = b"attest ohttp keys v1\0"
_CLAUSE = "RFC 9458, section 3"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """One key with its algorithms.

    Attributes:
        key_id: 0 to 255.
        pairs: KDF and AEAD ids, the preferred pair first; unsupported kinds are allowed.

    Raises:
        ValueError: an id out of range, a key of another length, or no pairs.
    """

    key_id: int
    kem: int
    public_key: bytes
    pairs: tuple[tuple[int, int], ...] = OFFERED

    def __post_init__(self) -> None:
        numbers = [number for pair in self.pairs for number in pair]
        if not 0 <= self.key_id <= 255 or len(self.public_key) != PUBLIC_BYTES.get(self.kem):
            raise ValueError("a key id is one byte, and a key has the length of its KEM")
        if not 0 < 2 * len(numbers) <= MAX_PAIRS_BYTES or not all(0 <= number <= 0xFFFF for number in numbers):
            raise ValueError("expected pairs of ids of two bytes")

    def to_bytes(self) -> bytes:
        """Encode, without the length prefix."""
        pairs = b"".join(number.to_bytes(2, "big") for pair in self.pairs for number in pair)
        head = bytes((self.key_id,)) + self.kem.to_bytes(2, "big")
        return head + self.public_key + len(pairs).to_bytes(2, "big") + pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignConfig:
    """A configuration with an unsupported KEM; its length lets a decoder skip it."""

    key_id: int
    kem: int
    rest: bytes

    def to_bytes(self) -> bytes:
        """Encode, without the length prefix."""
        return bytes((self.key_id,)) + self.kem.to_bytes(2, "big") + self.rest


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDocument:
    """All configurations of a service. Trusted once evidence that commits to ``digest`` is verified and appraised.

    Attributes:
        configs: in the service's order of preference.

    Raises:
        ValueError: none, more than 16, one longer than its length field allows, or a repeated key id.
    """

    configs: tuple[KeyConfig | ForeignConfig, ...]

    def __post_init__(self) -> None:
        ids = [config.key_id for config in self.configs]
        if not 0 < len(ids) <= MAX_CONFIGS or len(set(ids)) != len(ids):
            raise ValueError(f"expected 1 to {MAX_CONFIGS} configurations with a key id of its own each")
        if len(self.to_bytes()) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"more than {MAX_DOCUMENT_BYTES} bytes")

    def to_bytes(self) -> bytes:
        """Encode as ``application/ohttp-keys``."""
        encoded = [config.to_bytes() for config in self.configs]
        return b"".join(len(config).to_bytes(2, "big") + config for config in encoded)

    @property
    def digest(self) -> bytes:
        """The key in a binding of context ``channel/v1``, 32 bytes."""
        return sha256(_DOMAIN + self.to_bytes()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChoice:
    """The recipient's key, and the algorithms of one of its pairs."""

    config: KeyConfig
    suite: Suite


def parse_key_document(data: bytes) -> KeyDocument:
    """Parse ``application/ohttp-keys``. One defect refuses the whole document.

    Partial recovery would let a service distinguish clients by the parts that they recover.

    Raises:
        ChannelError: ``channel-keys-malformed``.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _malformed(f"{len(data)} bytes, more than {MAX_DOCUMENT_BYTES}")
    reader = ByteReader(data, what="key configurations")
    found: list[KeyConfig | ForeignConfig] = []
    try:
        while reader.remaining:
            if len(found) == MAX_CONFIGS:
                raise _malformed(f"more than {MAX_CONFIGS} configurations")
            length = reader.unsigned(2, "length", byteorder="big")
            found.append(_config(reader.take(length, "configuration")))
        return KeyDocument(configs=tuple(found))
    except (EvidenceError, ValueError) as exc:
        raise _malformed(str(exc)) from exc


def choose(document: KeyDocument, *, kems: Collection[int] = DEFAULT_KEMS) -> KeyChoice:
    """Return the first acceptable configuration and pair, in the document's order; by default of the hybrid alone.

    Raises:
        ChannelError: ``channel-keys-unsupported``.
    """
    for config in document.configs:
        if not isinstance(config, KeyConfig) or config.kem not in kems:
            continue
        for kdf, aead in config.pairs:
            if (kdf, aead) in OFFERED:
                return KeyChoice(config=config, suite=Suite(kem=config.kem, aead=aead))
    raise ChannelError(
        "no key configuration is acceptable here",
        code="channel-keys-unsupported",
        expected=", ".join(f"{kem:#06x}" for kem in kems) + " with AES-256-GCM or ChaCha20-Poly1305",
        got=", ".join(f"{config.kem:#06x}" for config in document.configs),
        clause=_CLAUSE,
        hint="a service without the hybrid KEM must be allowed by name",
    )


def _config(data: bytes) -> KeyConfig | ForeignConfig:
    reader = ByteReader(data, what="key configuration")
    key_id = reader.unsigned(1, "key_id")
    kem = reader.unsigned(2, "kem_id", byteorder="big")
    if kem not in PUBLIC_BYTES:
        return ForeignConfig(key_id=key_id, kem=kem, rest=reader.take(reader.remaining, "key"))
    public_key = reader.take(PUBLIC_BYTES[kem], "public key")
    size = reader.unsigned(2, "algorithms length", byteorder="big")
    if size == 0 or size % 4:
        raise ValueError(f"algorithms take {size} bytes, expected a multiple of 4")
    pairs = tuple(
        (reader.unsigned(2, "kdf_id", byteorder="big"), reader.unsigned(2, "aead_id", byteorder="big"))
        for _ in range(size // 4)
    )
    reader.finish()
    return KeyConfig(key_id=key_id, kem=kem, public_key=public_key, pairs=pairs)


def _malformed(problem: str) -> ChannelError:
    return ChannelError(f"key configurations: {problem}", code="channel-keys-malformed", clause=_CLAUSE)
