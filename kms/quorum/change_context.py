"""The protocol of a change, and the context in which it is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.keys import Wrapped
from kms.domain.people import ChangeKind, Quorum, QuorumRule
from kms.keys.vault import Vault
from kms.store import ReadTransaction, WriteTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """The material of a version of a key, wrapped twice.

    Attributes:
        before: as it is stored.
        after: as it is to be stored.
    """

    before: Wrapped
    after: Wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What was wrapped before anything was locked: what holds the key-encryption key may be far away.

    Attributes:
        rewrapped: keys, by version.
        seal: of a relaxation.
    """

    rewrapped: Mapping[int, Rewrapped] = field(default_factory=dict)
    seal: Wrapped | None = None


NOTHING_PREPARED: Final = Prepared()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    """What a change is done with, in one transaction.

    Attributes:
        tx: the transaction.
        actor: who executes it.
        at: when.
        approval: what the log says of the proposal and of those who signed it; empty without one.
        prepared: what was wrapped before anything was locked.
        longest_glass: the setting ``break_glass_seconds``.
    """

    tx: WriteTransaction
    actor: Actor
    at: datetime
    approval: Mapping[str, JsonValue]
    prepared: Prepared
    longest_glass: timedelta

    def log(self, kind: str, body: Mapping[str, JsonValue]) -> None:
        """Write the change's entry."""
        whole = {**body, **self.approval, "actor": self.actor.members()}
        self.tx.log.add(kind=kind, at=self.at, body=whole)


class ProposedChange(Protocol):
    """One change."""

    @property
    def kind(self) -> ChangeKind:
        """Which rule it has to meet."""

    @property
    def action(self) -> str:
        """What it is called."""

    def arguments(self) -> dict[str, JsonValue]:
        """Return everything that ``read_change`` makes it from again."""

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Return what it builds on; refuse what could not be done now."""

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return the rules that it has to meet; refuse where there is none and one person does not suffice."""

    def prepare(self, vault: Vault) -> Prepared:
        """Do what takes long and changes nothing, before anything is locked."""

    def apply(self, changing: Changing) -> str:
        """Do it, with its log entry; return a line for people."""
