"""Keys: names, stored records and the context to which their wrapped form is bound."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import JsonValue, cbor_bytes, rfc3339_text
from attest.release import DEFAULT_TENANT, SECRET_PURPOSE, KeyName, KeyReference
from kms.domain.wires import NATIVE_ONLY, Wire

__all__ = [
    "DEFAULT_DISCLOSURE",
    "DEFAULT_TENANT",
    "OPAQUE",
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
    "own_context",
]

SYMMETRIC_256 = "symmetric-256"
SYMMETRIC_KEY_BYTES = 32
OPAQUE = "opaque"
"""Algorithm of secrets: none, the service looks at nothing in them."""
_FORMAT = "kms-wrap/v1"


class KeyPurpose(enum.StrEnum):
    """Purpose of a key; a key of one purpose is never used for another."""

    MODEL_KEY = "model-key"
    PROMPT_KEY = "prompt-key"
    SECRET = SECRET_PURPOSE
    """An opaque value of its owner: a password, a URL, a token, a PEM."""
    SKR_OCT = "skr-oct"
    """A symmetric key of a vault, 1 to 64 bytes."""
    SKR_RSA = "skr-rsa"
    """An RSA key of a vault, as PKCS #8."""
    SKR_EC = "skr-ec"
    """A key of a vault on one of NIST's curves, as PKCS #8."""


class Disclosure(enum.StrEnum):
    """Detail of a refusal that a workload receives, from nothing to everything."""

    NONE = "none"
    """Nothing, not even that the key exists."""
    CODES = "codes"
    """The codes of the reasons."""
    CHECKS = "checks"
    """Also the ids of the failed checks of the policy."""
    FULL = "full"
    """Also expected and actual values, and every reason in words."""


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
        version: from 1.
        algorithm: algorithm of the material (``symmetric-256``: 32 bytes; ``opaque``: a padded secret).
        policy_digest: SHA-256 of the policy that a workload must meet, 32 bytes.
        enabled: False if no version of the key may be released.
        version_enabled: False if this version may not be released.
        overlap_until: end of its release after another version replaced it, excluded; None while it is the current
            version.
        destroy_at: scheduled destruction of its material, or None. It is not released once this is set.
        wrapped: the material, encrypted under a key-encryption key and bound to name, version, purpose, algorithm and
            policy; nothing once it is destroyed.
        lease_seconds: lifetime of its leases; None: the service's default.
        via: the protocols through which it may be released.
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
    via: frozenset[Wire] = NATIVE_ONLY

    @property
    def is_current(self) -> bool:
        """True for the current version; a key has exactly one."""
        return self.overlap_until is None

    @property
    def is_destroyed(self) -> bool:
        """True if its material is destroyed."""
        return self.destroy_at is not None and not self.wrapped.content

    @property
    def context(self) -> WrapContext:
        """The context to which the wrapped form must be bound."""
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
    """Context to which a wrapped key is bound, so that two wrapped keys cannot be swapped (MC-28).

    ``policy_digest`` has 32 bytes; it is None for the service's own keys.
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


def own_context(origin: str, name: str, algorithm: str) -> WrapContext:
    """Return the context to which one of the service's own keys is bound."""
    return WrapContext(
        tenant=origin, key_id=name, version=1, purpose="service", algorithm=algorithm, policy_digest=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationSchedule:
    """Automatic rotation of a key.

    Attributes:
        overlap: time for which the previous version is still released on request by its number.
    """

    name: KeyName
    every: timedelta
    overlap: timedelta
    due_at: datetime

    def __post_init__(self) -> None:
        """Refuse invalid intervals.

        Raises:
            ValueError: the interval is not positive, or the overlap would reach the version after the next.
        """
        if not timedelta(0) <= self.overlap <= self.every or self.every < timedelta(seconds=1):
            raise ValueError("the overlap must not reach the version after the next")

    def members(self) -> dict[str, JsonValue]:
        """Return it as JSON members, without the name."""
        return {
            "every_seconds": self.every // timedelta(seconds=1),
            "overlap_seconds": self.overlap // timedelta(seconds=1),
            "due_at": rfc3339_text(self.due_at),
        }
