"""Audit of the stored leases against the log, and of their stored claims."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeAlias

from attest.encoding import JsonValue
from attest.errors import AttestError
from kms.domain.lease_claims import read_claims
from kms.domain.leases import Lease, LeaseFilter
from kms.store import ReadTransaction

_ANY = datetime(1970, 1, 1, tzinfo=UTC)
_Granted: TypeAlias = dict[str, JsonValue]


def lease_problems(tx: ReadTransaction, looked_at: list[str]) -> Iterator[str]:
    """Yield a line for each problem of a lease; ``looked_at`` takes the id of every lease.

    Raises:
        IntegrityError: ``lease-record-invalid``.
        LogBrokenError: an entry of the log cannot be read.
    """
    yield from _claims_problems(tx)
    seq = 0
    granted: _Granted | None = None
    for state in tx.leases.pages(LeaseFilter(live=None), at=_ANY):
        lease = state.lease
        looked_at.append(lease.lease_id)
        if lease.log_seq != seq:
            seq, granted = lease.log_seq, _granted(tx, lease.log_seq)
        # A log entry that would be too long has digests instead of its keys (``kms.domain.log_entries``).
        if granted is not None and granted.get(lease.lease_id) != _expected(lease):
            yield f"the lease {lease.lease_id} is not what entry {lease.log_seq} of the log says [lease-record-invalid]"


def _claims_problems(tx: ReadTransaction) -> Iterator[str]:
    for digest in tx.leases.claims_digests():
        content = tx.leases.claims(digest) or b""
        if sha256(content).digest() != digest:
            yield f"the claims {digest.hex()} are not what their digest says [lease-claims-invalid]"
            continue
        try:
            read_claims(content)
        except AttestError as exc:
            yield f"{exc.message} [{exc.code}]"


def _granted(tx: ReadTransaction, seq: int) -> _Granted | None:
    """Return the members of an entry about its leases, by their ids; None if the entry has digests instead."""
    found = _Granted()
    for entry in tx.log.entries(after=seq - 1, limit=1):
        document = entry.document()
        keys = document.get("keys")
        if isinstance(keys, dict):
            return None
        for key in keys if isinstance(keys, list) and entry.seq == seq else []:
            lease = key.get("lease") if isinstance(key, dict) else None
            if isinstance(key, dict) and isinstance(lease, dict):
                found[str(lease.get("id"))] = [
                    *map(key.get, ("tenant", "key_id", "version", "policy_sha256")),
                    *map(lease.get, ("expires_at", "renewed_from")),
                    *map(document.get, ("evidence_sha384", "recipient_sha256")),
                ]
    return found


def _expected(lease: Lease) -> JsonValue:
    return [
        lease.name.tenant,
        lease.name.key_id,
        lease.version,
        lease.policy_digest.hex(),
        lease.until,
        lease.renewed_from,
        lease.evidence_digest.hex(),
        lease.recipient.hex(),
    ]
