"""Schedules of rotation, due destructions and tags in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, Row, and_, delete, exists, insert, select

from attest.errors import AttestError
from kms.domain.errors import IntegrityError
from kms.domain.keys import KeyName, KeyReference, RotationSchedule
from kms.store.keys import of_key, stored_name
from kms.store.schema import key_schedules, key_tags, key_versions
from kms.store.timestamps import milliseconds, moment_of

__all__ = ["LifecycleReader", "LifecycleWriter"]


class LifecycleReader:
    """What can be read of them in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def schedule_of(self, name: KeyName) -> RotationSchedule | None:
        """Return the schedule of a key, if it has one.

        Raises:
            IntegrityError: ``key-record-invalid``.
        """
        row = self._connection.execute(select(key_schedules).where(of_key(key_schedules, name))).one_or_none()
        return None if row is None else _schedule(row)

    def schedules(self) -> tuple[RotationSchedule, ...]:
        """Return every schedule in the order of names.

        Raises:
            IntegrityError: ``key-record-invalid``.
        """
        ordered = select(key_schedules).order_by(key_schedules.c.tenant, key_schedules.c.key_id)
        return tuple(_schedule(row) for row in self._connection.execute(ordered))

    def due_schedules(self, at: datetime, *, limit: int) -> tuple[RotationSchedule, ...]:
        """Return the schedules whose moment has come, the oldest first; a key that is to be destroyed has none.

        Raises:
            IntegrityError: ``key-record-invalid``.
        """
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

    def due_destructions(self, at: datetime, *, limit: int) -> tuple[KeyReference, ...]:
        """Return the versions whose material is there although its moment has come, the oldest first."""
        columns = key_versions.c
        statement = (
            select(columns.tenant, columns.key_id, columns.version)
            .where(columns.destroy_at <= milliseconds(at), columns.wrapped != b"")
            .order_by(columns.destroy_at)
            .limit(limit)
        )
        return tuple(
            KeyReference(name=KeyName(tenant=row.tenant, key_id=row.key_id), version=row.version)
            for row in self._connection.execute(statement)
        )

    def tags_of(self, name: KeyName) -> Mapping[str, str]:
        """Return the tags of a key by their names."""
        rows = self._connection.execute(select(key_tags).where(of_key(key_tags, name)).order_by(key_tags.c.name))
        return {row.name: row.value for row in rows}

    def tagged(self, tags: Mapping[str, str]) -> frozenset[KeyName]:
        """Return the keys that have all of these tags; there is at least one."""
        found: list[frozenset[KeyName]] = []
        for name, value in tags.items():
            rows = self._connection.execute(
                select(key_tags.c.tenant, key_tags.c.key_id).where(key_tags.c.name == name, key_tags.c.value == value)
            )
            found.append(frozenset(KeyName(tenant=row.tenant, key_id=row.key_id) for row in rows))
        return frozenset.intersection(*found)


class LifecycleWriter(LifecycleReader):
    """What can be written of them."""

    def put_schedule(self, schedule: RotationSchedule) -> None:
        """Keep a schedule in place of the one that the key may have."""
        self.drop_schedule(schedule.name)
        second = timedelta(seconds=1)
        self._connection.execute(
            insert(key_schedules).values(
                **stored_name(schedule.name),
                every_seconds=schedule.every // second,
                overlap_seconds=schedule.overlap // second,
                due_at=milliseconds(schedule.due_at),
            )
        )

    def drop_schedule(self, name: KeyName) -> None:
        """Forget the schedule of a key."""
        self._connection.execute(delete(key_schedules).where(of_key(key_schedules, name)))

    def put_tag(self, name: KeyName, tag: str, value: str) -> None:
        """Tag a key, in place of the tag of that name that it may have."""
        self.drop_tag(name, tag)
        self._connection.execute(insert(key_tags).values(**stored_name(name), name=tag, value=value))

    def drop_tag(self, name: KeyName, tag: str) -> None:
        """Remove a tag of a key."""
        self._connection.execute(delete(key_tags).where(of_key(key_tags, name), key_tags.c.name == tag))


def _schedule(row: Row[tuple[object, ...]]) -> RotationSchedule:
    """Read a row; one that was altered into nonsense rotates nothing."""
    try:
        return RotationSchedule(
            name=KeyName(tenant=row.tenant, key_id=row.key_id),
            every=timedelta(seconds=row.every_seconds),
            overlap=timedelta(seconds=row.overlap_seconds),
            due_at=moment_of(row.due_at),
        )
    except (ValueError, TypeError, OverflowError, AttestError) as exc:
        raise IntegrityError(
            f"the stored schedule of key {row.key_id!r} cannot be read",
            code="key-record-invalid",
            field=str(row.key_id),
            hint="the database was altered or damaged; restore it from a backup",
        ) from exc
