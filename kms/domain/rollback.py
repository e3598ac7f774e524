"""Rollback guards: a memory outside of the database by which an older copy of it is found (MC-36).

A guard is advanced after a commit, and is never ahead of the newest database. So a database that is behind its guard
was replaced by an older copy, and one whose log went another way was rewritten.
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
    """How far a database has come.

    Attributes:
        counter: number of writing transactions; 0 of a guard that knows the log alone.
        log_size: number of entries of the log.
        log_root: RFC 6962 root at that size, 32 bytes.
    """

    counter: int
    log_size: int
    log_root: bytes

    def is_after(self, other: StatePosition) -> bool:
        """Return True if the database went on from another position."""
        return (other.counter, other.log_size) < (self.counter, self.log_size)

    @property
    def log(self) -> LogState:
        """State of the log."""
        return LogState(size=self.log_size, root=self.log_root)

    @property
    def text(self) -> str:
        """Position for people."""
        return f"counter {self.counter}, log {self.log.text}"


class RollbackGuard(Protocol):
    """A memory of the newest position, which never goes back unless a person accepts that."""

    @property
    def name(self) -> str:
        """The guard as the settings name it, for messages."""

    @property
    def background_seconds(self) -> float:
        """Longest time for which a release may be missing in it."""

    def make(self) -> None:
        """Make it if it is missing; it remembers nothing then.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it cannot be made.
        """

    def read(self) -> StatePosition | None:
        """Return the position that it remembers; None if it was made and never written.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it is missing or cannot be read.
        """

    def advance(self, position: StatePosition) -> None:
        """Remember a position unless it remembers a later one; it is durable when this returns.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it is missing or cannot be written.
        """

    def put(self, position: StatePosition) -> None:
        """Remember a position, even an earlier one.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it cannot be written.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The position that a guard remembers, with the guard's name."""

    guard: str
    position: StatePosition


def read_guards(guards: Iterable[RollbackGuard]) -> tuple[Remembered, ...]:
    """Return what every guard remembers. Read it before the database, which then cannot be behind by a race.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: one is missing, empty or unreadable.
    """
    return tuple(Remembered(guard=one.name, position=require_written(one.name, one.read())) for one in guards)


def require_written(name: str, position: StatePosition | None) -> StatePosition:
    """Return the position that a guard of this name remembers.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: it is empty.
    """
    if position is None:
        raise guard_missing(name, "it is empty")
    return position


def require_not_behind(position: StatePosition, remembered: Iterable[Remembered], *, root_at: ReadRoot) -> None:
    """Refuse a database that is older than a guard remembers, or whose log went another way.

    Raises:
        IntegrityError: ``state-rolled-back``.
        LogBrokenError: ``log-tree-broken``.
    """
    for one in remembered:
        kept = one.position
        if position.counter < kept.counter or position.log_size < kept.log_size:
            raise _rolled_back(one, "an older copy of the database was put back", position)
        if not hmac.compare_digest(kept.log_root, root_at(kept.log_size)):
            raise _rolled_back(
                one, "the log of the database went another way, or the guard is that of another service", position
            )


def _rolled_back(remembered: Remembered, problem: str, position: StatePosition) -> IntegrityError:
    return IntegrityError(
        f"{problem}: the rollback guard {remembered.guard} remembers {remembered.position.text}, "
        f"and the database is at {position.text}",
        code="state-rolled-back",
        field="database",
        expected=f"at least {remembered.position.text}",
        got=position.text,
        hint="stop everything that uses the database and put the newest one back; where there is none, "
        "'kms guard accept --because REASON' accepts this one, and what was disabled or frozen since is revived",
    )


def guard_missing(name: str, problem: str) -> ConfigurationError:
    """Return the refusal of a guard that does not answer: without it, the database may be an older copy."""
    return ConfigurationError(
        f"the rollback guard {name} cannot be used: {problem}",
        code="rollback-guard-missing",
        field="rollback_guard",
        expected="a guard that remembers how far the database has come",
        got=problem,
        hint="a guard that is gone may hide an older copy of the database: compare with a state noted elsewhere "
        "('kms fsck --expect'), then 'kms guard init' makes a new one",
    )
