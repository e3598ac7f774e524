"""Grants of leases: one for each released key, from the moment of the decision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kms.domain.decide import KeyState
from kms.domain.kek import RandomBytes
from kms.domain.leases import LEASE_ID_BYTES, SUPERSEDED, Attester, Lease, LeaseEnd

SHORTEST_LEASE_SECONDS: Final = 5
"""Long enough to retry a renewal once."""
LONGEST_LEASE_SECONDS: Final = 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The leases that a release grants, by requested key, and the ends of those that they replace.

    ``replaced`` has the ids of these by requested key.
    """

    leases: Mapping[str, Lease]
    ends: tuple[LeaseEnd, ...]
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


NOTHING_GRANTED: Final = Granted(leases={}, ends=())


class LeaseIssuer:
    """Factory of leases with a default lifetime; it stores none. ``random`` is the source of their ids."""

    def __init__(self, *, lifetime_seconds: int, random: RandomBytes) -> None:
        self._lifetime_seconds = lifetime_seconds
        self._random = random

    def grant(
        self,
        *,
        keys: Iterable[KeyState],
        attester: Attester,
        evidence_digest: bytes,
        log_seq: int,
        held: Iterable[Lease],
        renews: Collection[str],
        seconds: Mapping[str, int | None],
        at: datetime,
    ) -> Granted:
        """Return a lease for each key of a release.

        It replaces the holder's lease of the same version and the leases that the request names: a renewal after a
        rotation exchanges the old version for the new one.

        ``log_seq`` is the number of the decision's entry, ``held`` the holder's leases of these keys, ``renews`` the
        ids of the leases to renew, and ``seconds`` the lifetime of leases by requested key; None is the default.
        """
        released = at.replace(microsecond=at.microsecond // 1000 * 1000)
        leases: dict[str, Lease] = {}
        ended: dict[str, LeaseEnd] = {}
        replaced_by: dict[str, tuple[str, ...]] = {}
        for key in keys:
            replaced = [
                one for one in held if one.name == key.name and (one.version == key.version or one.lease_id in renews)
            ]
            ended |= {
                one.lease_id: LeaseEnd(lease_id=one.lease_id, at=released, reason=SUPERSEDED, log_seq=log_seq)
                for one in replaced
            }
            replaced_by[key.asked] = tuple(one.lease_id for one in replaced)
            leases[key.asked] = Lease(
                **attester.identity(),
                lease_id=self._random(LEASE_ID_BYTES).hex(),
                name=key.name,
                version=key.version,
                policy_digest=key.policy_digest,
                evidence_digest=evidence_digest,
                log_seq=log_seq,
                released_at=released,
                expires_at=released + timedelta(seconds=seconds[key.asked] or self._lifetime_seconds),
                renewed_from=replaced[-1].lease_id if replaced else None,
            )
        return Granted(leases=leases, ends=tuple(ended.values()), replaced=replaced_by)
