"""Search of leases: by key, holder, time, and by what concerns them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from attest.release import KeyName
from kms.domain.attesters import instance_of
from kms.domain.errors import IntegrityError
from kms.domain.lease_claims import PASSPORT, KeptClaims, read_claims
from kms.domain.leases import Attester, LeaseFilter, LeaseState, LeaseStop
from kms.leases.affected import Concern
from kms.store import ReadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A lease that was asked for.

    Attributes:
        state: it, and what became of it.
        why: how it is concerned, a line each; none where nothing was asked but who holds it.
    """

    state: LeaseState
    why: tuple[str, ...]


def find_leases(
    tx: ReadTransaction,
    wanted: LeaseFilter,
    *,
    concerns: Sequence[Concern],
    at: datetime,
    after: tuple[int, str] = (0, ""),
) -> Iterator[Affected]:
    """Iterate over leases in the order in which they were granted.

    Args:
        tx: a transaction.
        wanted: which leases; all conditions hold.
        concerns: what may concern them; one suffices. Without any, every lease that is wanted is found.
        at: the moment for which leases are live or not.
        after: entry of the log and id behind which to begin.

    Raises:
        IntegrityError: ``lease-record-invalid`` or ``lease-claims-invalid``.
    """
    kept: dict[bytes, KeptClaims] = {}
    for state in tx.leases.pages(wanted, at=at, after=after):
        why: tuple[str, ...] = ()
        if concerns:
            digest = state.lease.claims_digest
            if digest not in kept:
                kept[digest] = _claims(tx, digest)
            why = tuple(line for concern in concerns for line in concern(state.lease, kept[digest]))
            if not why:
                continue
        yield Affected(state=state, why=why)


def standing_stops(tx: ReadTransaction, names: Iterable[KeyName], *, attester: Attester) -> tuple[LeaseStop, ...]:
    """Return the stops of these keys that stand against who asks, or may.

    A host chooses whether to mask the chip's id. So who masks it may be any machine with this image that was stopped;
    and what was stopped while it was masked may be any machine with this image.
    """
    if attester.tee == PASSPORT:  # nobody says on which machine, nor with which image
        return tx.leases.stops(names, instance=None)
    if attester.chip is None:
        return tx.leases.stops_of_image(names, tee=attester.tee, measurement=attester.measurement)
    masked = instance_of(tee=attester.tee, chip=None, measurement=attester.measurement)
    return tx.leases.stops(names, instance=attester.instance, also=masked)


def _claims(tx: ReadTransaction, digest: bytes) -> KeptClaims:
    content = tx.leases.claims(digest)
    if content is None:
        raise IntegrityError(
            f"the claims {digest.hex()} of a lease are missing", code="lease-claims-invalid", field="lease_claims"
        )
    return read_claims(content)
