"""Changes of a floor. One person raises it; a change that may lower it meets the rule for ``key-policy``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from attest.encoding import JsonValue
from kms.domain.errors import KeyConflictError
from kms.domain.floors import Floor, is_raise
from kms.domain.people import ChangeKind, Quorum, QuorumRule
from kms.domain.permissions import EVERY_TENANT
from kms.quorum.change_context import Changing, ProposedChange
from kms.store import ReadTransaction

FLOOR_CHANGED: Final = "floor-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorLower(ProposedChange):
    """A new version of a floor, which may be lower.

    ``floor`` is one version above the present one.
    """

    floor: Floor

    kind: ClassVar[ChangeKind] = ChangeKind.KEY_POLICY
    action: ClassVar[str] = "floor-lower"

    def arguments(self) -> dict[str, JsonValue]:
        """Return the whole document."""
        return {"floor": self.floor.members(), "sha256": self.floor.digest}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the version before.

        Raises:
            KeyConflictError: ``floor-version`` or ``tenant-unknown``.
        """
        scope = self.floor.scope
        if scope != EVERY_TENANT and not tx.tenants.exists(scope):
            raise KeyConflictError(
                f"there is no tenant {scope!r}", code="tenant-unknown", field=scope, hint="'kms tenant list'"
            )
        now = tx.floors.newest(scope)
        if self.floor.version != now.version + 1:
            raise KeyConflictError(
                f"the {now.name} is at version {now.version}",
                code="floor-version",
                field=scope,
                expected=f"version {now.version + 1}",
                got=f"version {self.floor.version}",
                hint="it has changed since; review 'kms floor show' and start again",
            )
        return {"floor": now.members()}

    def apply(self, changing: Changing) -> str:
        """Put the floor into force."""
        floor = self.floor
        before = changing.tx.floors.newest(floor.scope).digest
        changing.tx.floors.add(floor, at=changing.at)
        digests: dict[str, JsonValue] = {"before_sha256": before, "floor_sha256": floor.digest}
        named: dict[str, JsonValue] = {"scope": floor.scope, "version": floor.version, "change": self.action}
        changing.log(FLOOR_CHANGED, {**named, **digests, "floor": floor.members()})
        return f"the {floor.name} is at version {floor.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRaise(FloorLower):
    """A new version of a floor that requires at least as much as the previous one at every time."""

    action: ClassVar[str] = "floor-raise"

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the version before, and refuse a floor that is lower in any entry.

        Raises:
            KeyConflictError: ``floor-not-raised``, ``floor-version`` or ``tenant-unknown``.
        """
        found = super(FloorRaise, self).state(tx)
        now = tx.floors.newest(self.floor.scope)
        if not is_raise(now, self.floor):
            raise KeyConflictError(
                f"version {self.floor.version} of the {now.name} lowers it",
                code="floor-not-raised",
                field=self.floor.scope,
                expected="every entry, or one that requires as much and starts no later",
                hint="to lower, postpone or end a floor, use the action floor-lower, which may require a quorum",
            )
        return found

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return no rule: it makes the service stricter."""
        del quorum, alone
        return ()
