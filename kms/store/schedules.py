"""Schedules of rotation in the database: at most one per key."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Select, Table, and_, exists

from kms.domain.keys import KeyName, RotationSchedule
from kms.store.keys import key_versions, stored_name
from kms.store.repository import Repository, readable, whole_number
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
from kms.store.timestamps import milliseconds, moment_of

key_schedules = Table(
    "key_schedules",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("every_seconds", BigInteger, nullable=False),
    Column("overlap_seconds", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_schedules_due_at", "due_at"),
    info=authenticated(),
)
"""Keys that are rotated automatically, with the moment of the next rotation; milliseconds since 1970, UTC."""


class ScheduleReader(Repository):
    """Schedules in a reading transaction. A malformed record is an ``IntegrityError``, ``key-record-invalid``."""

    def find(self, name: KeyName) -> RotationSchedule | None:
        """Return the schedule of a key, if it has one."""
        row = self._row(key_schedules, **stored_name(name))
        return None if row is None else _schedule(row)

    def all(self) -> tuple[RotationSchedule, ...]:
        """Return every schedule in the order of names."""
        return self._read(_SCHEDULES.order_by(key_schedules.c.tenant, key_schedules.c.key_id))

    def due(self, at: datetime, *, limit: int) -> tuple[RotationSchedule, ...]:
        """Return the due schedules, the oldest first, except of keys that are to be destroyed."""
        columns = key_versions.c
        ending = exists().where(
            columns.tenant == key_schedules.c.tenant,
            columns.key_id == key_schedules.c.key_id,
            columns.overlap_until.is_(None),
            columns.destroy_at.is_not(None),
        )
        due = and_(key_schedules.c.due_at <= milliseconds(at), ~ending)
        return self._read(_SCHEDULES.where(due).order_by(key_schedules.c.due_at).limit(limit))

    def _read(self, statement: Select[Any]) -> tuple[RotationSchedule, ...]:  # Any: the columns of a row
        rows = self._connection.execute(statement).all()
        return tuple(_schedule(self._genuine(key_schedules, row)) for row in rows)


class ScheduleRepository(ScheduleReader):
    """Schedules in a writing transaction."""

    def put(self, schedule: RotationSchedule) -> None:
        """Store the schedule of a key, or replace it."""
        self.remove(schedule.name)
        second = timedelta(seconds=1)
        self._add(
            key_schedules,
            {
                **stored_name(schedule.name),
                "every_seconds": schedule.every // second,
                "overlap_seconds": schedule.overlap // second,
                "due_at": milliseconds(schedule.due_at),
            },
        )

    def remove(self, name: KeyName) -> None:
        """Remove the schedule of a key."""
        row = self._row(key_schedules, **stored_name(name))
        if row is not None:
            self._remove(key_schedules, row)


_SCHEDULES = whole_rows(key_schedules)


def _schedule(row: Values) -> RotationSchedule:
    key_id = str(row["key_id"])
    with readable(f"the stored schedule of key {key_id!r} is malformed", code="key-record-invalid", field=key_id):
        return RotationSchedule(
            name=KeyName(tenant=str(row["tenant"]), key_id=key_id),
            every=timedelta(seconds=whole_number(row["every_seconds"])),
            overlap=timedelta(seconds=whole_number(row["overlap_seconds"])),
            due_at=moment_of(whole_number(row["due_at"])),
        )
