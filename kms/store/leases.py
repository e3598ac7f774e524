"""Leases in the database: granted once and never changed. Ends and stops are in tables of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    String,
    Table,
    and_,
    bindparam,
    delete,
    distinct,
    func,
    insert,
    not_,
    or_,
    select,
    true,
)

from attest.release import KeyName
from kms.domain.leases import Attester, Lease, LeaseEnd, LeaseFilter, LeaseState, LeaseStop
from kms.domain.limits import Budget
from kms.store.keys import of_key, stored_name
from kms.store.repository import Repository, blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.timestamps import milliseconds, moment_of

_PAGE_ROWS = 500

lease_claims = Table(
    "lease_claims",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("claims", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""Claims that Attesters proved, see ``kms/domain/lease_claims.py``, by their SHA-256; never changed, never removed."""

leases = Table(
    "leases",
    metadata,
    Column("lease_id", name_of(32), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("version", Integer, nullable=False),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest"), nullable=False),
    Column("evidence_digest", LargeBinary, nullable=False),
    Column("tee", name_of(32), nullable=False),
    Column("product", name_of(64)),
    Column("chip", name_of(160)),
    Column("measurement", LargeBinary),
    Column("instance", LargeBinary, nullable=False),
    Column("holder", LargeBinary, nullable=False),
    Column("recipient", LargeBinary, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("claims_digest", LargeBinary, ForeignKey("lease_claims.digest"), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    Column("released_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("renewed_from", name_of(32)),
    Index("leases_key", "tenant", "key_id", "expires_at"),
    Index("leases_holder", "holder"),
    Index("leases_chip", "chip"),
    Index("leases_log_seq", "log_seq", "lease_id"),
    info=APPEND_ONLY,
)
"""Each released version of a key, see ``kms/domain/leases.py``; never changed, never removed. The row outlives its
key, which it names without a foreign key. Moments are milliseconds since 1970, UTC."""

lease_ends = Table(
    "lease_ends",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("ended_at", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    info=APPEND_ONLY,
)
"""Leases that ended before their time; never changed, never removed."""

lease_stops = Table(
    "lease_stops",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("instance", LargeBinary, nullable=False),
    Column("reason", String(1024), nullable=False),
    Column("stopped_at", BigInteger, nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    Index("lease_stops_instance", "tenant", "key_id", "instance"),
)
"""Leases that are not renewed; a row is removed when the operator resumes renewals."""


class LeaseReader(Repository):
    """Leases in a reading transaction. One that cannot be read is an ``IntegrityError``, ``lease-record-invalid``."""

    def live(self, name: KeyName, *, at: datetime) -> tuple[Lease, ...]:
        """Return the leases of a key that are neither expired nor ended at this moment, the oldest first."""
        statement = _STATES.where(_live_of(name, at)).order_by(leases.c.log_seq, leases.c.lease_id)
        return tuple(_state(row).lease for row in self._connection.execute(statement))

    def live_count(self, *, at: datetime) -> int:
        """Return the number of live leases of all keys; reads every lease."""
        live = and_(leases.c.expires_at > milliseconds(at), _NOT_ENDED)
        return int(self._connection.execute(select(func.count()).select_from(_WITH_END).where(live)).scalar_one())

    def holder_count(self, name: KeyName, *, at: datetime, beside: bytes | None = None) -> int:
        """Return the number of holders of a live lease of a key; ``beside`` (``Attester.holder``) is not counted."""
        where = _live_of(name, at)
        if beside is not None:
            where = and_(where, leases.c.holder != beside)
        statement = select(func.count(distinct(leases.c.holder))).select_from(_WITH_END).where(where)
        return int(self._connection.execute(statement).scalar_one())

    def released_count(self, name: KeyName, budget: Budget, *, at: datetime, chip: str | None = None) -> int:
        """Return the number of releases of a key in the period of a budget that ends now; to one chip, if given."""
        columns = leases.c
        where = of_key(leases, name)
        length = budget.per.length
        if length is not None:
            # A lease ends after it starts, so the index over the ends finds the recent ones.
            start = milliseconds(at - length)
            where = and_(where, columns.expires_at > start, columns.released_at > start)
        if chip is not None:
            where = and_(where, columns.chip == chip)
        return int(self._connection.execute(select(func.count()).select_from(leases).where(where)).scalar_one())

    def held(self, names: Iterable[KeyName], *, holder: bytes, at: datetime) -> tuple[Lease, ...]:
        """Return a holder's live leases of these keys, the oldest first."""
        given = {"holder": holder, "at": milliseconds(at)}
        rows = (row for one in names for row in self._connection.execute(_HELD, {**given, **stored_name(one)}))
        return tuple(sorted((_state(row).lease for row in rows), key=lambda one: (one.log_seq, one.lease_id)))

    def states(self, lease_ids: Sequence[str]) -> dict[str, LeaseState]:
        """Return these leases with their ends and stops; unknown ones are absent."""
        if not lease_ids:
            return {}
        found = self._read(_STATES.where(leases.c.lease_id.in_(lease_ids)))
        return {one.lease.lease_id: one for one in found}

    def stops(
        self, names: Iterable[KeyName], *, instance: bytes | None, also: bytes | None = None
    ) -> tuple[LeaseStop, ...]:
        """Return the stops of these keys for an instance, as of ``Attester``; None: for any.

        ``also`` is another instance that may be the same machine.
        """
        if instance is None:
            return self._stops(_STOPS, {}, names)
        return self._stops(_STOPS_OF_INSTANCE, {"instance": instance, "also": also or instance}, names)

    def stops_of_image(self, names: Iterable[KeyName], *, tee: str, measurement: bytes | None) -> tuple[LeaseStop, ...]:
        """Return the stops of these keys for this image on any machine."""
        return self._stops(_STOPS_OF_IMAGE, {"tee": tee, "measurement": measurement}, names)

    def _stops(
        self,
        statement: Select[Any],  # Any: rows
        given: Mapping[str, object],
        names: Iterable[KeyName],
    ) -> tuple[LeaseStop, ...]:
        rows = (row for one in names for row in self._connection.execute(statement, {**given, **stored_name(one)}))
        return tuple(sorted(map(_stop, rows), key=lambda one: (one.log_seq, one.lease_id)))

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
        """Return the claims of this digest, or None; empty if they were altered into another type."""
        value = self._connection.execute(_CLAIMS, {"digest": digest}).scalar_one_or_none()
        return value if value is None or isinstance(value, bytes) else b""

    def claims_digests(self) -> tuple[bytes, ...]:
        """Return the digests of all stored claims."""
        found = self._connection.execute(select(lease_claims.c.digest).order_by(lease_claims.c.digest)).scalars()
        return tuple(value if isinstance(value, bytes) else b"" for value in found)

    def _read(self, statement: Select[Any]) -> tuple[LeaseState, ...]:  # Any: rows of several tables
        return tuple(_state(row) for row in self._connection.execute(statement))


class LeaseRepository(LeaseReader):
    """Leases in a writing transaction."""

    def add(self, granted: Sequence[Lease], *, attester: Attester) -> None:
        """Store leases, and their claims unless they are stored already."""
        if not granted:
            return
        digest = attester.claims_digest
        if self.claims(digest) is None:
            self._connection.execute(_ADD_CLAIMS, {"digest": digest, "claims": attester.claims})
        self._connection.execute(_ADD_LEASES, [_row(one) for one in granted])

    def end(self, ends: Sequence[LeaseEnd]) -> None:
        """Store early ends of leases."""
        if ends:
            rows = [
                {"lease_id": e.lease_id, "ended_at": milliseconds(e.at), "reason": e.reason, "log_seq": e.log_seq}
                for e in ends
            ]
            self._connection.execute(_ADD_ENDS, rows)

    def add_stops(self, stops: Sequence[LeaseStop]) -> None:
        """Refuse the renewal of leases from now on."""
        if stops:
            rows = [
                {
                    "lease_id": one.lease_id,
                    "tenant": one.name.tenant,
                    "key_id": one.name.key_id,
                    "instance": one.instance,
                    "reason": one.reason,
                    "stopped_at": milliseconds(one.at),
                    "log_seq": one.log_seq,
                }
                for one in stops
            ]
            self._connection.execute(insert(lease_stops), rows)

    def remove_stops(self, lease_ids: Sequence[str]) -> None:
        """Remove stops."""
        self._connection.execute(delete(lease_stops).where(lease_stops.c.lease_id.in_(lease_ids)))


_WITH_END = leases.outerjoin(lease_ends, lease_ends.c.lease_id == leases.c.lease_id)
_STATES = select(
    leases,
    lease_ends.c.ended_at,
    lease_ends.c.reason.label("end_reason"),
    lease_ends.c.log_seq.label("end_seq"),
    lease_stops.c.stopped_at,
    lease_stops.c.reason.label("stop_reason"),
    lease_stops.c.log_seq.label("stop_seq"),
).select_from(_WITH_END.outerjoin(lease_stops, lease_stops.c.lease_id == leases.c.lease_id))
_NOT_ENDED = lease_ends.c.lease_id.is_(None)
# Statements of every release are built once: building one takes longer than executing it.
_HELD = _STATES.where(
    leases.c.holder == bindparam("holder"),
    leases.c.tenant == bindparam("tenant"),
    leases.c.key_id == bindparam("key_id"),
    leases.c.expires_at > bindparam("at"),
    _NOT_ENDED,
)
_STOPS = select(lease_stops).where(
    lease_stops.c.tenant == bindparam("tenant"), lease_stops.c.key_id == bindparam("key_id")
)
_STOPS_OF_INSTANCE = _STOPS.where(lease_stops.c.instance.in_([bindparam("instance"), bindparam("also")]))
_STOPS_OF_IMAGE = _STOPS.join(leases, leases.c.lease_id == lease_stops.c.lease_id).where(
    leases.c.tee == bindparam("tee"), leases.c.measurement.is_not_distinct_from(bindparam("measurement"))
)
_CLAIMS = select(lease_claims.c.claims).where(lease_claims.c.digest == bindparam("digest"))
_ADD_CLAIMS = insert(lease_claims)
_ADD_LEASES = insert(leases)
_ADD_ENDS = insert(lease_ends)


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
        yield lease_stops.c.lease_id.is_not(None)
    if wanted.lease_ids is not None:
        yield columns.lease_id.in_(wanted.lease_ids)


def _live_of(name: KeyName, at: datetime) -> ColumnElement[bool]:
    return and_(of_key(leases, name), leases.c.expires_at > milliseconds(at), _NOT_ENDED)


def _row(lease: Lease) -> dict[str, object]:
    row = {column: getattr(lease, column) for column in _PLAIN}
    row |= {"tenant": lease.name.tenant, "key_id": lease.name.key_id}
    return row | {"released_at": milliseconds(lease.released_at), "expires_at": milliseconds(lease.expires_at)}


_PLAIN = tuple(name for name in Lease.__dataclass_fields__ if name != "name")
_BLOBS = ("policy_digest", "evidence_digest", "instance", "holder", "recipient", "claims_digest")


def _readable() -> AbstractContextManager[None]:
    return readable("a stored lease cannot be read", code="lease-record-invalid", field="leases")


def _state(row: Row[Any]) -> LeaseState:  # Any: rows of several tables
    found = row._mapping  # noqa: SLF001  SQLAlchemy's public name of it
    with _readable():
        plain = {name: found[name] for name in _PLAIN}
        plain |= {name: blob(found[name]) for name in _BLOBS}
        plain["measurement"] = None if row.measurement is None else blob(row.measurement)
        plain |= {"released_at": moment_of(row.released_at), "expires_at": moment_of(row.expires_at)}
        plain["simulated"] = bool(row.simulated)
        lease = Lease(name=KeyName(tenant=row.tenant, key_id=row.key_id), **plain)
        return LeaseState(lease=lease, end=_end_of(lease, row), stop=_stop_of(lease, row))


def _end_of(lease: Lease, row: Row[Any]) -> LeaseEnd | None:  # Any: as above
    if row.ended_at is None:
        return None
    return LeaseEnd(lease_id=lease.lease_id, at=moment_of(row.ended_at), reason=row.end_reason, log_seq=row.end_seq)


def _stop_of(lease: Lease, row: Row[Any]) -> LeaseStop | None:  # Any: as above
    if row.stopped_at is None:
        return None
    return LeaseStop(
        lease_id=lease.lease_id,
        name=lease.name,
        instance=lease.instance,
        reason=row.stop_reason,
        at=moment_of(row.stopped_at),
        log_seq=row.stop_seq,
    )


def _stop(row: Row[Any]) -> LeaseStop:  # Any: as above
    with _readable():
        return LeaseStop(
            lease_id=row.lease_id,
            name=KeyName(tenant=row.tenant, key_id=row.key_id),
            instance=blob(row.instance),
            reason=row.reason,
            at=moment_of(row.stopped_at),
            log_seq=row.log_seq,
        )
