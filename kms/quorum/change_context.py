"""Changes that can need a quorum, and the context in which one is applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.keys import Wrapped
from kms.domain.people import ChangeKind, Quorum, QuorumRule
from kms.keys.vault import Vault
from kms.store import ReadTransaction, WriteTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """The material of a version of a key, wrapped twice."""

    before: Wrapped
    after: Wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Secrets wrapped before the database is locked: the key-encryption key may be on a remote server."""

    rewrapped: Mapping[int, Rewrapped] = field(default_factory=dict)
    seal: Wrapped | None = None


NOTHING_PREPARED: Final = Prepared()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    """Context of a change, in one transaction.

    Attributes:
        approval: members of the log entry that name the proposal and its signers; empty without a proposal.
        longest_relaxation: the setting ``break_glass_seconds``.
    """

    tx: WriteTransaction
    actor: Actor
    at: datetime
    approval: Mapping[str, JsonValue]
    prepared: Prepared
    longest_relaxation: timedelta

    def log(self, kind: str, body: Mapping[str, JsonValue]) -> None:
        """Write the change's entry."""
        whole = {**body, **self.approval, "actor": self.actor.members()}
        self.tx.log.add(kind=kind, at=self.at, body=whole)


class ProposedChange(ABC):
    """One change. Each states what it builds on and which rules it must meet, and applies itself."""

    __slots__ = ()

    kind: ClassVar[ChangeKind]
    action: ClassVar[str]

    @abstractmethod
    def arguments(self) -> dict[str, JsonValue]:
        """Return the arguments from which ``read_change`` makes it again."""

    @abstractmethod
    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Return the state that it builds on; refuse a change that is impossible now."""

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return the rules that it must meet: by default that for its kind, if there is one.

        ``alone`` is the setting ``allow_thaw_by_one``.

        Raises:
            QuorumRequiredError: ``quorum-required``: there is no rule, and one person does not suffice.
        """
        del alone
        return quorum.demanded(self.kind)

    def prepare(self, vault: Vault) -> Prepared:
        """Wrap what the change needs, before the database is locked; by default nothing."""
        del vault
        return NOTHING_PREPARED

    @abstractmethod
    def apply(self, changing: Changing) -> str:
        """Apply the change and log it; return a line for people."""
