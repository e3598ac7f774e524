"""Destruction of keys: scheduled with a delay, then permanent.

A key is no longer released once its destruction is scheduled, and can be restored until the delay ends. Then its
wrapped material is overwritten in the database. The row stays, so that name and number are never reused. Other copies
(backups, pages that a database has not reused yet) contain it in wrapped form; ``docs/keys.md`` describes how to handle
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from kms.domain.actors import SCHEDULE, Actor
from kms.domain.durations import duration_text
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyRecord, KeyReference
from kms.keys.admin import name_members, unknown_key
from kms.store import ReadTransaction, Store, WriteTransaction
from kms.store.timestamps import whole_millisecond

DESTRUCTION_SCHEDULED = "key-destruction-scheduled"
DESTRUCTION_CANCELLED = "key-destruction-cancelled"
DESTROYED = "key-destroyed"
MAX_DUE: Final = 256
"""Most due destructions done in one pass; the next pass does the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDestruction:
    """The versions of a planned destruction, oldest first, and its moment."""

    versions: tuple[KeyRecord, ...]
    at: datetime


def plan_destruction(
    tx: ReadTransaction, asked: KeyReference, *, after: timedelta, minimum: timedelta, at: datetime
) -> PlannedDestruction:
    """Plan the destruction of a key with all its versions, or of one version that is not the current one.

    Nothing is changed. The destruction can be cancelled for the time ``after``, which is at least ``minimum``.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``destroy-delay-too-short``; ``key-version-current``; ``key-state-unchanged``: all of it is
            already scheduled for destruction, or destroyed.
    """
    _require_delay(asked, after=after, minimum=minimum)
    versions = _versions(tx, asked)
    if asked.version is not None and versions[0].is_current:
        raise KeyConflictError(
            f"{str(asked)!r} is the current version of its key",
            code="key-version-current",
            field=str(asked),
            hint=f"first 'kms key rotate {asked.name}', or destroy all versions: 'kms key destroy {asked.name}'",
        )
    living = tuple(one for one in versions if one.destroy_at is None)
    if not living:
        raise KeyConflictError(
            f"{str(asked)!r} is being destroyed, or was destroyed",
            code="key-state-unchanged",
            field=str(asked),
        )
    return PlannedDestruction(versions=living, at=whole_millisecond(at + after))


def _require_delay(asked: KeyReference, *, after: timedelta, minimum: timedelta) -> None:
    if after < minimum:
        raise KeyConflictError(
            f"a key can be destroyed after {duration_text(minimum)} at the earliest",
            code="destroy-delay-too-short",
            field=str(asked),
            expected=f"at least {duration_text(minimum)}",
            got=duration_text(after),
            hint="to stop releases immediately, disable it; the minimum is the setting destroy_delay_seconds",
        )


def schedule_destruction(
    store: Store,
    asked: KeyReference,
    *,
    after: timedelta,
    minimum: timedelta,
    actor: Actor,
    at: datetime,
    also: Callable[[WriteTransaction], object] = lambda _: None,
) -> PlannedDestruction:
    """Stop releasing a key, or one of its versions, and schedule its destruction as ``plan_destruction`` does.

    ``also`` is done in the same transaction, at its end.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: as ``plan_destruction``.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        planned = plan_destruction(tx, asked, after=after, minimum=minimum, at=at)
        for record in planned.versions:
            tx.keys.set_destruction(record, destroy_at=planned.at)
        body = _body(planned.versions, actor) | {"destroy_at": rfc3339_text(planned.at)}
        tx.log.add(kind=DESTRUCTION_SCHEDULED, at=at, body=body)
        also(tx)
    return planned


def restore_key(store: Store, asked: KeyReference, *, actor: Actor, at: datetime) -> tuple[KeyRecord, ...]:
    """Cancel the destruction of a key, or of one version, before its moment; return the restored versions.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroyed``: the delay is over; ``key-state-unchanged``: no destruction is scheduled.
        UnavailableError: the database is in use.
    """
    name = str(asked)
    with store.writing() as tx:
        ending = [(one, one.destroy_at) for one in _versions(tx, asked) if one.destroy_at is not None]
        if not ending:
            raise KeyConflictError(f"{name!r} is not scheduled for destruction", code="key-state-unchanged", field=name)
        saved = tuple(one for one, moment in ending if at < moment)
        if not saved:
            hint = "this cannot be undone"
            raise KeyConflictError(f"{name!r} was destroyed", code="key-destroyed", field=name, hint=hint)
        for record in saved:
            tx.keys.set_destruction(record, destroy_at=None)
        tx.log.add(kind=DESTRUCTION_CANCELLED, at=at, body=_body(saved, actor))
    return saved


def destroy_due(
    store: Store, *, at: datetime, failed: Callable[[KeyReference, AttestError], None]
) -> tuple[KeyReference, ...]:
    """Destroy the material that is due, each version once, with any number of replicas.

    ``failed`` is called for each version that could not be destroyed. The versions destroyed by this call are returned.

    Raises:
        UnavailableError: the database is in use.
    """
    with store.reading() as tx:
        due = tx.keys.due_destructions(at, limit=MAX_DUE)
    done: list[KeyReference] = []
    for one in due:
        try:
            done += [one] if _destroy_if_due(store, one, at=at) else []
        except AttestError as exc:
            failed(one, exc)
    return tuple(done)


def _destroy_if_due(store: Store, asked: KeyReference, *, at: datetime) -> bool:
    """Check again under the write lock: it may have been restored, or destroyed by another replica."""
    with store.writing() as tx:
        record = tx.keys.find(asked)
        if record is None or record.destroy_at is None or record.destroy_at > at or record.is_destroyed:
            return False
        tx.keys.erase(record)
        if record.is_current:
            tx.schedules.remove(record.name)
        tx.log.add(kind=DESTROYED, at=at, body=_body((record,), SCHEDULE))
    return True


def _versions(tx: ReadTransaction, asked: KeyReference) -> tuple[KeyRecord, ...]:
    found = tuple(one for one in tx.keys.versions(asked.name) if asked.version in {None, one.version})
    if not found:
        raise unknown_key(asked)
    return found


def _body(versions: Sequence[KeyRecord], actor: Actor) -> dict[str, JsonValue]:
    numbers: list[JsonValue] = [record.version for record in versions]
    return {**name_members(versions[0].name), "versions": numbers, "actor": actor.members()}
