"""Leases in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    true,
)

from attest.release import KeyName
from kms.domain.leases import Attester, Lease, LeaseEnd, LeaseFilter, LeaseState, LeaseStop
from kms.store.answers import require_answer
from kms.store.keys import of_key, stored_name
from kms.store.lease_counts import LeaseCountReader, LeaseCountRepository
from kms.store.lease_tables import lease_claims, lease_ends, lease_stops, leases, live_leases
from kms.store.repository import Repository, blob, readable, whole_number
from kms.store.state import State
from kms.store.state_rows import Values, whole_rows
from kms.store.timestamps import milliseconds, moment_of

_PAGE_ROWS = 500


class LeaseReader(Repository):
    """Leases in a reading transaction. A malformed record is an ``IntegrityError``, ``lease-record-invalid``."""

    def __init__(self, connection: Connection, state: State) -> None:
        super().__init__(connection, state)
        self._known_stops: dict[KeyName, Mapping[object, Values]] = {}

    def live_count(self, *, at: datetime) -> int:
        """Return the number of live leases of all keys."""
        live = live_leases.c.expires_at > milliseconds(at)
        return int(self._connection.execute(select(func.count()).select_from(live_leases).where(live)).scalar_one())

    @cached_property
    def counts(self) -> LeaseCountReader:
        """Numbers of releases and of holders."""
        return LeaseCountReader(self._connection, self._state)

    def held(self, names: Iterable[KeyName], *, holder: bytes, at: datetime) -> tuple[Lease, ...]:
        """Return a holder's live leases of these keys, the oldest first."""
        given = {"holder": holder, "at": milliseconds(at)}
        wanted = set(names)
        rows = [row for name in wanted for row in self._connection.execute(_HELD, {**given, **stored_name(name)}).all()]
        found = [_lease(self._genuine(leases, row)) for row in rows]
        require_answer(live_leases, holds=all(row.ended is None for row in rows))
        require_answer(leases, holds=all(one.holder == holder and one.name in wanted for one in found))
        return tuple(sorted(found, key=lambda one: (one.log_seq, one.lease_id)))

    def states(self, lease_ids: Sequence[str]) -> dict[str, LeaseState]:
        """Return these leases with their ends and stops; unknown ones are absent."""
        return {one: self._state_of(row) for one, row in self._rows(lease_ids).items()}

    def _rows(self, lease_ids: Sequence[str]) -> Mapping[str, Values]:
        return {one: row for one in lease_ids if (row := self._row(leases, lease_id=one)) is not None}

    def stops(
        self, names: Iterable[KeyName], *, instance: bytes | None, also: bytes | None = None
    ) -> tuple[LeaseStop, ...]:
        """Return the stops of these keys for an instance, as of ``Attester``; None: for any.

        ``also`` is another instance that may be the same machine.
        """
        return self._stops(names, lambda row: instance is None or row["instance"] in {instance, also})

    def stops_of_image(self, names: Iterable[KeyName], *, tee: str, measurement: bytes | None) -> tuple[LeaseStop, ...]:
        """Return the stops of these keys for this image on any machine."""
        return self._stops(names, lambda row: (row["tee"], row["measurement"]) == (tee, measurement))

    def _stops(self, names: Iterable[KeyName], wanted: Callable[[Values], bool]) -> tuple[LeaseStop, ...]:
        rows = [row for one in names for row in self._stops_of(one).values()]
        return tuple(sorted(map(_stop, filter(wanted, rows)), key=lambda one: (one.log_seq, one.lease_id)))

    def _stops_of(self, name: KeyName) -> Mapping[object, Values]:
        """Return the stops of a key by their lease, which are read once in a transaction."""
        if name not in self._known_stops:
            rows = self._all_of_scope(lease_stops, stored_name(name))
            self._known_stops[name] = {row["lease_id"]: row for row in rows}
        return self._known_stops[name]

    def pages(self, wanted: LeaseFilter, *, at: datetime, after: tuple[int, str] = (0, "")) -> Iterator[LeaseState]:
        """Iterate over leases by log entry and id, page by page, after those of ``after``."""
        where = and_(true(), *_conditions(wanted, at))
        while True:
            seq, lease_id = after
            behind = (leases.c.log_seq > seq) | ((leases.c.log_seq == seq) & (leases.c.lease_id > lease_id))
            ordered = _STATES.where(where, behind).order_by(leases.c.log_seq, leases.c.lease_id)
            page = self._read(ordered.limit(_PAGE_ROWS))
            yield from page
            if len(page) < _PAGE_ROWS:
                return
            after = (page[-1].lease.log_seq, page[-1].lease.lease_id)

    def claims(self, digest: bytes) -> bytes | None:
        """Return the claims of this digest, or None; empty if they were altered."""
        value = self._connection.execute(_CLAIMS, {"digest": digest}).scalar_one_or_none()
        if value is None:
            return None
        return value if isinstance(value, bytes) and sha256(value).digest() == digest else b""

    def claims_digests(self) -> tuple[bytes, ...]:
        """Return the digests of all stored claims."""
        found = self._connection.execute(select(lease_claims.c.digest).order_by(lease_claims.c.digest)).scalars()
        return tuple(value if isinstance(value, bytes) else b"" for value in found)

    def _read(
        self,
        statement: Select[Any],  # Any: rows of several tables
        given: Mapping[str, object] | None = None,
    ) -> tuple[LeaseState, ...]:
        rows = self._connection.execute(statement, given or {}).all()
        return tuple(self._state_of(self._genuine(leases, row)) for row in rows)

    def _state_of(self, row: Values) -> LeaseState:
        lease, end = _lease(row), self._row(lease_ends, lease_id=row["lease_id"])
        stop = self._stops_of(lease.name).get(lease.lease_id)
        return LeaseState(
            lease=lease, end=None if end is None else _end(end), stop=None if stop is None else _stop(stop)
        )


