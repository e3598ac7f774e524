"""Search of leases: by key, holder, time, and by advisories or policies that concern them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial

from attest.encoding import JsonValue, rfc3339_text
from attest.release import KeyName
from kms.domain.attesters import instance_of
from kms.domain.errors import IntegrityError
from kms.domain.lease_claims import KeptClaims, is_passport, read_claims
from kms.domain.leases import Attester, LeaseFilter, LeaseState, LeaseStop
from kms.leases.affected import Concern
from kms.store import ReadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """A found lease.

    ``why`` has the reasons why it is concerned, a line each; none for a search without concerns.
    """

    state: LeaseState
    why: tuple[str, ...]

    def members(self, *, at: datetime) -> dict[str, JsonValue]:
        """Return it as JSON members, with its state at a moment."""
        lease, stop, end = self.state.lease, self.state.stop, self.state.end
        return {
            "lease_id": lease.lease_id,
            "tenant": lease.name.tenant,
            "key_id": lease.name.key_id,
            "key": str(lease.name),
            "version": lease.version,
            "state": self.state.word(at),
            "tee": lease.tee,
            "product": lease.product,
            "chip": lease.chip,
            "measurement": None if lease.measurement is None else lease.measurement.hex(),
            "gpus": lease.gpus,
            "simulated": lease.simulated,
            "instance": lease.instance.hex(),
            "holder": lease.holder.hex(),
            "recipient_sha256": lease.recipient.hex(),
            "evidence_sha384": lease.evidence_digest.hex(),
            "policy_sha256": lease.policy_digest.hex(),
            "claims_sha256": lease.claims_digest.hex(),
            "entry": lease.log_seq,
            "released_at": rfc3339_text(lease.released_at),
            "expires_at": lease.until,
            "renewed_from": lease.renewed_from,
            "ended_at": None if end is None else rfc3339_text(end.at),
            "end_reason": None if end is None else end.reason,
            "stopped_at": None if stop is None else rfc3339_text(stop.at),
            "stop_reason": None if stop is None else stop.reason,
            "why": list(self.why),
        }


def find_leases(
    tx: ReadTransaction,
    wanted: LeaseFilter,
    *,
    concerns: Sequence[Concern],
    at: datetime,
    after: tuple[int, str] = (0, ""),
) -> Iterator[Affected]:
    """Iterate over leases in the order in which they were granted, after the log entry and id of ``after``.

    One of the concerns suffices; without any, every wanted lease is found.

    Raises:
        IntegrityError: ``lease-record-invalid`` or ``lease-claims-invalid``.
    """
    claims = cache(partial(_claims, tx))
    for state in tx.leases.pages(wanted, at=at, after=after):
        lease = state.lease
        why = tuple(line for concern in concerns for line in concern(lease, claims(lease.claims_digest)))
        if why or not concerns:
            yield Affected(state=state, why=why)


def standing_stops(tx: ReadTransaction, names: Iterable[KeyName], *, attester: Attester) -> tuple[LeaseStop, ...]:
    """Return the stops of these keys that concern this Attester, or may.

    A host chooses whether to mask the chip's id. A host that masks it may be any stopped machine with this image, and a
    lease that was stopped while it was masked may be of any machine with this image.
    """
    if is_passport(attester.tee):  # it states neither machine nor image
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
