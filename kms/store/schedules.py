"""Schedules of rotation in the database: at most one per key."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Row, Table, and_, delete, exists, insert, select

from kms.domain.keys import KeyName, RotationSchedule
from kms.store.keys import key_versions, of_key, stored_name
from kms.store.repository import Repository, readable
from kms.store.schema import metadata, name_of
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
)
"""Keys that are rotated automatically, with the moment of the next rotation; milliseconds since 1970, UTC."""


class ScheduleReader(Repository):
    """Schedules in a reading transaction. One that cannot be read is an ``IntegrityError``, ``key-record-invalid``."""

    def find(self, name: KeyName) -> RotationSchedule | None:
        """Return the schedule of a key, if it has one."""
        row = self._connection.execute(select(key_schedules).where(of_key(key_schedules, name))).one_or_none()
        return None if row is None else _schedule(row)

    def all(self) -> tuple[RotationSchedule, ...]:
        """Return every schedule in the order of names."""
        ordered = select(key_schedules).order_by(key_schedules.c.tenant, key_schedules.c.key_id)
        return tuple(_schedule(row) for row in self._connection.execute(ordered))

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
        statement = select(key_schedules).where(due).order_by(key_schedules.c.due_at).limit(limit)
        return tuple(_schedule(row) for row in self._connection.execute(statement))


class ScheduleRepository(ScheduleReader):
    """Schedules in a writing transaction."""

    def put(self, schedule: RotationSchedule) -> None:
        """Store the schedule of a key, or replace it."""
        self.remove(schedule.name)
        second = timedelta(seconds=1)
        self._connection.execute(
            insert(key_schedules).values(
                **stored_name(schedule.name),
                every_seconds=schedule.every // second,
                overlap_seconds=schedule.overlap // second,
                due_at=milliseconds(schedule.due_at),
            )
        )

    def remove(self, name: KeyName) -> None:
        """Remove the schedule of a key."""
        self._connection.execute(delete(key_schedules).where(of_key(key_schedules, name)))


def _schedule(row: Row[tuple[object, ...]]) -> RotationSchedule:
    problem = f"the stored schedule of key {row.key_id!r} cannot be read"
    with readable(problem, code="key-record-invalid", field=str(row.key_id)):
        return RotationSchedule(
            name=KeyName(tenant=row.tenant, key_id=row.key_id),
            every=timedelta(seconds=row.every_seconds),
            overlap=timedelta(seconds=row.overlap_seconds),
            due_at=moment_of(row.due_at),
        )
