"""Leases of the replay.

Decisions and leases are compared page by page in the order of the log, so that memory does not grow with either: it
holds one page, the stored ends whose entry comes later, and the stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

from attest.encoding import JsonValue
from kms.domain.leases import Lease, LeaseFilter, LeaseState
from kms.leases.admin import RENEWALS_RESUMED, RENEWALS_STOPPED
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.store import ReadTransaction
from kms.store.lease_tables import lease_stops

_ANY: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -(2**63)
_IDS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class _Grant:
    """A lease according to its log entry; ``digest`` is None for an older entry."""

    seq: int
    stated: list[JsonValue]
    digest: JsonValue
    ended: tuple[str, ...]


class LeasePages:
    """Comparison of the leases and their early ends with the decisions, page by page."""

    check: Final = "leases"

    def __init__(self) -> None:
        self.looked_at = 0
        self._next = _FIRST
        self._granted: dict[str, _Grant] = {}
        self._omitted: set[int] = set()
        self._older: set[int] = set()
        self._ends: dict[str, int] = {}

    def note(self, entry: ReplayedEntry) -> None:
        """Record the leases that a decision grants and ends."""
        granted = _granted(entry)
        self._granted |= granted
        if not isinstance(entry.members.get("keys"), list):
            self._omitted.add(entry.seq)  # too long: it has only their digest
        if None in {one.digest for one in granted.values()}:
            self._older.add(entry.seq)  # it does not name all leases that it ends

    def compared(self, tx: ReadTransaction, *, until: int) -> Iterator[str]:
        """Yield a line for each difference in the page of entries up to this one, and start the next page.

        Raises:
            IntegrityError: ``lease-record-invalid``; the rest of the page is not compared.
        """
        granted, omitted, older, first = self._granted, self._omitted, self._older, self._next
        self._granted, self._omitted, self._older, self._next = {}, set(), set(), until + 1
        named = {one: grant.seq for grant in granted.values() for one in grant.ended}
        rows = tx.leases.pages(LeaseFilter(live=None), at=_ANY, after=(first, ""))
        for state in takewhile(lambda one: one.lease.log_seq <= until, rows):
            self.looked_at += 1
            if state.end is not None:
                self._ends[state.lease.lease_id] = state.end.log_seq
            grant = granted.pop(state.lease.lease_id, None)
            if grant is not None or state.lease.log_seq not in omitted:
                yield from _of_row(state.lease, grant)
        for lease_id, grant in granted.items():
            yield f"lease {lease_id}: missing in the database, granted by entry {grant.seq} of the log"
        yield from self._ended(tx, named, omitted | older, until)

    def _ended(self, tx: ReadTransaction, named: Mapping[str, int], short: set[int], until: int) -> Iterator[str]:
        for lease_id, state in _states(tx, [*named]).items():
            self._ends.pop(lease_id, None)
            yield from _of_end(state, named[lease_id])
        for lease_id, seq in [one for one in self._ends.items() if one[1] <= until]:
            del self._ends[lease_id]
            if seq not in short:
                yield f"lease {lease_id}: ended in the database, but not by entry {seq} of the log"

    def finished(self, tx: ReadTransaction) -> Iterator[str]:
        """Yield a line for each lease and each end that names an entry after the newest."""
        for state in tx.leases.pages(LeaseFilter(live=None), at=_ANY, after=(self._next, "")):
            yield from _of_row(state.lease, None)
        for lease_id, seq in self._ends.items():
            yield f"lease {lease_id}: ended in the database, but the log has no entry {seq}"
        self._ends.clear()


def _states(tx: ReadTransaction, lease_ids: Sequence[str]) -> dict[str, LeaseState]:
    found: dict[str, LeaseState] = {}
    for start in range(0, len(lease_ids), _IDS_AT_ONCE):
        found |= tx.leases.states(lease_ids[start : start + _IDS_AT_ONCE])
    return found


def _of_row(lease: Lease, grant: _Grant | None) -> Iterator[str]:
    if grant is None:
        yield f"lease {lease.lease_id}: in the database, but not granted by entry {lease.log_seq} of the log"
    elif grant.seq != lease.log_seq or grant.stated != _stated(lease) or grant.digest not in {None, lease.digest.hex()}:
        yield f"lease {lease.lease_id}: differs from entry {grant.seq} of the log [lease-record-invalid]"


def _of_end(state: LeaseState, seq: int) -> Iterator[str]:
    if state.end is None:
        yield f"lease {state.lease.lease_id}: live in the database, ended by entry {seq} of the log"
    elif state.end.log_seq != seq:
        yield f"lease {state.lease.lease_id}: ended by entry {state.end.log_seq} in the database, by {seq} in the log"


def _granted(entry: ReplayedEntry) -> dict[str, _Grant]:
    """Return the leases that a decision grants, by id."""
    found: dict[str, _Grant] = {}
    keys = entry.members.get("keys")
    for key in keys if isinstance(keys, list) else ():
        lease = key.get("lease") if isinstance(key, dict) else None
        if isinstance(key, dict) and isinstance(lease, dict):
            stated = [
                *map(key.get, ("tenant", "key_id", "version", "policy_sha256")),
                *map(lease.get, ("expires_at", "renewed_from")),
                *map(entry.members.get, ("evidence_sha384", "recipient_sha256")),
            ]
            ended = lease.get("ended")
            names = ended if isinstance(ended, list) else [lease.get("renewed_from")]
            found[str(lease.get("id"))] = _Grant(
                entry.seq, stated, lease.get("sha256"), tuple(str(one) for one in names if one is not None)
            )
    return found


def _stated(lease: Lease) -> list[JsonValue]:
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


class RenewalStops(Noun):
    """Stops of renewals in force."""

    check = LeasePages.check

    def _rules(self) -> Mapping[str, Rule]:
        return {RENEWALS_STOPPED: self._stopped, RENEWALS_RESUMED: self._resumed}

    def _stopped(self, entry: ReplayedEntry) -> None:
        for one in entry.elements("leases"):
            self.make(_stop(one), entry, reason=entry.text("reason"), entry=str(entry.seq), of_the_lease=True)

    def _resumed(self, entry: ReplayedEntry) -> None:
        for one in entry.elements("leases"):
            self.end(_stop(one), entry)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        """Iterate over the stops; key and instance must match the lease."""
        rows = list(tx.tables.rows(lease_stops))
        states = _states(tx, [str(row["lease_id"]) for row in rows])
        for row in rows:
            found = states.get(str(row["lease_id"]))
            lease = None if found is None else (found.lease.name.tenant, found.lease.name.key_id, found.lease.instance)
            same = lease == (row["tenant"], row["key_id"], row["instance"])
            said: dict[str, JsonValue] = {
                "reason": str(row["reason"]),
                "entry": str(row["log_seq"]),
                "of_the_lease": same,
            }
            yield _stop(str(row["lease_id"])), said


def _stop(lease_id: JsonValue) -> str:
    return f"stop of the renewals of lease {lease_id}"
