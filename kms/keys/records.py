"""What a key is called, and what its wrapped form is tied to."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import cbor_bytes
from attest.release import DEFAULT_TENANT, KeyName, KeyReference

__all__ = [
    "DEFAULT_TENANT",
    "SYMMETRIC_256",
    "SYMMETRIC_KEY_BYTES",
    "KeyName",
    "KeyPurpose",
    "KeyRecord",
    "KeyReference",
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
        enabled: whether it may be released at all.
        created_at: when this version was made or imported, UTC.
        wrapped: the material, encrypted under a key-encryption key and tied to everything above but the state.
    """

    name: KeyName
    version: int
    purpose: KeyPurpose
    algorithm: str
    policy_digest: bytes
    enabled: bool
    created_at: datetime
    wrapped: Wrapped

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
