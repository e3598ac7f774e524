"""Break-glass: one named relaxation for one key, until a moment, by a quorum. What it does is a pure function.

Two relaxations exist: one freeze does not count for the key, or another policy document judges for it. Neither lets a
workload through that was not attested, and nothing else of the service is relaxed: not limits, not a disabled key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, cast

import rfc8785

from attest.encoding import JsonValue, rfc3339_text
from attest.release import KeyName
from kms.domain.decide import KeyState, OpenGlass
from kms.domain.freezes import Freeze, Target
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.lease_grants import Granted

__all__ = [
    "Glass",
    "counting_freezes",
    "glass_context",
    "glass_members",
    "glass_state",
    "judging_policy",
    "open_glass_of",
    "within_glass",
]

_PURPOSE: Final = "break-glass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glass:
    """One relaxation, as it was opened. Exactly one of ``lifts`` and ``policy_digest`` is there.

    Attributes:
        number: from 1.
        key: for which key.
        lifts: the freeze that does not count for it; or None.
        policy_digest: SHA-256 of the policy that judges for it, 32 bytes; or None.
        reason: why, in the words of whoever proposed it.
        opened_at: when; whole milliseconds, UTC.
        until: the first moment at which it no longer counts; whole milliseconds, UTC.
        seal: wrapped under the key-encryption key and tied to all of this but the number and ``opened_at``: so nobody
            opens one by writing to the database.
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
        """Say whether it is open: ``opened_at <= at < until``."""
        return self.opened_at <= at < self.until

    @property
    def relaxation(self) -> str:
        """What it relaxes, for people and the log."""
        if self.lifts is not None:
            return f"thaw {self.lifts}"
        return f"policy {(self.policy_digest or b'').hex()}"

    def members(self) -> dict[str, JsonValue]:
        """Return everything that the seal is tied to."""
        return glass_members(
            self.key, lifts=self.lifts, policy_digest=self.policy_digest, reason=self.reason, until=self.until
        )


def glass_members(
    key: KeyName, *, lifts: Target | None, policy_digest: bytes | None, reason: str, until: datetime
) -> dict[str, JsonValue]:
    """Return what a relaxation is, before it has a number."""
    return {
        "tenant": key.tenant,
        "key_id": key.key_id,
        "lifts": None if lifts is None else {"scope": str(lifts.scope), "name": lifts.name},
        "policy_sha256": None if policy_digest is None else policy_digest.hex(),
        "reason": reason,
        "until": rfc3339_text(until),
    }


def glass_context(key: KeyName, members: dict[str, JsonValue]) -> WrapContext:
    """Return what the seal of a relaxation is tied to."""
    digest = sha256(rfc8785.dumps(cast("dict[str, Any]", members))).digest()  # Any: JSON, as annotated
    return WrapContext(
        tenant=key.tenant,
        key_id=key.key_id,
        version=1,
        purpose=_PURPOSE,
        algorithm="seal",
        policy_digest=digest,
    )


def glass_state(one: Glass, closed: datetime | None, *, sealed: bool, at: datetime) -> str:
    """Say how a relaxation stands.

    Args:
        one: the relaxation.
        closed: when it was closed early, or None.
        sealed: whether the service itself opened it.
        at: the moment.
    """
    if closed is not None:
        return "closed"
    if at >= one.until:
        return "expired"
    return "OPEN" if sealed else "void"


def counting_freezes(freezes: Iterable[Freeze], glasses: Iterable[Glass]) -> tuple[Freeze, ...]:
    """Return the freezes that count for a key whose open relaxations these are.

    A relaxation lifts the freeze that its approvers read. One of the same thing that was made after it was opened is
    another freeze, and counts.
    """
    lifted = {one.lifts: one.opened_at for one in glasses if one.lifts is not None}
    return tuple(one for one in freezes if one.target not in lifted or one.frozen_at > lifted[one.target])


def judging_policy(digest: bytes, glasses: Iterable[Glass]) -> bytes:
    """Return the digest of the policy that judges for a key: its own, or that of an open relaxation."""
    return next((one.policy_digest for one in glasses if one.policy_digest is not None), digest)


def open_glass_of(glasses: Iterable[Glass]) -> tuple[OpenGlass, ...]:
    """Return what a decision says of the relaxations that it was made under."""
    return tuple(OpenGlass(number=one.number, relaxation=one.relaxation, until=one.until) for one in glasses)


def within_glass(granted: Granted, keys: Iterable[KeyState]) -> Granted:
    """End leases with the relaxation that they were granted under: nobody is promised anything beyond it."""
    ends = {state.asked: min(one.until for one in state.break_glass) for state in keys if state.break_glass}
    leases = {
        asked: replace(lease, expires_at=min(lease.expires_at, ends[asked])) if asked in ends else lease
        for asked, lease in granted.leases.items()
    }
    return replace(granted, leases=leases)
