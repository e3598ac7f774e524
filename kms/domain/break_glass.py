"""Break-glass: one named relaxation for one key, for a limited time, approved by a quorum. Pure functions.

Two relaxations exist: one freeze is lifted for the key, or another policy document replaces its own. Attestation,
limits and disabled keys are never relaxed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue, rfc3339_text
from attest.release import KeyName
from kms.domain.canonical_json import canonical_json
from kms.domain.decide import KeyState
from kms.domain.freezes import Freeze, Target
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.lease_grants import Granted


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakGlass:
    """One relaxation, as it was opened. Exactly one of ``lifts`` and ``policy_digest`` is set.

    Attributes:
        number: from 1.
        lifts: the freeze that it lifts for the key, or None.
        policy_digest: SHA-256 of the policy that replaces the key's own, 32 bytes, or None.
        opened_at: whole milliseconds, UTC.
        until: end of its validity, excluded; whole milliseconds, UTC.
        seal: wrapped under the key-encryption key and bound to all of this but the number and ``opened_at``, so that
            write access to the database is not enough to open one.
    """

    number: int
    key: KeyName
    lifts: Target | None
    policy_digest: bytes | None
    reason: str
    opened_at: datetime
    until: datetime
    seal: Wrapped

    def counts(self, at: datetime) -> bool:
        """Return True if it is open: ``opened_at <= at < until``."""
        return self.opened_at <= at < self.until

    @property
    def relaxation(self) -> str:
        """The relaxation in words, for display and the log."""
        if self.lifts is not None:
            return f"thaw {self.lifts}"
        return f"policy {(self.policy_digest or b'').hex()}"

    def members(self) -> dict[str, JsonValue]:
        """Return everything that the seal is bound to."""
        return glass_members(
            self.key, lifts=self.lifts, policy_digest=self.policy_digest, reason=self.reason, until=self.until
        )


def glass_members(
    key: KeyName, *, lifts: Target | None, policy_digest: bytes | None, reason: str, until: datetime
) -> dict[str, JsonValue]:
    """Return the members of a relaxation that has no number yet."""
    return {
        "tenant": key.tenant,
        "key_id": key.key_id,
        "lifts": None if lifts is None else {"scope": str(lifts.scope), "name": lifts.name},
        "policy_sha256": None if policy_digest is None else policy_digest.hex(),
        "reason": reason,
        "until": rfc3339_text(until),
    }


def glass_context(key: KeyName, members: dict[str, JsonValue]) -> WrapContext:
    """Return the context that the seal of a relaxation is bound to."""
    return WrapContext(
        tenant=key.tenant,
        key_id=key.key_id,
        version=1,
        purpose="break-glass",
        algorithm="seal",
        policy_digest=sha256(canonical_json(members)).digest(),
    )


def glass_state(one: BreakGlass, closed: datetime | None, *, sealed: bool, at: datetime) -> str:
    """Return the state of a relaxation that was closed early at ``closed``, and sealed by the service itself or not."""
    if closed is not None:
        return "closed"
    if at >= one.until:
        return "expired"
    return "OPEN" if sealed else "void"


def counting_freezes(freezes: Iterable[Freeze], relaxations: Iterable[BreakGlass]) -> tuple[Freeze, ...]:
    """Return the freezes in force for a key with these open relaxations.

    A relaxation lifts the freeze that its approvers read. A freeze of the same target made after the relaxation was
    opened is another one and stays in force.
    """
    lifted = {one.lifts: one.opened_at for one in relaxations if one.lifts is not None}
    return tuple(one for one in freezes if one.target not in lifted or one.frozen_at > lifted[one.target])


def policy_in_force(digest: bytes, relaxations: Iterable[BreakGlass]) -> bytes:
    """Return the digest of the policy in force for a key: its own, or that of an open relaxation."""
    return next((one.policy_digest for one in relaxations if one.policy_digest is not None), digest)


def limited_leases(granted: Granted, keys: Iterable[KeyState]) -> Granted:
    """End leases no later than the relaxation under which they were granted."""
    ends = {state.asked: min(one.until for one in state.break_glass) for state in keys if state.break_glass}
    leases = {
        asked: replace(lease, expires_at=min(lease.expires_at, ends[asked])) if asked in ends else lease
        for asked, lease in granted.leases.items()
    }
    return replace(granted, leases=leases)
