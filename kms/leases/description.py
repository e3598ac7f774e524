"""A lease for programs."""

from __future__ import annotations

from datetime import datetime

from attest.encoding import JsonValue, rfc3339_text
from kms.leases.search import Affected


def lease_members(one: Affected, *, at: datetime) -> dict[str, JsonValue]:
    """Return a lease, what became of it, and how it is concerned."""
    lease, stop, end = one.state.lease, one.state.stop, one.state.end
    return {
        "lease_id": lease.lease_id,
        "tenant": lease.name.tenant,
        "key_id": lease.name.key_id,
        "key": str(lease.name),
        "version": lease.version,
        "state": one.state.word(at),
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
        "why": list(one.why),
    }
