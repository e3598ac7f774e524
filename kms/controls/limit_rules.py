"""Limits of the requested keys, in the transaction of the decision, so that concurrent requests cannot exceed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from kms.domain.decide import DenialReason, KeyState
from kms.domain.devices import VerifiedDevices, device_chips
from kms.domain.keys import KeyName
from kms.domain.leases import Attester
from kms.domain.limits import NO_LIMITS, KeyLimits, Usage, UseRequest, limit_reasons
from kms.store import ReadTransaction


def limit_objections(
    tx: ReadTransaction,
    *,
    keys: Iterable[KeyState],
    attester: Attester,
    verified: Iterable[VerifiedDevices],
    at: datetime,
) -> Iterator[DenialReason]:
    """Yield the objections of the keys' limits to a release, in the transaction that stores its leases.

    ``verified`` is the evidence, once for each result.
    """
    states = tuple(keys)
    asked = Counter(state.name for state in states)
    limits = {name: tx.limits.in_force(name) for name in asked}
    if all(found == NO_LIMITS for found in limits.values()):
        return
    evidence = next(iter(verified), None)
    known = () if evidence is None else device_chips(evidence)
    # A GPU that the evidence counts without naming is an unknown device.
    devices = (*known, *[None] * max(0, attester.gpus - len(known)))
    for state in states:
        found = limits[state.name]
        if found != NO_LIMITS:
            usage = usage_of(tx, state.name, found, holder=attester.holder, chip=attester.chip, at=at)
            asking = UseRequest(cpu=attester.chip, devices=devices, versions=asked[state.name])
            yield from limit_reasons(found, asked=state.asked, asking=asking, usage=usage, at=at)


def usage_of(
    tx: ReadTransaction, name: KeyName, limits: KeyLimits, *, holder: bytes | None, chip: str | None, at: datetime
) -> Usage:
    """Count only what these limits bound; ``holder`` itself is not counted."""
    counted = limits.per_chip is not None and chip is not None
    return Usage(
        releases={one: tx.leases.counts.released(name, one, at=at) for one in limits.releases},
        other_holders=0 if limits.holders is None else tx.leases.counts.holders(name, at=at, beside=holder),
        to_chip=tx.leases.counts.released(name, limits.per_chip, at=at, chip=chip)
        if counted and limits.per_chip
        else 0,
    )
