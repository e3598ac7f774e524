"""A key that a service released, in the clear, in this process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from attest.release.sealed_key import WorkloadKey

__all__ = ["ReleasedKey"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedKey:
    """A key in the clear, in this process. Its repr never shows it, and it cannot be pickled.

    Attributes:
        tenant: whose key it is.
        key_id: which of the tenant's keys.
        version: which version of it.
        purpose: what it is for.
        policy_digest: SHA-256 of the policy under which it was released.
        receipt: the service's signed receipt, to keep.
        entry: the decision's entry of the service's log.
        proof: that the log holds it, to keep with the entry.
        material: the key.
        lease_id: names the lease, to renew it.
        released_at: when the lease began, by the service's clock.
        expires_at: when the lease ends, by the service's clock; attest again before it.
        recipient: the one-time key that it was sealed to: whoever renews the lease shows it again.
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
        """Name the key and nothing of its material."""
        who = f"tenant={self.tenant!r}, key_id={self.key_id!r}, version={self.version}"
        return f"ReleasedKey({who}, material=<{len(self.material)} bytes>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to leave the process."""
        msg = "a ReleasedKey does not leave its process"
        raise TypeError(msg)
