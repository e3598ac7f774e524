"""Guards of a new, restored or accepted database: the only functions that set a guard to an earlier position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError
from kms.domain.actors import Actor
from kms.domain.errors import UnavailableError
from kms.domain.rollback import RollbackGuard, StatePosition
from kms.operations.continuity import RESTORED_AT, AcceptedRollback
from kms.store import Store

GUARD_MADE = "rollback-guard-made"
ROLLBACK_ACCEPTED = "rollback-accepted"


def prepare_guards(guards: Iterable[RollbackGuard]) -> None:
    """Create empty guards for a new database.

    Raises:
        ConfigurationError: ``rollback-guard-exists``: one belongs to another database; or ``rollback-guard-missing``.
    """
    for guard in guards:
        guard.make()
        if guard.read() is not None:
            raise ConfigurationError(
                f"the rollback guard {guard.name} belongs to an existing database",
                code="rollback-guard-exists",
                field="rollback_guard",
                expected="a guard that is missing or empty",
                got=guard.name,
                hint="use another one; or remove it, if its service no longer exists",
            )


def mark_guards(guards: Iterable[RollbackGuard], store: Store) -> None:
    """Set the missing or empty guards of a new database to its position.

    Raises:
        UnavailableError: a guard cannot be written, so that the draft of the key must stay for the next initialisation;
            or the database is in use or unavailable.
    """
    position = _position(store)
    try:
        for guard in guards:
            guard.make()
            if guard.read() is None:
                guard.put(position)
    except ConfigurationError as exc:
        hint = "make it writable, and repeat the command"
        raise UnavailableError(exc.message, code=exc.code, field=exc.field, got=exc.got, hint=hint) from exc


def read_memories(guards: Iterable[RollbackGuard]) -> dict[str, StatePosition | None]:
    """Return the position of each guard by its name; None for one that is missing, empty or unreadable."""
    found: dict[str, StatePosition | None] = {}
    for guard in guards:
        try:
            found[guard.name] = guard.read()
        except ConfigurationError:
            found[guard.name] = None
    return found


def texts(memories: Mapping[str, StatePosition | None]) -> dict[str, JsonValue]:
    """Return the positions of guards, for the log; null for an empty one."""
    return {name: None if one is None else one.text for name, one in memories.items()}


def put_guards(guards: Iterable[RollbackGuard], store: Store) -> StatePosition:
    """Set guards to the position of a database, even an earlier one; return it.

    Raises:
        ConfigurationError: ``rollback-guard-missing``.
        UnavailableError: the database is in use, or away.
    """
    position = _position(store)
    for guard in guards:
        guard.make()
        guard.put(position)
    return position


def make_guards(store: Store, guards: Iterable[RollbackGuard], *, actor: Actor, at: datetime) -> tuple[str, ...]:
    """Create the missing or empty guards at the position of the database, and log that.

    Returns:
        The names of those that were made.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: one cannot be created, or has other content.
        UnavailableError: the database is in use, or the clock is wrong.
    """
    fresh: list[RollbackGuard] = []
    for guard in guards:
        guard.make()
        if guard.read() is None:
            fresh.append(guard)
    names = tuple(guard.name for guard in fresh)
    if fresh:
        named: list[JsonValue] = [*names]
        with store.writing() as tx:
            tx.log.add(kind=GUARD_MADE, at=at, body={"actor": actor.members(), "guards": named})
        put_guards(fresh, store)
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The consent of a person to a database that is older than the positions of its guards."""

    accepted: AcceptedRollback
    remembered: Mapping[str, StatePosition | None]
    actor: Actor
    at: datetime


def accept_rollback(store: Store, guards: Iterable[RollbackGuard], acceptance: Acceptance) -> StatePosition:
    """Log the consent, refuse earlier challenges, and set the guards to the position of the database.

    Raises:
        ConfigurationError: ``rollback-guard-missing``.
        UnavailableError: the database is in use, or the clock is wrong.
    """
    body: dict[str, JsonValue] = {
        "actor": acceptance.actor.members(),
        "reason": acceptance.accepted.reason,
        "rollback_guards": texts(acceptance.remembered),
        "restored_at": rfc3339_text(acceptance.at),
    }
    with store.writing() as tx:
        tx.facts.put(RESTORED_AT, rfc3339_text(acceptance.at).encode())
        tx.log.add(kind=ROLLBACK_ACCEPTED, at=acceptance.at, body={**body, "database": tx.position.text})
    return put_guards(guards, store)


def _position(store: Store) -> StatePosition:
    with store.reading() as tx:
        return tx.position
