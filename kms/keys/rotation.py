"""New versions of a key, made when somebody asks for one or when the key's schedule says so.

Each rotation is one transaction with its log entry: the version that was current begins to end, and the new one is the
current one. Which of several replicas makes a due rotation is left to the database: the schedule is read again under
the one write lock, and who comes second finds the next one far away.
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
from kms.domain.material import new_material, public_half, require_material
from kms.domain.secret import SecretBytes
from kms.keys.admin import name_members, require_key
from kms.keys.import_key import next_terms
from kms.keys.publication import publish
from kms.store import Store, WriteTransaction
from kms.store.timestamps import whole_millisecond

__all__ = [
    "DEFAULT_OVERLAP",
    "KEY_ROTATED",
    "SCHEDULE_REMOVED",
    "SCHEDULE_SET",
    "Rotator",
    "remove_schedule",
    "rotate_due",
    "rotate_key",
    "set_schedule",
]

KEY_ROTATED = "key-rotated"
SCHEDULE_SET = "key-schedule-set"
SCHEDULE_REMOVED = "key-schedule-removed"
DEFAULT_OVERLAP: Final = timedelta(days=7)
"""How long the version before is released after a rotation that says nothing else."""
MAX_ATTEMPTS: Final = 3
"""How often a rotation starts over because the key changed while the new version was being wrapped."""
MAX_DUE: Final = 256
"""Of rotations that are due, at most so many are made in one go; the others are made in the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotator:
    """What a rotation is made with.

    Attributes:
        store: where keys are kept.
        kek: wraps the new material.
        random: where the new material comes from.
    """

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
    """Make a new version of a key the current one.

    Args:
        rotator: what it is made with.
        name: which key.
        overlap: how long the version that was current is still released to who asks for it by its number.
        actor: who asks for it.
        at: when.
        material: the new version's, where its owner made it; else it is made here.
        terms: what its owner sealed it as, and what it therefore has to be kept as.

    Returns:
        The new version.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroying``; ``key-material-invalid``.
        UnavailableError: the database is in use, or what holds the key-encryption key does not answer; or
            ``keys-changing``.
    """
    for _ in range(MAX_ATTEMPTS):
        with rotator.store.reading() as tx:
            before = require_key(tx, name)
        _require_living(before)
        if terms is not None and next_terms(before) != terms:
            break
        record, public_key = _next_version(rotator, before, material=material, at=at)
        with rotator.store.writing() as tx:
            if require_key(tx, name) != before:
                continue
            _put_in_place(tx, before, record, overlap=overlap, made=material is None, actor=actor, at=at)
            publish(tx, record, public_key, actor=actor, at=at)
            schedule = tx.schedules.find(name)
            if schedule is not None:
                tx.schedules.put(replace(schedule, due_at=whole_millisecond(at + schedule.every)))
            return record
    raise UnavailableError(
        f"the key {str(name)!r} changed while it was being rotated", code="keys-changing", retryable=True
    )


def set_schedule(
    store: Store, name: KeyName, *, every: timedelta, overlap: timedelta, actor: Actor, at: datetime
) -> RotationSchedule:
    """Let a key get a new version by itself, for the first time when ``every`` has passed.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroying``; ``schedule-invalid``: the overlap is longer than the time between
            rotations, or that time is nothing.
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
            hint="rotate less often, or let versions overlap for a shorter time",
        ) from exc
    with store.writing() as tx:
        _require_living(require_key(tx, name))
        tx.schedules.put(schedule)
        body: dict[str, JsonValue] = {
            **name_members(name),
            "every_seconds": every // timedelta(seconds=1),
            "overlap_seconds": overlap // timedelta(seconds=1),
            "due_at": rfc3339_text(schedule.due_at),
            "actor": actor.members(),
        }
        tx.log.add(kind=SCHEDULE_SET, at=at, body=body)
    return schedule


def remove_schedule(store: Store, name: KeyName, *, actor: Actor, at: datetime) -> None:
    """Let a key get no new version by itself any more.

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
    """Make the rotations whose moment has come, each once, however many replicas do this.

    The next rotation of a key is due when its time has passed after this one: a service that was down for long makes
    one rotation and not all that were missed, and a clock that goes back makes none.

    Args:
        rotator: what they are made with.
        at: when.
        failed: is told of a key that could not be rotated; the others are.

    Returns:
        The new versions that were made here.

    Raises:
        UnavailableError: the database is in use.
    """
    with rotator.store.reading() as tx:
        due = tx.schedules.due(at, limit=MAX_DUE)
    made: list[KeyRecord] = []
    for one in due:
        try:
            record = _rotate_if_due(rotator, one.name, at=at)
        except AttestError as exc:
            failed(one.name, exc)
        else:
            made += [] if record is None else [record]
    return tuple(made)


def _rotate_if_due(rotator: Rotator, name: KeyName, *, at: datetime) -> KeyRecord | None:
    """Look again under the write lock: another replica may have been here since."""
    with rotator.store.reading() as tx:
        before, schedule = require_key(tx, name), tx.schedules.find(name)
    if schedule is None or schedule.due_at > at or before.destroy_at is not None:
        return None
    record, public_key = _next_version(rotator, before, material=None, at=at)
    with rotator.store.writing() as tx:
        if (require_key(tx, name), tx.schedules.find(name)) != (before, schedule):
            return None
        _put_in_place(tx, before, record, overlap=schedule.overlap, made=True, actor=SCHEDULE, at=at)
        publish(tx, record, public_key, actor=SCHEDULE, at=at)
        tx.schedules.put(replace(schedule, due_at=whole_millisecond(at + schedule.every)))
    return record


def _next_version(
    rotator: Rotator, before: KeyRecord, *, material: SecretBytes | None, at: datetime
) -> tuple[KeyRecord, bytes | None]:
    """Make and wrap the next version, before anything is locked: the key-encryption key may be far away.

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
    record: KeyRecord,
    *,
    overlap: timedelta,
    made: bool,
    actor: Actor,
    at: datetime,
) -> None:
    end = whole_millisecond(at + overlap)
    tx.keys.supersede(before, overlap_until=end)
    tx.keys.add_version(record)
    body: dict[str, JsonValue] = {
        **name_members(record.name),
        "version": record.version,
        "material": "made" if made else "imported",
        "policy_sha256": record.policy_digest.hex(),
        "previous": before.version,
        "previous_until": rfc3339_text(end),
        "actor": actor.members(),
    }
    tx.log.add(kind=KEY_ROTATED, at=at, body=body)


def _require_living(record: KeyRecord) -> None:
    if record.destroy_at is None:
        return
    raise KeyConflictError(
        f"the key {str(record.name)!r} is to be destroyed, or was",
        code="key-destroying",
        field=str(record.name),
        got=rfc3339_text(record.destroy_at),
        hint=f"'kms key restore {record.name}' keeps it, before that moment",
    )
