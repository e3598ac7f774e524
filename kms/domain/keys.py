"""What a key is called, and what its wrapped form is tied to."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import cbor_bytes
from attest.release import DEFAULT_TENANT, KeyName, KeyReference

__all__ = [
    "DEFAULT_DISCLOSURE",
    "DEFAULT_TENANT",
    "SYMMETRIC_256",
    "SYMMETRIC_KEY_BYTES",
    "Disclosure",
    "KeyName",
    "KeyPurpose",
    "KeyRecord",
    "KeyReference",
    "RotationSchedule",
    "WrapContext",
    "Wrapped",
]

SYMMETRIC_256 = "symmetric-256"
SYMMETRIC_KEY_BYTES = 32
_FORMAT = "kms-wrap/v1"


class KeyPurpose(enum.StrEnum):
    """What a key is for; a key of one purpose never stands in for one of another."""

    MODEL_KEY = "model-key"
    PROMPT_KEY = "prompt-key"


class Disclosure(enum.StrEnum):
    """How much a refused workload learns, from nothing to everything."""

    NONE = "none"
    """Not even whether there is such a key."""
    CODES = "codes"
    """The codes of the reasons."""
    CHECKS = "checks"
    """Also which checks of the policy failed, by their ids."""
    FULL = "full"
    """Also what was expected, what was found, and every reason in words."""


DEFAULT_DISCLOSURE: Final = Disclosure.CHECKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A secret in the form in which it is stored.

    Attributes:
        kek_id: names the key-encryption key that opens it, 32 bytes.
        content: the secret, encrypted; its first byte names the format (``docs/key-encryption.md``).
    """

    kek_id: bytes
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """One version of a key as it is stored, without its material.

    Attributes:
        name: what it is called.
        version: from 1.
        purpose: what it is for.
        algorithm: what the material is (``symmetric-256``: 32 bytes).
        policy_digest: SHA-256 of the policy that a workload must meet, 32 bytes.
        enabled: whether any version of the key may be released at all.
        version_enabled: whether this one may.
        overlap_until: from when on it is released no longer, since another version took its place; None while it is
            the current one.
        destroy_at: when its material is destroyed; None while nobody asked for that. Set, it is released to nobody.
        created_at: when this version was made or imported, UTC.
        wrapped: the material, encrypted under a key-encryption key and tied to name, version, purpose, algorithm and
            policy; nothing once it is destroyed.
        disclosure: what a workload is told that is refused the key.
        lease_seconds: how long a lease of it lasts; None: as the service's settings say.
    """

    name: KeyName
    version: int
    purpose: KeyPurpose
    algorithm: str
    policy_digest: bytes
    enabled: bool
    created_at: datetime
    wrapped: Wrapped
    version_enabled: bool = True
    overlap_until: datetime | None = None
    destroy_at: datetime | None = None
    disclosure: Disclosure = DEFAULT_DISCLOSURE
    lease_seconds: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether no other version took its place; a key has exactly one such version."""
        return self.overlap_until is None

    @property
    def is_destroyed(self) -> bool:
        """Whether its material is gone for good."""
        return self.destroy_at is not None and not self.wrapped.content

    @property
    def context(self) -> WrapContext:
        """What the wrapped form must be tied to."""
        return WrapContext(
            tenant=self.name.tenant,
            key_id=self.name.key_id,
            version=self.version,
            purpose=self.purpose,
            algorithm=self.algorithm,
            policy_digest=self.policy_digest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapContext:
    """Everything that a wrapped key is tied to, so that two wrapped keys cannot be swapped (MC-28).

    Attributes:
        tenant: whose key it is.
        key_id: its name.
        version: from 1.
        purpose: what it is for.
        algorithm: what the material is.
        policy_digest: the policy, 32 bytes; None for the service's own keys.
    """

    tenant: str
    key_id: str
    version: int
    purpose: str
    algorithm: str
    policy_digest: bytes | None

    def associated_data(self) -> bytes:
        """Return the canonical CBOR that is authenticated with the wrapped key."""
        return cbor_bytes(
            (_FORMAT, self.tenant, self.key_id, self.version, self.purpose, self.algorithm, self.policy_digest)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationSchedule:
    """That a key gets a new version by itself.

    Attributes:
        name: which key.
        every: how long after one rotation the next is due.
        overlap: how long the version before is still released to who asks for it by its number.
        due_at: when the next rotation is due.
    """

    name: KeyName
    every: timedelta
    overlap: timedelta
    due_at: datetime

    def __post_init__(self) -> None:
        """Refuse lengths of time that make no schedule.

        Raises:
            ValueError: it would never end, or overlap with the version after the next.
        """
        if not timedelta(0) <= self.overlap <= self.every or self.every < timedelta(seconds=1):
            msg = "a key overlaps with the version after it, and not with more"
            raise ValueError(msg)
