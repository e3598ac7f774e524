"""A key-encryption key as the database knows it: never the key, only which one it is and how that is proven."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue
from kms.domain.keys import WrapContext

__all__ = ["Backend", "KekRecord", "KekState", "proof_content", "proof_context"]

_PROOF_DOMAIN = b"attest kms kek proof v1\0"


class Backend(enum.StrEnum):
    """What holds a key-encryption key."""

    FILE = "file"
    PKCS11 = "pkcs11"
    TRANSIT = "transit"


class KekState(enum.StrEnum):
    """What a key-encryption key is used for. Exactly one of a database is ``ENTERING`` or ``ACTIVE``."""

    READY = "ready"
    """Known, and nothing is wrapped under it yet."""
    ENTERING = "entering"
    """It wraps what is new, and what others wrap is on its way to it."""
    ACTIVE = "active"
    """It wraps what is new."""
    LEAVING = "leaving"
    """It opens what is still wrapped under it."""
    RETIRED = "retired"
    """Nothing is wrapped under it any more, and nothing will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KekRecord:
    """One key-encryption key.

    Attributes:
        id: 32 bytes; of a file derived from the key, otherwise random.
        backend: what holds it.
        description: where it is, for people; nothing is looked for there.
        state: what it is used for.
        proof: ``proof_content`` wrapped under it, which nothing but the same key opens; None where the id is derived.
        created_at: since when the database knows it, UTC.
    """

    id: bytes
    backend: Backend
    description: str
    state: KekState
    proof: bytes | None
    created_at: datetime

    @property
    def short_id(self) -> str:
        """Enough of the id to tell it from the others."""
        return self.id.hex()[:16]

    def members(self) -> dict[str, JsonValue]:
        """Return how an entry of the log names it."""
        return {"id": self.id.hex(), "backend": str(self.backend)}

    @property
    def wraps(self) -> bool:
        """Whether what is new is wrapped under it."""
        return self.state in {KekState.ENTERING, KekState.ACTIVE}


def proof_content(kek_id: bytes) -> bytes:
    """Return what a proof wraps, 32 bytes; it is no secret."""
    return sha256(_PROOF_DOMAIN + kek_id).digest()


def proof_context(kek_id: bytes) -> WrapContext:
    """Return what a proof is tied to; no key has this purpose."""
    return WrapContext(tenant="", key_id="", version=1, purpose="kek-proof", algorithm="sha-256", policy_digest=kek_id)
