"""Changes that can be proposed, and how each is made from the arguments of a proposal."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue, base64_bytes, rfc3339
from attest.errors import ConfigurationError, EvidenceError
from kms.controls.admin import THAWED, require_frozen, thaw_in
from kms.domain.errors import KeyConflictError, QuorumRequiredError
from kms.domain.floors import read_floor
from kms.domain.freezes import Target, require_reason, target
from kms.domain.keys import KeyName
from kms.domain.limits import read_limits
from kms.domain.people import ChangeKind, Quorum, QuorumRule, read_quorum
from kms.quorum.anchors import AnchorsApprove
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.change_context import Changing, ProposedChange
from kms.quorum.floors import FloorLower, FloorRaise
from kms.quorum.keks import KekRetirement, KekRotation
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet, read_references
from kms.quorum.vault_policy import VaultPolicySet, stored_release_policy
from kms.store import ReadTransaction

_log = logging.getLogger("kms")
QUORUM_CHANGED: Final = "quorum-changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSet(ProposedChange):
    """New people and rules."""

    then: Quorum

    kind = ChangeKind.QUORUM
    action = "quorum-set"

    def arguments(self) -> dict[str, JsonValue]:
        """Return the whole document."""
        return {"quorum": self.then.members(), "sha256": self.then.digest}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the version before. The first rules are not set up while something is frozen.

        Raises:
            KeyConflictError: ``quorum-version`` or ``quorum-while-frozen``.
        """
        now = tx.quorum.current()
        if self.then.version != now.version + 1:
            raise KeyConflictError(
                f"people and rules are at version {now.version}",
                code="quorum-version",
                field="quorum",
                expected=f"version {now.version + 1}",
                got=f"version {self.then.version}",
                hint="they have changed since; review 'kms quorum show' and start again",
            )
        if self.then.rules and not now.rules:
            _require_nothing_frozen(tx)
        return {"version": now.version, "sha256": now.digest}

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return the rule for this, and every rule that it alters."""
        del alone
        return quorum.demanded(ChangeKind.QUORUM, then=self.then)

    def apply(self, changing: Changing) -> str:
        """Put the document into force."""
        changing.tx.quorum.add(self.then, at=changing.at)
        rules: list[JsonValue] = [f"{one.kind}: {one.threshold} of {', '.join(one.people)}" for one in self.then.rules]
        people: list[JsonValue] = [f"{one.name} {one.key_id}" for one in self.then.people]
        body: dict[str, JsonValue] = {"version": self.then.version, "sha256": self.then.digest}
        changing.log(QUORUM_CHANGED, {**body, "people": people, "rules": rules})
        return f"people and rules are at version {self.then.version}"


def _require_nothing_frozen(tx: ReadTransaction) -> None:
    """Refuse the first rules under a freeze: a person who may not thaw alone could become the only approver."""
    if tx.freezes.all():
        raise KeyConflictError(
            "the first rules cannot be set during a freeze: the quorum could be one person, who then lifts it",
            code="quorum-while-frozen",
            field="quorum",
            expected="rules from before the freeze",
            hint="first lift the freeze under allow_thaw_by_one = true, which each start reports and the log records",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Thaw(ProposedChange):
    """Lifting of a freeze."""

    target: Target
    reason: str

    kind = ChangeKind.THAW
    action = "thaw"

    def arguments(self) -> dict[str, JsonValue]:
        """Return the target and the reason."""
        return {"scope": str(self.target.scope), "name": self.target.name, "reason": self.reason}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on this very freeze; a later freeze of the same target is another one.

        Raises:
            KeyConflictError: ``not-frozen``.
        """
        return {"freeze": require_frozen(tx, self.target).members()}

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Return the rule; without one, the setting decides.

        Raises:
            QuorumRequiredError: ``quorum-required``.
        """
        found = quorum.demanded(ChangeKind.THAW)
        if not found and not alone:
            raise QuorumRequiredError(
                "one person cannot lift a freeze, and there is no quorum rule for it",
                code="quorum-required",
                field="thaw",
                expected="a rule for 'thaw', or the setting allow_thaw_by_one",
                hint="set a rule with 'kms quorum set thaw --of M --person NAME … --propose', under the rule for "
                "'quorum'; then propose this"
                if quorum.rules
                else "rules cannot be set during a freeze. On a service that never had a rule, lift the freeze under "
                "allow_thaw_by_one = true, which each start reports and the log records; then register people and "
                "set rules for the next time",
            )
        return found

    def apply(self, changing: Changing) -> str:
        """Lift it; the log and a warning state if no quorum approved this."""
        thaw_in(changing.tx, self.target)
        by_one = not changing.tx.quorum.current().demanded(ChangeKind.THAW)
        changing.log(THAWED, {**self.arguments(), **({"by_one": True} if by_one else {})})
        if by_one:
            _log.warning("FREEZE LIFTED BY ONE: %s, by %s, under allow_thaw_by_one", self.target, changing.actor.name)
        return f"{self.target} is no longer frozen"


def _quorum_set(arguments: Mapping[str, JsonValue]) -> QuorumSet:
    _require_names(arguments, {"quorum", "sha256"})
    found = QuorumSet(then=read_quorum(arguments["quorum"]))
    if arguments["sha256"] != found.then.digest:
        raise _wrong("the digest does not match the document")
    return found


def _thaw(arguments: Mapping[str, JsonValue]) -> Thaw:
    _require_names(arguments, {"scope", "name", "reason"})
    scope, name, reason = (str(arguments[one]) for one in ("scope", "name", "reason"))
    return Thaw(target=target(scope, name or None), reason=require_reason(reason))


def _kek(arguments: Mapping[str, JsonValue]) -> bytes:
    _require_names(arguments, {"kek"})
    text = str(arguments["kek"])
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise _wrong("expected the id of a key-encryption key, 64 hex digits")
    return bytes.fromhex(text)


def _key_limits_set(arguments: Mapping[str, JsonValue]) -> KeyLimitsSet:
    _require_names(arguments, {"key", "limits"})
    return KeyLimitsSet(name=KeyName.parse(str(arguments["key"])), limits=read_limits(arguments["limits"]))


def _floor(arguments: Mapping[str, JsonValue], make: type[FloorLower]) -> FloorLower:
    _require_names(arguments, {"floor", "sha256"})
    found = make(floor=read_floor(arguments["floor"]))
    if arguments["sha256"] != found.floor.digest:
        raise _wrong("the digest does not match the floor")
    return found


def _key_policy_set(arguments: Mapping[str, JsonValue]) -> KeyPolicySet:
    _require_names(arguments, {"key", "policy", "policy_sha256", "references"})
    found = KeyPolicySet(
        name=KeyName.parse(str(arguments["key"])),
        policy=str(arguments["policy"]).encode(),
        references=read_references([_given(one) for one in _list(arguments["references"])]),
    )
    if arguments["policy_sha256"] != found.identity.digest.hex():
        raise _wrong("the digest does not match the policy")
    return found


def _vault_policy_set(arguments: Mapping[str, JsonValue]) -> VaultPolicySet:
    _require_names(arguments, {"key", "release_policy", "immutable"})
    immutable = arguments["immutable"]
    if not isinstance(immutable, bool):
        raise _wrong("immutable: expected true or false")
    name, policy = KeyName.parse(str(arguments["key"])), stored_release_policy(str(arguments["release_policy"]))
    found = VaultPolicySet(name=name, policy=policy, immutable=immutable)
    if found.arguments() != dict(arguments):
        raise _wrong("the release policy is not in its stored form, JSON without white space")
    return found


def _given(value: JsonValue) -> tuple[bytes, list[bytes], list[bytes]]:
    if not isinstance(value, dict) or value.keys() != {"document", "signatures", "keys"}:
        raise _wrong("expected documents with the members document, keys, signatures")
    try:
        document = base64_bytes(str(value["document"]), what="document")
        signatures = [base64_bytes(str(one), what="signature") for one in _list(value["signatures"])]
    except EvidenceError as exc:
        raise _wrong(exc.message) from exc
    return document, signatures, [str(one).encode() for one in _list(value["keys"])]


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _wrong("expected a list")
    return value


def _break_glass_open(arguments: Mapping[str, JsonValue]) -> BreakGlassOpen:
    _require_names(arguments, {"key", "lifts", "policy", "policy_sha256", "reason", "until"})
    lifts, policy = arguments["lifts"], arguments["policy"]
    if (lifts is None) is (policy is None):
        raise _wrong("break-glass either lifts one freeze or replaces the policy")
    frozen = lifts if isinstance(lifts, dict) else {}
    try:
        until = rfc3339(str(arguments["until"]), what="until")
    except EvidenceError as exc:
        raise _wrong(exc.message) from exc
    found = BreakGlassOpen(
        name=KeyName.parse(str(arguments["key"])),
        lifts=None if lifts is None else target(str(frozen.get("scope")), str(frozen.get("name", "")) or None),
        policy=None if policy is None else str(policy).encode(),
        reason=require_reason(str(arguments["reason"])),
        until=until,
    )
    if found.arguments() != dict(arguments):
        raise _wrong("its digest or its time is not in canonical form")
    return found


def _anchors_approve(arguments: Mapping[str, JsonValue]) -> AnchorsApprove:
    _require_names(arguments, {"anchors", "sha256"})
    found = AnchorsApprove(lines=tuple(str(one) for one in _list(arguments["anchors"])))
    if found.arguments() != dict(arguments) or list(found.lines) != sorted(set(found.lines)):
        raise _wrong("the digest does not match the anchors, or they have duplicates or are not sorted")
    return found


CHANGES: Final[Mapping[str, Callable[[Mapping[str, JsonValue]], ProposedChange]]] = {
    QuorumSet.action: _quorum_set,
    Thaw.action: _thaw,
    KeyLimitsSet.action: _key_limits_set,
    KeyPolicySet.action: _key_policy_set,
    BreakGlassOpen.action: _break_glass_open,
    AnchorsApprove.action: _anchors_approve,
    FloorLower.action: lambda arguments: _floor(arguments, FloorLower),
    FloorRaise.action: lambda arguments: _floor(arguments, FloorRaise),
    KekRetirement.action: lambda arguments: KekRetirement(kek_id=_kek(arguments)),
    VaultPolicySet.action: _vault_policy_set,
    KekRotation.action: lambda arguments: KekRotation(kek_id=_kek(arguments)),
}
"""Every change that can be proposed, by the name of its action."""


def read_change(action: str, arguments: Mapping[str, JsonValue]) -> ProposedChange:
    """Make a change from the action and arguments of a proposal.

    Raises:
        ConfigurationError: ``change-invalid``, or as the change itself refuses.
    """
    make = CHANGES.get(action)
    if make is None:
        raise _wrong(f"there is no action {action[:40]!r}; expected one of {', '.join(CHANGES)}")
    return make(arguments)


def _require_names(arguments: Mapping[str, JsonValue], names: set[str]) -> None:
    if arguments.keys() != names:
        raise _wrong(f"expected the members {', '.join(sorted(names))}")


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError(f"invalid change: {problem}", code="change-invalid", field="arguments")
