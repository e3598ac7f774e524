"""Opening break-glass, always by a quorum, and closing it early, for which one person suffices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import JsonValue, rfc3339_text
from attest.policy import identity_of, read_document
from kms.controls.admin import require_frozen
from kms.controls.floors import counting_floors
from kms.domain.actors import Actor
from kms.domain.break_glass import BreakGlass, glass_context, glass_members
from kms.domain.canonical_json import canonical_digest
from kms.domain.errors import KeyConflictError, QuorumRequiredError, UnavailableError
from kms.domain.freezes import Target, require_reason
from kms.domain.keys import KeyName
from kms.domain.people import ChangeKind, Quorum, QuorumRule
from kms.domain.secret import SecretBytes
from kms.keys.admin import require_key
from kms.keys.publication import require_policy_open
from kms.keys.vault import Vault
from kms.quorum.change_context import Changing, Prepared, ProposedChange
from kms.references.resolution import load_guard, named_by
from kms.store import ReadTransaction, Store

GLASS_OPENED: Final = "break-glass-opened"
GLASS_CLOSED: Final = "break-glass-closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakGlassOpen(ProposedChange):
    """One relaxation for one key. Exactly one of ``lifts`` and ``policy`` is given.

    ``until`` is the end of its validity, excluded; whole seconds, UTC.
    """

    name: KeyName
    lifts: Target | None
    policy: bytes | None
    reason: str
    until: datetime

    kind = ChangeKind.BREAK_GLASS
    action = "break-glass-open"

    def arguments(self) -> dict[str, JsonValue]:
        """Return all of it, and a policy as a whole, so that its approvers read what they sign."""
        digest = self.policy_digest
        return {
            "key": str(self.name),
            "lifts": None if self.lifts is None else {"scope": str(self.lifts.scope), "name": self.lifts.name},
            "policy": None if self.policy is None else self.policy.decode(),
            "policy_sha256": None if digest is None else digest.hex(),
            "reason": self.reason,
            "until": rfc3339_text(self.until),
        }

    @property
    def policy_digest(self) -> bytes | None:
        """SHA-256 of the policy, or None."""
        return None if self.policy is None else identity_of(read_document(self.policy)).digest

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the policy in force, and on the very freeze that is lifted.

        Raises:
            KeyUnknownError: ``key-unknown``.
            KeyConflictError: ``not-frozen`` or ``prompt-key-policy``.
        """
        record = require_key(tx, self.name)
        if self.policy is not None:
            require_policy_open(record)
            named_by(self.policy)
        return {
            "policy_sha256": record.policy_digest.hex(),
            "freeze": None if self.lifts is None else require_frozen(tx, self.lifts).members(),
        }

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return the rule; nothing replaces it.

        Raises:
            QuorumRequiredError: ``quorum-required``.
        """
        del alone
        found = quorum.demanded(self.kind)
        if not found:
            raise QuorumRequiredError(
                "break-glass requires a quorum, and there is no rule for it",
                code="quorum-required",
                field=str(self.kind),
                expected="a rule for 'break-glass'",
                hint="set a rule before an emergency: 'kms quorum set break-glass --of M --person NAME …'",
            )
        return found

    def prepare(self, vault: Vault) -> Prepared:
        """Make its seal."""
        members = glass_members(
            self.name, lifts=self.lifts, policy_digest=self.policy_digest, reason=self.reason, until=self.until
        )
        context = glass_context(self.name, members)
        return Prepared(seal=vault.kek.wrap(SecretBytes(context.policy_digest or b""), context=context))

    def apply(self, changing: Changing) -> str:
        """Open it.

        Raises:
            ConfigurationError: the policy does not load.
            KeyConflictError: ``break-glass-time``: it would end too late, or has ended; ``break-glass-open``.
        """
        tx, at, seal = changing.tx, changing.at, changing.prepared.seal
        if seal is None:
            raise UnavailableError("no seal was prepared", code="keys-changing", retryable=True)
        self._require_time(at, changing.longest_relaxation)
        if self.policy is not None:
            loaded, _ = load_guard(tx, self.policy)
            tx.policies.add(digest=loaded.digest, name=loaded.name, version=loaded.version, document=self.policy, at=at)
        self._require_no_other(tx, at)
        tx.keks.require_wrapping(seal)
        opened = BreakGlass(
            number=tx.break_glass.count() + 1,
            key=self.name,
            lifts=self.lifts,
            policy_digest=self.policy_digest,
            reason=self.reason,
            opened_at=at.replace(microsecond=at.microsecond // 1000 * 1000),
            until=self.until,
            seal=seal,
        )
        tx.break_glass.add(opened)
        body: dict[str, JsonValue] = {"break_glass": True, "number": opened.number, "relaxation": opened.relaxation}
        body["opened_at"] = rfc3339_text(opened.opened_at)
        # It lifts no floor: the log entry lists the floors that remain in force.
        floors = counting_floors(tx, self.name.tenant, at=at)
        body |= {"floors": floors} if floors else {}
        changing.log(GLASS_OPENED, {**body, **opened.members(), "sha256": canonical_digest(opened.members())})
        text = f"BREAK-GLASS {opened.number}: {opened.relaxation} for {self.name} until {rfc3339_text(self.until)}"
        return f"{text}; floors that remain in force: {len(floors)}" if floors else text

    def _require_no_other(self, tx: ReadTransaction, at: datetime) -> None:
        for one in tx.break_glass.in_force(at=at):
            if one.key == self.name and (one.lifts, one.policy_digest is None) == (self.lifts, self.policy is None):
                raise KeyConflictError(
                    f"break-glass {one.number} is already open for this relaxation",
                    code="break-glass-open",
                    field=str(self.name),
                    hint=f"close it with 'kms break-glass close {one.number}'",
                )

    def _require_time(self, at: datetime, longest: timedelta) -> None:
        if not at < self.until <= at + longest:
            raise KeyConflictError(
                f"break-glass until {rfc3339_text(self.until)} cannot be opened now",
                code="break-glass-time",
                field="until",
                expected=f"after {rfc3339_text(at)}, and at most {longest} later",
                got=rfc3339_text(self.until),
                hint="propose it again for another time, at most break_glass_seconds from now",
            )


def close_glass(store: Store, number: int, *, reason: str, actor: Actor, at: datetime) -> None:
    """End a relaxation before its time. One person suffices: it makes the service stricter.

    Raises:
        ConfigurationError: ``reason-invalid``.
        KeyConflictError: ``break-glass-not-open``.
    """
    require_reason(reason)
    with store.writing() as tx:
        if number not in {one.number for one in tx.break_glass.in_force(at=at)}:
            raise KeyConflictError(
                f"break-glass {number} is not open",
                code="break-glass-not-open",
                field=str(number),
                hint="'kms break-glass list' lists open ones",
            )
        tx.break_glass.close(number, at=at)
        body: dict[str, JsonValue] = {"number": number, "reason": reason, "actor": actor.members()}
        tx.log.add(kind=GLASS_CLOSED, at=at, body=body)
