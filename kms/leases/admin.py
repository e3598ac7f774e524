"""Stopping renewals and taking that back. Each is one transaction with its entries of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.errors import KeyConflictError
from kms.domain.freezes import require_reason
from kms.domain.leases import LeaseFilter, LeaseStop
from kms.leases.affected import Concern
from kms.leases.search import Affected, find_leases
from kms.store import Store

RENEWALS_STOPPED: Final = "renewals-stopped"
RENEWALS_RESUMED: Final = "renewals-resumed"
_IDS_IN_ENTRY: Final = 500
"""An entry of the log has at most 48 KiB; what concerns more leases is several entries of one transaction."""


def stop_renewals(
    store: Store,
    wanted: LeaseFilter,
    *,
    concerns: Sequence[Concern],
    reason: str,
    actor: Actor,
    at: datetime,
) -> tuple[Affected, ...]:
    """Refuse the renewal of every lease that is found, and the release of its key to its instance.

    What is concerned is found in the transaction that stops it, so that a renewal in between changes nothing.

    Returns:
        The leases that were stopped; those that were stopped already are not among them.

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
            tx.leases.add_stops(
                [
                    LeaseStop(
                        lease_id=one.state.lease.lease_id,
                        name=one.state.lease.name,
                        instance=one.state.lease.instance,
                        reason=why,
                        at=at,
                        log_seq=entry.seq,
                    )
                    for one in page
                ]
            )
    return tuple(found)


def resume_renewals(store: Store, lease_ids: Sequence[str], *, reason: str, actor: Actor, at: datetime) -> None:
    """Take stops back: of a machine that was mended, or of a mistake.

    Raises:
        ConfigurationError: ``reason-invalid``.
        KeyConflictError: ``lease-not-stopped``: one of them has no stop; none is taken back then.
        UnavailableError: the database is in use.
    """
    why = require_reason(reason)
    with store.writing() as tx:
        states = tx.leases.states(lease_ids)
        for lease_id in lease_ids:
            if lease_id not in states or states[lease_id].stop is None:
                raise KeyConflictError(
                    f"no stop stands against the lease {lease_id[:40]!r}",
                    code="lease-not-stopped",
                    field=lease_id[:40],
                    hint="'kms releases list --stopped' shows those that are stopped",
                )
        for start in range(0, len(lease_ids), _IDS_IN_ENTRY):
            page: list[JsonValue] = list(lease_ids[start : start + _IDS_IN_ENTRY])
            body: dict[str, JsonValue] = {"leases": page, "reason": why, "actor": actor.members()}
            tx.log.add(kind=RENEWALS_RESUMED, at=at, body=body)
        tx.leases.remove_stops(lease_ids)
