"""Granting leases: one for each released key, from the moment of the decision on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kms.domain.decide import KeyState
from kms.domain.kek import RandomBytes
from kms.domain.leases import LEASE_ID_BYTES, SUPERSEDED, Attester, Lease, LeaseEnd

__all__ = ["LONGEST_LEASE_SECONDS", "NOTHING_GRANTED", "SHORTEST_LEASE_SECONDS", "Granted", "LeaseIssuer"]

SHORTEST_LEASE_SECONDS: Final = 5
"""Long enough for a renewal that has to be tried twice; whoever wants to be obeyed sooner has no lease at all."""
LONGEST_LEASE_SECONDS: Final = 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What a release grants.

    Attributes:
        leases: by what was asked for.
        ends: of the leases that these take the place of.
    """

    leases: Mapping[str, Lease]
    ends: tuple[LeaseEnd, ...]


NOTHING_GRANTED: Final = Granted(leases={}, ends=())


class LeaseIssuer:
    """Makes leases; it keeps none.

    Args:
        lifetime_seconds: of the leases granted from now on.
        random: where their ids come from.
    """

    def __init__(self, *, lifetime_seconds: int, random: RandomBytes) -> None:
        """Keep what is needed to make them."""
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
        """Make a lease for each key of a release.

        It takes the place of what the holder has of the same version, and of what it names: who renews a lease after a
        rotation gets the new version for the old one.

        Args:
            keys: what is released.
            attester: to whom.
            evidence_digest: on what proof.
            log_seq: number of the decision's entry.
            held: the leases of these keys that the holder has.
            renews: the ids of those that are to be renewed.
            seconds: by what was asked for, how long a lease of that key lasts; None: as long as any other.
            at: the moment of the decision.
        """
        released = at.replace(microsecond=at.microsecond // 1000 * 1000)
        leases: dict[str, Lease] = {}
        ended: dict[str, LeaseEnd] = {}
        for key in keys:
            replaced = [
                one for one in held if one.name == key.name and (one.version == key.version or one.lease_id in renews)
            ]
            ended |= {
                one.lease_id: LeaseEnd(lease_id=one.lease_id, at=released, reason=SUPERSEDED, log_seq=log_seq)
                for one in replaced
            }
            leases[key.asked] = Lease(
                lease_id=self._random(LEASE_ID_BYTES).hex(),
                name=key.name,
                version=key.version,
                policy_digest=key.policy_digest,
                evidence_digest=evidence_digest,
                tee=attester.tee,
                product=attester.product,
                chip=attester.chip,
                measurement=attester.measurement,
                instance=attester.instance,
                holder=attester.holder,
                recipient=attester.recipient,
                gpus=attester.gpus,
                simulated=attester.simulated,
                claims_digest=attester.claims_digest,
                log_seq=log_seq,
                released_at=released,
                expires_at=released + timedelta(seconds=seconds[key.asked] or self._lifetime_seconds),
                renewed_from=replaced[-1].lease_id if replaced else None,
            )
        return Granted(leases=leases, ends=tuple(ended.values()))
