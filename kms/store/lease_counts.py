"""Counts of leases that cannot be lowered by removing or altering rows.

The leases of a key, and those of a key on one chip, are numbered from 1. The newest number is authenticated, so that
the number of releases since a moment is the difference to the number of the newest lease from before it.

Of the leases that may be live, a sum of authentication codes is kept. The removal of a lease, or its early end, changes
the sum of those that are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    LargeBinary,
    Row,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    union_all,
)

from attest.release import KeyName
from kms.domain.limits import Budget
from kms.domain.state_root import MAC_BYTES, forged
from kms.store.answers import require_answer
from kms.store.keys import stored_name
from kms.store.lease_tables import lease_ends, leases, live_leases
from kms.store.repository import Repository, blob, whole_number
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated, row_digest, row_of, whole_rows
from kms.store.timestamps import milliseconds

lease_counts = Table(
    "lease_counts",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("chip", name_of(160), primary_key=True),
    Column("released", BigInteger, nullable=False),
    Column("live", LargeBinary, nullable=False),
    Column("live_since", BigInteger, nullable=False),
    info=authenticated(),
)
"""Number of leases of a key, in all (``chip`` is empty) or to one chip; and of all, the sum of the codes of those that
had not expired at ``live_since``, in milliseconds since 1970, UTC, and were not ended."""

_ALL_CHIPS: Final = ""
_FORGET_EVERY: Final = 256
"""Leases of a key after which the expired ones are taken out of the sum."""


class _Live(NamedTuple):
    """Leases that had not expired at a moment, in milliseconds, and the sum of their codes."""

    rows: tuple[Values, ...]
    sum: int
    since: int


class LeaseCountReader(Repository):
    """Counts in a reading transaction."""

    def released(self, name: KeyName, budget: Budget, *, at: datetime, chip: str | None = None) -> int:
        """Return the number of releases of a key in the period of a budget that ends now; to one chip, if given.

        Raises:
            IntegrityError: ``state-forged``.
        """
        row = self._count(name, chip or _ALL_CHIPS)
        newest = 0 if row is None else whole_number(row["released"])
        length = budget.per.length
        if length is None or not newest:
            return newest
        given = {**stored_name(name), "chip": chip, "start": milliseconds(at - length)}
        before = self._connection.execute(_BEFORE if chip is None else _BEFORE_OF_CHIP, given).one_or_none()
        number = 0 if before is None else self._number(before, given)
        # Clocks of replicas differ a little, so that a lease may have a smaller number and a later moment.
        counted = self._connection.execute(_SINCE if chip is None else _SINCE_OF_CHIP, given).scalar_one()
        return max(newest - number, int(counted))

    def _number(self, before: Row[Any], given: Mapping[str, object]) -> int:  # Any: the columns of a row
        """Return the number of the newest lease from before a moment, of a key or of a key and chip."""
        lease, chip = self._genuine(leases, before), given["chip"]
        wanted = (given["tenant"], given["key_id"], lease["chip"] if chip is None else chip)
        asked_for = (lease["tenant"], lease["key_id"], lease["chip"]) == wanted
        early = whole_number(lease["released_at"]) <= whole_number(given["start"])
        require_answer(leases, holds=asked_for and early)
        return whole_number(lease["number" if chip is None else "chip_number"])

    def holders(self, name: KeyName, *, at: datetime, beside: bytes | None = None) -> int:
        """Return the number of holders of a live lease of a key; ``beside`` (``Attester.holder``) is not counted.

        Raises:
            IntegrityError: ``state-forged``.
        """
        moment = milliseconds(at)
        live = (row for row in self._live(name).rows if whole_number(row["expires_at"]) > moment)
        return len({blob(row["holder"]) for row in live} - {beside})

    def _count(self, name: KeyName, chip: str) -> Values | None:
        return self._row(lease_counts, **stored_name(name), chip=chip)

    def _live(self, name: KeyName) -> _Live:
        count = self._count(name, _ALL_CHIPS)
        if count is None:
            return _Live((), 0, 0)
        since = whole_number(count["live_since"])
        rows = self._connection.execute(_LIVE, {**stored_name(name), "since": since}).all()
        found = tuple(row_of(leases, row) for row in rows if _has_no_end(row))
        total = _sum(map(self._code, found))
        if self._state.verifies and total.to_bytes(MAC_BYTES, "big") != count["live"]:
            raise forged(f"leases of the key {name} were altered, ended or removed", field="leases")
        return _Live(found, total, since)

    def _code(self, row: Values) -> int:
        if not self._state.verifies:
            return 0
        return int.from_bytes(self._state.authority.keys.leases.mac(row_digest(leases, row)), "big")


class LeaseCountRepository(LeaseCountReader):
    """Counts in a writing transaction."""

    def begin(self, *, at: datetime) -> None:
        """Count the numbered leases of a database that has no counts; ``authenticate`` puts the rows into the state."""
        moment, live = milliseconds(at), Counter[tuple[object, object]]()
        for row in self._connection.execute(_ALL_LIVE, {"since": moment}):
            if _has_no_end(row):
                lease = row_of(leases, row)
                live[lease["tenant"], lease["key_id"]] += self._code(lease)
        for row in self._connection.execute(_NUMBERS).all():
            codes, since = ([live[row.tenant, row.key_id]], moment) if row.chip == _ALL_CHIPS else ([], 0)
            values = {**row._mapping, "live": _changed(bytes(MAC_BYTES), codes), "live_since": since}  # noqa: SLF001  public
            self._connection.execute(insert(lease_counts), values)

    def numbered(
        self, granted: Iterable[Mapping[str, object]], *, name: KeyName, chip: str | None, ended: Iterable[Values]
    ) -> list[Values]:
        """Return rows of new leases of a key with their numbers, and count them.

        ``ended`` are rows of leases of the key that end early, and leave the sum.
        """
        total, of_chip = self._count(name, _ALL_CHIPS), None if chip is None else self._count(name, chip)
        first, first_of_chip = (0 if row is None else whole_number(row["released"]) for row in (total, of_chip))
        rows: list[Values] = []
        for index, row in enumerate(granted, start=1):
            numbers = {"number": first + index, "chip_number": None if chip is None else first_of_chip + index}
            rows.append({**row, **numbers})
        changes = chain(map(self._code, rows), self._gone(total, ended))
        self._count_all(name, total, released=first + len(rows), changes=changes)
        if chip is not None:
            self._count_chip(name, chip, of_chip, released=first_of_chip + len(rows))
        return rows

    def forget_expired(self, name: KeyName, *, added: int, at: datetime) -> None:
        """Take expired leases out of the sum, now and then; ``added`` leases were numbered last."""
        count = self._count(name, _ALL_CHIPS)
        if count is None or whole_number(count["released"]) % _FORGET_EVERY >= added:
            return
        found, moment = self._live(name), milliseconds(at)
        kept = [row for row in found.rows if whole_number(row["expires_at"]) > moment]
        live = _sum(map(self._code, kept)).to_bytes(MAC_BYTES, "big")
        self._replace(lease_counts, count, live=live, live_since=max(moment, found.since))
        self._connection.execute(_FORGET, {**stored_name(name), "until": moment})

    def _gone(self, count: Values | None, ended: Iterable[Values]) -> Iterator[int]:
        """Yield the changes of the sum by leases that end early."""
        since = 0 if count is None else whole_number(count["live_since"])
        yield from (-self._code(row) for row in ended if whole_number(row["expires_at"]) > since)

    def _count_all(self, name: KeyName, before: Values | None, *, released: int, changes: Iterable[int]) -> None:
        if before is None:
            live = _changed(bytes(MAC_BYTES), changes)
            values = {"chip": _ALL_CHIPS, "released": released, "live": live, "live_since": 0}
            self._add(lease_counts, {**stored_name(name), **values})
        else:
            self._replace(lease_counts, before, released=released, live=_changed(before["live"], changes))

    def _count_chip(self, name: KeyName, chip: str, before: Values | None, *, released: int) -> None:
        if before is None:
            values = {"chip": chip, "released": released, "live": bytes(MAC_BYTES), "live_since": 0}
            self._add(lease_counts, {**stored_name(name), **values})
        else:
            self._replace(lease_counts, before, released=released)


_OF_KEY = (leases.c.tenant == bindparam("tenant"), leases.c.key_id == bindparam("key_id"))
_LIVE_OF_KEY = (live_leases.c.tenant == bindparam("tenant"), live_leases.c.key_id == bindparam("key_id"))
_ALL_LIVE = (
    whole_rows(leases)
    .add_columns(lease_ends.c.lease_id.label("ended"))
    .select_from(live_leases.join(leases).outerjoin(lease_ends, lease_ends.c.lease_id == leases.c.lease_id))
    .where(live_leases.c.expires_at > bindparam("since"))
)
_LIVE = _ALL_LIVE.where(*_LIVE_OF_KEY)
_FORGET = delete(live_leases).where(*_LIVE_OF_KEY, live_leases.c.expires_at <= bindparam("until"))
_NAME = (leases.c.tenant, leases.c.key_id)
_NUMBERS = union_all(
    select(*_NAME, literal(_ALL_CHIPS).label("chip"), func.max(leases.c.number).label("released")).group_by(*_NAME),
    select(*_NAME, leases.c.chip, func.max(leases.c.chip_number))
    .where(leases.c.chip.is_not(None))
    .group_by(*_NAME, leases.c.chip),
)
_RELEASED_BEFORE = whole_rows(leases).where(*_OF_KEY, leases.c.released_at <= bindparam("start")).limit(1)
_BEFORE = _RELEASED_BEFORE.order_by(leases.c.number.desc())
_BEFORE_OF_CHIP = _RELEASED_BEFORE.where(leases.c.chip == bindparam("chip")).order_by(leases.c.chip_number.desc())
_SINCE = (
    select(func.count())
    .select_from(leases)
    # A lease ends after it starts, so the index over the ends finds the recent ones.
    .where(*_OF_KEY, leases.c.expires_at > bindparam("start"), leases.c.released_at > bindparam("start"))
)
_SINCE_OF_CHIP = _SINCE.where(leases.c.chip == bindparam("chip"))


def _has_no_end(row: Row[Any]) -> bool:  # Any: rows of two tables
    return row.ended is None


def _sum(codes: Iterable[int]) -> int:
    return sum(codes) % (1 << 8 * MAC_BYTES)


def _changed(live: object, codes: Iterable[int]) -> bytes:
    return _sum([int.from_bytes(blob(live), "big"), *codes]).to_bytes(MAC_BYTES, "big")
