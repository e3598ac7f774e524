"""Database records of key-encryption keys: identifier, location and proof, never the key itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue
from kms.domain.keys import WrapContext

_PROOF_DOMAIN = b"attest kms kek proof v1\0"


class Backend(enum.StrEnum):
    """Kind of store that holds a key-encryption key."""

    FILE = "file"
    PKCS11 = "pkcs11"
    TRANSIT = "transit"


class KekState(enum.StrEnum):
    """Use of a key-encryption key. Exactly one in a database is ``ENTERING`` or ``ACTIVE``."""

    READY = "ready"
    """Registered; no secret is wrapped under it yet."""
    ENTERING = "entering"
    """Wraps new secrets, while existing secrets are being re-wrapped under it."""
    ACTIVE = "active"
    """Wraps new secrets."""
    LEAVING = "leaving"
    """Opens the secrets that are still wrapped under it."""
    RETIRED = "retired"
    """No secret is wrapped under it, nor will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KekRecord:
    """One key-encryption key.

    Attributes:
        id: 32 bytes; of a file derived from the key, otherwise random.
        description: its location, for display only.
        proof: ``proof_content`` wrapped under it, which nothing but the same key opens; None where the id is derived.
    """

    id: bytes
    backend: Backend
    description: str
    state: KekState
    proof: bytes | None
    created_at: datetime

    @property
    def short_id(self) -> str:
        """A prefix of the id, for display."""
        return self.id.hex()[:16]

    def members(self) -> dict[str, JsonValue]:
        """Return the members of a log entry."""
        return {"id": self.id.hex(), "backend": str(self.backend)}

    @property
    def wraps(self) -> bool:
        """True if new secrets are wrapped under it."""
        return self.state in {KekState.ENTERING, KekState.ACTIVE}


def proof_content(kek_id: bytes) -> bytes:
    """Return the content of a proof, 32 bytes; not secret."""
    return sha256(_PROOF_DOMAIN + kek_id).digest()


def proof_context(kek_id: bytes) -> WrapContext:
    """Return the context of a proof; no key has this purpose."""
    return WrapContext(tenant="", key_id="", version=1, purpose="kek-proof", algorithm="sha-256", policy_digest=kek_id)
