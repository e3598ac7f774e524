"""Destruction of keys: scheduled with a delay, then permanent.

A key is no longer released once its destruction is scheduled, and can be restored until the delay ends. Then its
wrapped material is overwritten in the database. The row stays, so that name and number are never reused. Other copies
(backups, pages that a database has not reused yet) contain it in wrapped form; ``docs/keys.md`` describes how to handle
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from kms.store import ReadTransaction, Store
from kms.store.timestamps import whole_millisecond

DESTRUCTION_SCHEDULED = "key-destruction-scheduled"
DESTRUCTION_CANCELLED = "key-destruction-cancelled"
DESTROYED = "key-destroyed"
MAX_DUE: Final = 256
"""Most due destructions done in one pass; the next pass does the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDestruction:
    """A planned destruction.

    Attributes:
        versions: the versions, oldest first.
        at: moment of the destruction.
    """

    versions: tuple[KeyRecord, ...]
    at: datetime


def plan_destruction(
    tx: ReadTransaction, asked: KeyReference, *, after: timedelta, minimum: timedelta, at: datetime
) -> PlannedDestruction:
    """Plan a destruction without changing anything.

    Args:
        tx: the transaction.
        asked: a key with all its versions, or one version that is not the current one.
        after: delay, during which it can be cancelled.
        minimum: shortest allowed delay.
        at: now.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``destroy-delay-too-short``; ``key-version-current``; ``key-state-unchanged``: all of it is
            to be destroyed, or was.
    """
    if after < minimum:
        raise KeyConflictError(
            f"a key is destroyed after {duration_text(minimum)} at the earliest",
            code="destroy-delay-too-short",
            field=str(asked),
            expected=f"at least {duration_text(minimum)}",
            got=duration_text(after),
            hint="disable it: that is at once. The setting destroy_delay_seconds says how long a mistake can be undone",
        )
    versions = _versions(tx, asked)
    if asked.version is not None and versions[0].is_current:
        raise KeyConflictError(
            f"{str(asked)!r} is the current version of its key",
            code="key-version-current",
            field=str(asked),
            hint=f"'kms key rotate {asked.name}' makes another one current; 'kms key destroy {asked.name}' ends all",
        )
    living = tuple(one for one in versions if one.destroy_at is None)
    if not living:
        raise KeyConflictError(
            f"{str(asked)!r} is to be destroyed already, or was", code="key-state-unchanged", field=str(asked)
        )
    return PlannedDestruction(versions=living, at=whole_millisecond(at + after))


def schedule_destruction(
    store: Store, asked: KeyReference, *, after: timedelta, minimum: timedelta, actor: Actor, at: datetime
) -> PlannedDestruction:
    """Stop releasing a key, or one of its versions, and schedule its destruction.

    Args:
        store: the database.
        asked: a key with all its versions, or one version that is not the current one.
        after: delay, during which it can be cancelled.
        minimum: shortest allowed delay.
        actor: the requester.
        at: now.

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
    return planned


def restore_key(store: Store, asked: KeyReference, *, actor: Actor, at: datetime) -> tuple[KeyRecord, ...]:
    """Cancel a destruction before its moment. The key is released again as it was before.

    Args:
        store: the database.
        asked: a key with all its versions that are to be destroyed, or one version.
        actor: the requester.
        at: now; the moment of the destruction is too late.

    Returns:
        The restored versions.

    Raises:
        KeyUnknownError: ``key-unknown``.
        KeyConflictError: ``key-destroyed``: its moment has come; ``key-state-unchanged``: nothing is to be destroyed.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        ending = tuple(one for one in _versions(tx, asked) if one.destroy_at is not None)
        if not ending:
            raise KeyConflictError(
                f"{str(asked)!r} is not to be destroyed", code="key-state-unchanged", field=str(asked)
            )
        saved = tuple(one for one in ending if one.destroy_at is not None and at < one.destroy_at)
        if not saved:
            raise KeyConflictError(
                f"{str(asked)!r} was destroyed", code="key-destroyed", field=str(asked), hint="nothing brings it back"
            )
        for record in saved:
            tx.keys.set_destruction(record, destroy_at=None)
        tx.log.add(kind=DESTRUCTION_CANCELLED, at=at, body=_body(saved, actor))
    return saved


def destroy_due(
    store: Store, *, at: datetime, failed: Callable[[KeyReference, AttestError], None]
) -> tuple[KeyReference, ...]:
    """Destroy the material that is due, each version once, with any number of replicas.

    Args:
        store: the database.
        at: when.
        failed: callback for each version that could not be destroyed; the others are.

    Returns:
        The versions destroyed by this call.

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


def _body(versions: Iterable[KeyRecord], actor: Actor) -> dict[str, JsonValue]:
    each = tuple(versions)
    return {
        **name_members(each[0].name),
        "versions": [record.version for record in each],
        "actor": actor.members(),
    }