class LeaseRepository(LeaseReader):
    """Leases in a writing transaction."""

    @cached_property
    def counts(self) -> LeaseCountRepository:
        """Numbers of releases and of holders."""
        return LeaseCountRepository(self._connection, self._state)

    def grant(self, granted: Sequence[Lease], *, replaced: Sequence[LeaseEnd], attester: Attester) -> None:
        """Store the leases of a release with the early ends of those that they replace, which are of the same keys.

        The claims are stored unless they are stored already.
        """
        if not granted:
            return
        digest = attester.claims_digest
        if self.claims(digest) is None:
            self._connection.execute(_ADD_CLAIMS, {"digest": digest, "claims": attester.claims})
        ended = self._rows([one.lease_id for one in replaced])
        if replaced:
            self._add(lease_ends, *map(_row_of_end, replaced))
            self._connection.execute(_REMOVE_LIVE, [{"of_lease": one} for one in ended])
        for name in dict.fromkeys(one.name for one in granted):
            of_key = [_row(one) for one in granted if one.name == name]
            gone = [row for row in ended.values() if stored_name(name).items() <= row.items()]
            self._add(leases, *self.counts.numbered(of_key, name=name, chip=attester.chip, ended=gone))
            self._connection.execute(_ADD_LIVE, [{one: row[one] for one in _LIVE_COLUMNS} for row in of_key])
            self.counts.forget_expired(name, added=len(of_key), at=granted[0].released_at)

    def add_stops(self, stops: Sequence[LeaseStop]) -> None:
        """Refuse the renewal of leases from now on."""
        rows = self._rows([one.lease_id for one in stops])
        self._known_stops.clear()
        if stops:
            added = [
                {
                    "lease_id": one.lease_id,
                    **stored_name(one.name),
                    "instance": one.instance,
                    "reason": one.reason,
                    "stopped_at": milliseconds(one.at),
                    "log_seq": one.log_seq,
                    "tee": rows[one.lease_id]["tee"],
                    "measurement": rows[one.lease_id]["measurement"],
                }
                for one in stops
            ]
            self._add(lease_stops, *added)

    def remove_stops(self, lease_ids: Sequence[str]) -> None:
        """Remove stops."""
        wanted = set(lease_ids)
        found = self._connection.execute(_STOPPED_KEYS.where(lease_stops.c.lease_id.in_(lease_ids))).all()
        self._known_stops.clear()
        for row in found:
            name = KeyName(tenant=row.tenant, key_id=row.key_id)
            self._remove(lease_stops, *(stop for one, stop in self._stops_of(name).items() if one in wanted))
        self._known_stops.clear()


