"""Lease rules: reasons against a release from the leases it would renew and from operators' stops.

A renewal is an ordinary release under the current policy and on fresh evidence; a lease grants no access. It can only
refuse: a request that names a lease must come from its holder, and a stop applies even if no lease is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from attest.release import KeyName
from kms.domain.decide import DenialReason
from kms.domain.leases import Attester, LeaseState, LeaseStop


def lease_objections(
    *,
    renews: Iterable[str],
    states: Mapping[str, LeaseState],
    stops: Iterable[LeaseStop],
    requested: Iterable[KeyName],
    attester: Attester,
    at: datetime,
) -> tuple[DenialReason, ...]:
    """List every reason against; ``stops`` are those of the requested keys for this image on this machine."""
    names = frozenset(requested)
    named = (_about(lease_id, states.get(lease_id), requested=names, attester=attester, at=at) for lease_id in renews)
    return (*(reason for reason in named if reason is not None), *_stopped(stops))


def _about(
    lease_id: str, state: LeaseState | None, *, requested: Iterable[KeyName], attester: Attester, at: datetime
) -> DenialReason | None:
    """Return the first reason against renewing a lease. Leases of other tenants count as unknown."""
    if state is None or state.lease.name.tenant not in {name.tenant for name in requested}:
        return DenialReason(code="lease-unknown", key_id=None, text=f"there is no lease {lease_id}")
    lease = state.lease
    if lease.name not in requested:
        text = f"the lease {lease_id} is for a key that is not requested"
        return DenialReason(code="lease-of-another-key", key_id=None, text=text)
    # Machine, image and key must match the lease, so that a copied id is useless elsewhere.
    if lease.holder != attester.holder:
        code, problem = "lease-of-another-holder", "belongs to a different machine, image or recipient key"
    elif state.end is not None:
        code, problem = "lease-ended", f"has ended: {state.end.reason}"
    elif lease.expired(at):
        code, problem = "lease-expired", f"expired at {lease.until}; request the key again"
    else:
        return None
    return DenialReason(code=code, key_id=str(lease.name), text=f"the lease {lease_id} {problem}")


def _stopped(stops: Iterable[LeaseStop]) -> Iterator[DenialReason]:
    for stop in stops:
        text = f"the key {str(stop.name)!r} is no longer released to this machine with this image: {stop.reason}"
        yield DenialReason(code="lease-stopped", key_id=str(stop.name), text=text)
