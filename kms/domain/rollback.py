"""Rollback guards: a record outside of the database that reveals an older copy of it (MC-36).

A guard is advanced after a commit, and is never ahead of the newest database. A database that is behind its guard was
therefore replaced by an older copy, and one whose log diverges was rewritten.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from attest.errors import ConfigurationError
from kms.domain.errors import IntegrityError
from kms.domain.log_verification import LogState

ReadRoot = Callable[[int], bytes]
"""Returns the RFC 6962 root of the first entries of the log, 32 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePosition:
    """Position of a database.

    Attributes:
        counter: number of writing transactions; 0 for a guard that knows only the log.
        log_size: number of entries of the log.
        log_root: RFC 6962 root at that size, 32 bytes.
    """

    counter: int
    log_size: int
    log_root: bytes

    def is_after(self, other: StatePosition) -> bool:
        """Return True if the database is at or after another position."""
        return (other.counter, other.log_size) < (self.counter, self.log_size)

    @property
    def log(self) -> LogState:
        """State of the log."""
        return LogState(size=self.log_size, root=self.log_root)

    @property
    def text(self) -> str:
        """Position as text, for messages."""
        return f"counter {self.counter}, log {self.log.text}"


class RollbackGuard(Protocol):
    """A record of the newest position, which never decreases unless a person accepts that."""

    @property
    def name(self) -> str:
        """The guard in the notation of the settings, for messages."""

    @property
    def background_seconds(self) -> float:
        """Longest delay before a release is recorded in it."""

    def make(self) -> None:
        """Create it, empty, if it is missing.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it cannot be created.
        """

    def read(self) -> StatePosition | None:
        """Return the recorded position; None if it is empty.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it is missing or cannot be read.
        """

    def advance(self, position: StatePosition) -> None:
        """Record a position, unless the recorded one is later; it is durable when this returns.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it is missing or cannot be written.
        """

    def put(self, position: StatePosition) -> None:
        """Record a position, even an earlier one.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it cannot be written.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The position recorded in a guard, with the guard's name."""

    guard: str
    position: StatePosition


def read_guards(guards: Iterable[RollbackGuard]) -> tuple[Remembered, ...]:
    """Return the position in every guard. Read them before the database, so that no race lets it appear behind.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: one is missing, empty or unreadable.
    """
    return tuple(Remembered(guard=one.name, position=require_written(one.name, one.read())) for one in guards)


def require_written(name: str, position: StatePosition | None) -> StatePosition:
    """Return the position recorded in a guard of this name.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: it is empty.
    """
    if position is None:
        raise guard_missing(name, "it is empty")
    return position


def require_not_behind(position: StatePosition, remembered: Iterable[Remembered], *, root_at: ReadRoot) -> None:
    """Refuse a database that is older than the position in a guard, or whose log diverges from it.

    Raises:
        IntegrityError: ``state-rolled-back``.
        LogBrokenError: ``log-tree-broken``.
    """
    for one in remembered:
        kept = one.position
        if position.counter < kept.counter or position.log_size < kept.log_size:
            raise _rolled_back(one, "the database was replaced by an older copy", position)
        if not hmac.compare_digest(kept.log_root, root_at(kept.log_size)):
            raise _rolled_back(
                one, "the log of the database diverges, or the guard belongs to another service", position
            )


def _rolled_back(remembered: Remembered, problem: str, position: StatePosition) -> IntegrityError:
    return IntegrityError(
        f"{problem}: the rollback guard {remembered.guard} is at {remembered.position.text}, "
        f"and the database is at {position.text}",
        code="state-rolled-back",
        field="database",
        expected=f"at least {remembered.position.text}",
        got=position.text,
        hint="stop everything that uses the database and restore the newest one; if there is none, accept this one "
        "with 'kms guard accept --because REASON', which undoes later disables and freezes",
    )


def guard_missing(name: str, problem: str) -> ConfigurationError:
    """Return the refusal for an unusable guard: without it, the database could be an older copy."""
    return ConfigurationError(
        f"the rollback guard {name} cannot be used: {problem}",
        code="rollback-guard-missing",
        field="rollback_guard",
        expected="a guard with the position of the database",
        got=problem,
        hint="a missing guard can conceal an older copy of the database: compare it with a state noted elsewhere "
        "('kms fsck --expect'), then create a new guard with 'kms guard init'",
    )
