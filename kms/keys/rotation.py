"""Rotation of keys, on request or by schedule.

Each rotation is one transaction with its log entry: the overlap of the current version starts, and the new version
becomes current. Replicas coordinate through the database: each reads the schedule again under the write lock, so that
only the first one makes a due rotation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from attest.release import ImportTerms
from kms.domain.actors import SCHEDULE, Actor
from kms.domain.durations import duration_text
from kms.domain.errors import KeyConflictError, UnavailableError
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.keys import KeyName, KeyRecord, RotationSchedule
from kms.domain.material import new_material, public_half, require_generated, require_material
from kms.domain.secret import SecretBytes
from kms.keys.admin import name_members, require_key
from kms.keys.import_key import next_terms
from kms.keys.publication import publish
from kms.store import Store, WriteTransaction
from kms.store.timestamps import whole_millisecond

KEY_ROTATED = "key-rotated"
SCHEDULE_SET = "key-schedule-set"
SCHEDULE_REMOVED = "key-schedule-removed"
DEFAULT_OVERLAP: Final = timedelta(days=7)
"""Default overlap: time for which the previous version is still released."""
MAX_ATTEMPTS: Final = 3
"""Attempts of a rotation while the key changes during wrapping."""
MAX_DUE: Final = 256
"""Most due rotations made in one pass; the next pass makes the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotator:
    """Dependencies of a rotation; ``random`` is the source of new material."""

    store: Store
    kek: KeyEncryptionKey
    random: RandomBytes


def rotate_key(
    rotator: Rotator,
    name: KeyName,
    *,
    overlap: timedelta,
    actor: Actor,
    at: datetime,
    material: SecretBytes | None = None,
    terms: ImportTerms | None = None,
) -> KeyRecord:
    """Make a new version of a key the current one, and return it.

    For the time ``overlap``, the previous version is still released on request by its number. Imported ``material``
    must be stored under the terms under which its owner sealed it; material that is not imported is generated.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroying``; ``key-material-invalid``; ``secret-not-generated``: a secret without its
            next value.
        UnavailableError: the database is in use, or the key-encryption key's back-end does not answer; or
            ``keys-changing``.
    """
    for _ in range(MAX_ATTEMPTS):
        with rotator.store.reading() as tx:
            before = require_key(tx, name)
        _require_living(before)
        if terms is not None and next_terms(before) != terms:
            break
        made = _next_version(rotator, before, material=material, at=at)
        with rotator.store.writing() as tx:
            if require_key(tx, name) == before:
                origin = "made" if material is None else "imported"
                return _put_in_place(tx, before, made, overlap=overlap, origin=origin, actor=actor, at=at)
    raise UnavailableError(
        f"the key {str(name)!r} changed while it was being rotated", code="keys-changing", retryable=True
    )


def set_schedule(
    store: Store, name: KeyName, *, every: timedelta, overlap: timedelta, actor: Actor, at: datetime
) -> RotationSchedule:
    """Schedule automatic rotation of a key; the first is due after ``every``.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroying``; ``secret-not-generated``; ``schedule-invalid``: the overlap is longer than
            the time between rotations, or that time is zero.
        UnavailableError: the database is in use.
    """
    try:
        schedule = RotationSchedule(name=name, every=every, overlap=overlap, due_at=whole_millisecond(at + every))
    except ValueError as exc:
        raise KeyConflictError(
            str(exc),
            code="schedule-invalid",
            field=str(name),
            expected=f"an overlap of at most {duration_text(every)}",
            got=duration_text(overlap),
            hint="rotate less often, or use a shorter overlap",
        ) from exc
    with store.writing() as tx:
        record = require_key(tx, name)
        _require_living(record)
        require_generated(record.algorithm)
        tx.schedules.put(schedule)
        body = {**name_members(name), **schedule.members(), "actor": actor.members()}
        tx.log.add(kind=SCHEDULE_SET, at=at, body=body)
    return schedule


