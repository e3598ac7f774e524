"""New limits of a key, as a change that the rule for ``key-policy`` governs, because they too decide on its release."""

from __future__ import annotations

from dataclasses import dataclass

from attest.encoding import JsonValue
from kms.domain.canonical_json import canonical_digest
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyName
from kms.domain.limits import KeyLimits
from kms.domain.people import ChangeKind
from kms.keys.admin import name_members, require_key
from kms.quorum.change_context import Changing, ProposedChange
from kms.store import ReadTransaction

LIMITS_CHANGED = "key-limits-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimitsSet(ProposedChange):
    """New limits.

    ``limits`` are one version above those in force.
    """

    name: KeyName
    limits: KeyLimits

    kind = ChangeKind.KEY_POLICY
    action = "key-limits-set"

    def arguments(self) -> dict[str, JsonValue]:
        """Return the key and its limits."""
        return {"key": str(self.name), "limits": self.limits.members()}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the version before.

        Raises:
            KeyUnknownError: ``key-unknown``.
            KeyConflictError: ``limits-version``.
        """
        require_key(tx, self.name)
        now = tx.limits.in_force(self.name)
        if self.limits.version != now.version + 1:
            raise KeyConflictError(
                f"the limits of {str(self.name)!r} are at version {now.version}",
                code="limits-version",
                field=str(self.name),
                expected=f"version {now.version + 1}",
                got=f"version {self.limits.version}",
                hint="they have changed since; review 'kms key limits show' and start again",
            )
        return {"limits": now.members()}

    def apply(self, changing: Changing) -> str:
        """Put the limits into force."""
        before = changing.tx.limits.in_force(self.name)
        digests: dict[str, JsonValue] = {
            "before_sha256": canonical_digest(before.members()),
            "limits_sha256": canonical_digest(self.limits.members()),
        }
        changing.tx.limits.add(self.name, self.limits, at=changing.at)
        changing.log(LIMITS_CHANGED, {**name_members(self.name), **digests, "limits": self.limits.members()})
        return f"the limits of {self.name} are at version {self.limits.version}"
