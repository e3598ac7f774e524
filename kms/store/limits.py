"""Limits of keys in the database, and what was released of them, counted in the transaction that decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, and_, bindparam, func, insert, select

from attest.encoding import json_value, rfc3339_text
from attest.errors import AttestError
from attest.release import KeyName
from kms.domain.errors import IntegrityError
from kms.domain.limits import NO_LIMITS, Budget, Limits, canonical_limits, read_limits
from kms.store.keys import stored_name
from kms.store.schema import key_limits, leases

__all__ = ["LimitReader", "LimitWriter"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LimitReader:
    """What can be read of them in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def limits_of(self, names: Collection[KeyName]) -> Mapping[KeyName, Limits]:
        """Return the limits in force of these keys; a key without any is absent.

        Raises:
            IntegrityError: ``limits-record-invalid``. Nothing is released while they cannot be read.
        """
        found = {one: self._connection.execute(_NEWEST, stored_name(one)).one_or_none() for one in names}
        return {name: _limits(row.version, row.document) for name, row in found.items() if row is not None}

    def all_limits(self) -> tuple[tuple[KeyName, Limits], ...]:
        """Return every version of the limits of every key."""
        columns = key_limits.c
        rows = self._connection.execute(
            select(key_limits).order_by(columns.tenant, columns.key_id, columns.version)
        ).all()
        return tuple(
            (KeyName(tenant=row.tenant, key_id=row.key_id), _limits(row.version, row.document)) for row in rows
        )

    def released_count(self, name: KeyName, budget: Budget, *, at: datetime, chip: str | None = None) -> int:
        """Count the releases of all versions of a key, in the period of a budget that ends now; perhaps to one chip."""
        columns = leases.c
        where = and_(columns.tenant == name.tenant, columns.key_id == name.key_id)
        length = budget.per.length
        if length is not None:
            # Leases end after they begin, so that the index over their ends finds those that began lately.
            start = (at - length - _EPOCH) // timedelta(milliseconds=1)
            where = and_(where, columns.expires_at > start, columns.released_at > start)
        if chip is not None:
            where = and_(where, columns.chip == chip)
        return int(self._connection.execute(select(func.count()).select_from(leases).where(where)).scalar_one())


class LimitWriter(LimitReader):
    """What can be written."""

    def add_limits(self, name: KeyName, limits: Limits, *, at: datetime) -> None:
        """Put limits into force."""
        self._connection.execute(
            insert(key_limits).values(
                tenant=name.tenant,
                key_id=name.key_id,
                version=limits.version,
                document=canonical_limits(limits),
                set_at=rfc3339_text(at),
            )
        )


_NEWEST = (
    select(key_limits.c.version, key_limits.c.document)
    .where(key_limits.c.tenant == bindparam("tenant"), key_limits.c.key_id == bindparam("key_id"))
    .order_by(key_limits.c.version.desc())
    .limit(1)
)


def _limits(version: object, document: object) -> Limits:
    try:
        found = read_limits(json_value(document if isinstance(document, bytes) else b"", what="limits"))
    except AttestError as exc:
        raise _damaged() from exc
    if found.version != version or canonical_limits(found) != document or found == NO_LIMITS:
        raise _damaged()
    return found


def _damaged() -> IntegrityError:
    return IntegrityError(
        "stored limits of a key cannot be read",
        code="limits-record-invalid",
        field="key_limits",
        hint="the database was altered or damaged; restore it from a backup",
    )