def remove_schedule(store: Store, name: KeyName, *, actor: Actor, at: datetime) -> None:
    """Cancel automatic rotation of a key.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-state-unchanged``: it has no schedule.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        require_key(tx, name)
        if tx.schedules.find(name) is None:
            problem = f"the key {str(name)!r} has no schedule"
            raise KeyConflictError(problem, code="key-state-unchanged", field=str(name))
        tx.schedules.remove(name)
        body = {**name_members(name), "actor": actor.members()}
        tx.log.add(kind=SCHEDULE_REMOVED, at=at, body=body)


def rotate_due(
    rotator: Rotator, *, at: datetime, failed: Callable[[KeyName, AttestError], None]
) -> tuple[KeyRecord, ...]:
    """Make the due rotations, each once, with any number of replicas, and return the new versions of this call.

    The interval to the next rotation starts with this one: a long downtime causes one rotation of a key, and a clock
    set back none. ``failed`` is called for each key that could not be rotated.

    Raises:
        UnavailableError: the database is in use.
    """
    with rotator.store.reading() as tx:
        due = tx.schedules.due(at, limit=MAX_DUE)
    made: list[KeyRecord] = []
    for one in due:
        try:
            record = _rotate_if_due(rotator, one.name, at=at)
            made += [] if record is None else [record]
        except AttestError as exc:
            failed(one.name, exc)
    return tuple(made)


def _rotate_if_due(rotator: Rotator, name: KeyName, *, at: datetime) -> KeyRecord | None:
    """Check again under the write lock: another replica may have rotated the key."""
    with rotator.store.reading() as tx:
        before, schedule = require_key(tx, name), tx.schedules.find(name)
    if schedule is None or schedule.due_at > at or before.destroy_at is not None:
        return None
    made = _next_version(rotator, before, material=None, at=at)
    with rotator.store.writing() as tx:
        if (require_key(tx, name), tx.schedules.find(name)) != (before, schedule):
            return None
        return _put_in_place(tx, before, made, overlap=schedule.overlap, origin="made", actor=SCHEDULE, at=at)


def _next_version(
    rotator: Rotator, before: KeyRecord, *, material: SecretBytes | None, at: datetime
) -> tuple[KeyRecord, bytes | None]:
    """Make and wrap the next version before the database is locked: the key-encryption key may be on a remote server.

    Returns:
        The version, and its public half if it has one.
    """
    fresh = new_material(before.algorithm, random=rotator.random) if material is None else material
    require_material(fresh, algorithm=before.algorithm)
    record = replace(before, version=before.version + 1, created_at=at, version_enabled=True)
    wrapped = replace(record, wrapped=rotator.kek.wrap(fresh, context=record.context))
    return wrapped, public_half(fresh, algorithm=record.algorithm)


def _put_in_place(
    tx: WriteTransaction,
    before: KeyRecord,
    made: tuple[KeyRecord, bytes | None],
    *,
    overlap: timedelta,
    origin: str,
    actor: Actor,
    at: datetime,
) -> KeyRecord:
    """Store, log and publish the next version, and set the moment of the next scheduled rotation."""
    record, public_key = made
    end = whole_millisecond(at + overlap)
    tx.keys.supersede(before, overlap_until=end)
    tx.keys.add_version(record)
    body: dict[str, JsonValue] = {
        **name_members(record.name),
        "version": record.version,
        "material": origin,
        "policy_sha256": record.policy_digest.hex(),
        "previous": before.version,
        "previous_until": rfc3339_text(end),
        "actor": actor.members(),
    }
    schedule = tx.schedules.find(record.name)
    if schedule is not None:
        due_at = whole_millisecond(at + schedule.every)
        tx.schedules.put(replace(schedule, due_at=due_at))
        body["next_rotation"] = rfc3339_text(due_at)
    tx.log.add(kind=KEY_ROTATED, at=at, body={"next_rotation": None, **body})
    publish(tx, record, public_key, actor=actor, at=at)
    return record


def _require_living(record: KeyRecord) -> None:
    if record.destroy_at is None:
        return
    raise KeyConflictError(
        f"the key {str(record.name)!r} is scheduled for destruction, or destroyed",
        code="key-destroying",
        field=str(record.name),
        got=rfc3339_text(record.destroy_at),
        hint=f"to keep it, run 'kms key restore {record.name}' before the destruction",
    )