_WITH_END = leases.outerjoin(lease_ends, lease_ends.c.lease_id == leases.c.lease_id)
_STATES = whole_rows(leases).select_from(_WITH_END)
_STOPPED_KEYS = select(lease_stops.c.tenant, lease_stops.c.key_id).distinct()
_NOT_ENDED = lease_ends.c.lease_id.is_(None)
# Statements of every release are built once: building one takes longer than executing it.
_HELD = (
    whole_rows(leases)
    .add_columns(lease_ends.c.lease_id.label("ended"))
    .select_from(live_leases.join(leases).outerjoin(lease_ends, lease_ends.c.lease_id == leases.c.lease_id))
    .where(
        live_leases.c.holder == bindparam("holder"),
        live_leases.c.tenant == bindparam("tenant"),
        live_leases.c.key_id == bindparam("key_id"),
        live_leases.c.expires_at > bindparam("at"),
    )
)
_LIVE_COLUMNS = tuple(column.name for column in live_leases.columns)
_ADD_LIVE = insert(live_leases)
_REMOVE_LIVE = delete(live_leases).where(live_leases.c.lease_id == bindparam("of_lease"))
_CLAIMS = select(lease_claims.c.claims).where(lease_claims.c.digest == bindparam("digest"))
_ADD_CLAIMS = insert(lease_claims)


def _conditions(wanted: LeaseFilter, at: datetime) -> Iterator[ColumnElement[bool]]:
    columns = leases.c
    equal = {
        columns.tenant: wanted.tenant,
        columns.policy_digest: wanted.policy_digest,
        columns.measurement: wanted.measurement,
        columns.chip: wanted.chip,
    }
    yield from (column == value for column, value in equal.items() if value is not None)
    if wanted.name is not None:
        yield of_key(leases, wanted.name)
    if wanted.product is not None:
        yield or_(func.lower(columns.product) == wanted.product.lower(), columns.tee == wanted.product.lower())
    if wanted.released_from is not None:
        yield columns.released_at >= milliseconds(wanted.released_from)
    if wanted.released_until is not None:
        yield columns.released_at <= milliseconds(wanted.released_until)
    if wanted.live is not None:
        live = and_(columns.expires_at > milliseconds(at), _NOT_ENDED)
        yield live if wanted.live else not_(live)
    if wanted.stopped:
        yield exists().where(lease_stops.c.lease_id == columns.lease_id)
    if wanted.lease_ids is not None:
        yield columns.lease_id.in_(wanted.lease_ids)


def _row(lease: Lease) -> dict[str, object]:
    row = {column: getattr(lease, column) for column in _PLAIN}
    row |= {"tenant": lease.name.tenant, "key_id": lease.name.key_id}
    return row | {"released_at": milliseconds(lease.released_at), "expires_at": milliseconds(lease.expires_at)}


def _row_of_end(end: LeaseEnd) -> dict[str, object]:
    return {
        "lease_id": end.lease_id,
        "ended_at": milliseconds(end.at),
        "reason": end.reason,
        "log_seq": end.log_seq,
    }


_PLAIN = tuple(name for name in Lease.__dataclass_fields__ if name != "name")
_BLOBS = ("policy_digest", "evidence_digest", "instance", "holder", "recipient", "claims_digest")


def _readable() -> AbstractContextManager[None]:
    return readable("a stored lease is malformed", code="lease-record-invalid", field="leases")


def _lease(row: Values) -> Lease:
    with _readable():
        plain: dict[str, Any] = {name: row[name] for name in _PLAIN}  # Any: as the fields are annotated
        plain |= {name: blob(row[name]) for name in _BLOBS}
        plain["measurement"] = None if row["measurement"] is None else blob(row["measurement"])
        plain |= {name: moment_of(whole_number(row[name])) for name in ("released_at", "expires_at")}
        plain |= {"simulated": bool(row["simulated"]), "log_seq": whole_number(row["log_seq"])}
        return Lease(name=KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"])), **plain)


def _end(row: Values) -> LeaseEnd:
    with _readable():
        return LeaseEnd(
            lease_id=str(row["lease_id"]),
            at=moment_of(whole_number(row["ended_at"])),
            reason=str(row["reason"]),
            log_seq=whole_number(row["log_seq"]),
        )


def _stop(row: Values) -> LeaseStop:
    with _readable():
        return LeaseStop(
            lease_id=str(row["lease_id"]),
            name=KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"])),
            instance=blob(row["instance"]),
            reason=str(row["reason"]),
            at=moment_of(whole_number(row["stopped_at"])),
            log_seq=whole_number(row["log_seq"]),
        )
