"""A released key, in the clear, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from attest.release.padded_secret import SECRET_PURPOSE
from attest.release.sealed_key import WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedKey:
    """A key in the clear. Its repr omits the material, and it cannot be pickled.

    Attributes:
        policy_digest: SHA-256 of the policy under which it was released.
        receipt: the service's signed receipt, to keep.
        entry: the decision's log entry.
        proof: of the entry's inclusion in the log.
        released_at: start of the lease, by the service's clock.
        expires_at: end of the lease, by the service's clock; attest again before it.
        recipient: the one-time key that it was sealed to, presented again at renewal.
    """

    tenant: str
    key_id: str
    version: int
    purpose: str
    policy_digest: bytes
    receipt: str
    entry: bytes
    proof: str
    material: bytes
    lease_id: str
    released_at: datetime
    expires_at: datetime
    recipient: WorkloadKey

    def __repr__(self) -> str:
        name = f"tenant={self.tenant!r}, key_id={self.key_id!r}, version={self.version}"
        return f"ReleasedKey({name}, material={shown_size(self.purpose, self.material)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ReleasedKey does not leave its process")


def shown_size(purpose: str, material: bytes | bytearray) -> str:
    """Return the text for material in a repr: its size, and nothing for a secret, whose size is confidential."""
    return "<secret>" if purpose == SECRET_PURPOSE else f"<{len(material)} bytes>"
