"""Stopping and resuming renewals. Each is one transaction with its log entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.freezes import require_reason
from kms.domain.leases import Lease, LeaseFilter, LeaseStop
from kms.leases.affected import Concern
from kms.leases.search import Affected, find_leases
from kms.store import ReadTransaction, Store

RENEWALS_STOPPED: Final = "renewals-stopped"
RENEWALS_RESUMED: Final = "renewals-resumed"
_IDS_IN_ENTRY: Final = 500
"""A log entry has at most 48 KiB; a change of more leases is several entries of one transaction."""


def stop_renewals(
    store: Store, wanted: LeaseFilter, *, concerns: Sequence[Concern], reason: str, actor: Actor, at: datetime
) -> tuple[Affected, ...]:
    """Refuse the renewal of every lease that is found, and the release of its key to its instance.

    The search is in the same transaction, so that a renewal in between changes nothing. Leases that were stopped before
    are not returned.

    Raises:
        ConfigurationError: ``reason-invalid``.
        IntegrityError: as ``find_leases``.
        UnavailableError: the database is in use.
    """
    why = require_reason(reason)
    with store.writing() as tx:
        found = [one for one in find_leases(tx, wanted, concerns=concerns, at=at) if one.state.stop is None]
        for start in range(0, len(found), _IDS_IN_ENTRY):
            page = found[start : start + _IDS_IN_ENTRY]
            ids: list[JsonValue] = [one.state.lease.lease_id for one in page]
            body: dict[str, JsonValue] = {"leases": ids, "reason": why, "actor": actor.members()}
            entry = tx.log.add(kind=RENEWALS_STOPPED, at=at, body=body)
            tx.leases.add_stops([_stop(one.state.lease, reason=why, at=at, log_seq=entry.seq) for one in page])
    return tuple(found)


def _stop(lease: Lease, *, reason: str, at: datetime, log_seq: int) -> LeaseStop:
    return LeaseStop(
        lease_id=lease.lease_id, name=lease.name, instance=lease.instance, reason=reason, at=at, log_seq=log_seq
    )


def resume_renewals(store: Store, lease_ids: Sequence[str], *, reason: str, actor: Actor, at: datetime) -> None:
    """Remove stops, after a repair of the machine or a mistake.

    Raises:
        ConfigurationError: ``reason-invalid``.
        KeyConflictError: ``lease-not-stopped``: one of them has no stop; then none is removed.
        UnavailableError: the database is in use.
    """
    why = require_reason(reason)
    with store.writing() as tx:
        _require_stopped(tx, lease_ids)
        for start in range(0, len(lease_ids), _IDS_IN_ENTRY):
            page: list[JsonValue] = list(lease_ids[start : start + _IDS_IN_ENTRY])
            body: dict[str, JsonValue] = {"leases": page, "reason": why, "actor": actor.members()}
            tx.log.add(kind=RENEWALS_RESUMED, at=at, body=body)
        tx.leases.remove_stops(lease_ids)


def _require_stopped(tx: ReadTransaction, lease_ids: Sequence[str]) -> None:
    states = tx.leases.states(lease_ids)
    for lease_id in lease_ids:
        if lease_id not in states or states[lease_id].stop is None:
            raise KeyConflictError(
                f"the lease {lease_id[:40]!r} is not stopped",
                code="lease-not-stopped",
                field=lease_id[:40],
                hint="'kms releases list --stopped' lists stopped leases",
            )
