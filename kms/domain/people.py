"""The quorum: registered approvers and the number of approvals that each kind of change requires.

It is one document in canonical JSON. Every change makes the next version, so that its digest identifies the rules in
force.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NoReturn, cast

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy import PolicyPublicKey, key_id, read_public_key
from kms.domain.canonical_json import canonical_digest

SCHEMA: Final = "kms.quorum/1"
MAX_PEOPLE: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


class ChangeKind(enum.StrEnum):
    """Kinds of changes that can need a quorum."""

    KEY_POLICY = "key-policy"
    ANCHORS = "anchors"
    KEK = "kek"
    THAW = "thaw"
    BREAK_GLASS = "break-glass"
    QUORUM = "quorum"
    """Changes of people and rules. Every other rule requires this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A registered approver.

    Names are unique, and so are keys: PEM, SubjectPublicKeyInfo: Ed25519, P-256 or P-384.
    """

    name: str
    public_key: str

    @property
    def key(self) -> PolicyPublicKey:
        """The key, read."""
        return read_public_key(self.public_key.encode())

    @property
    def key_id(self) -> str:
        """SHA-256 of the key's SubjectPublicKeyInfo, hex."""
        return key_id(self.key).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRule:
    """The approvals that one kind of change needs.

    Attributes:
        threshold: number of these people who must sign, from 1.
        people: their names, sorted.
        proposer_counts: True if the proposer's own signature counts. If False, a proposal names its proposer, who must
            sign it in addition to the threshold.
    """

    kind: ChangeKind
    threshold: int
    people: tuple[str, ...]
    proposer_counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """People and rules, as of one version.

    Attributes:
        version: 0 if nothing was ever set, then from 1.
        people: by name, sorted.
        rules: at most one a kind, sorted.
    """

    version: int
    people: tuple[Person, ...]
    rules: tuple[QuorumRule, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical document, hex."""
        return canonical_digest(self.members())

    def rule(self, kind: ChangeKind) -> QuorumRule | None:
        """Return the rule for a kind of change, or None."""
        return next((one for one in self.rules if one.kind is kind), None)

    def holder(self, key: str) -> Person | None:
        """Return the owner of a key, given by its id in hex, or None."""
        return next((one for one in self.people if one.key_id == key), None)

    def members(self) -> dict[str, JsonValue]:
        """Return the document."""
        return {
            "schema": SCHEMA,
            "version": self.version,
            "people": [{"name": one.name, "public_key": one.public_key} for one in self.people],
            "rules": [
                {
                    "kind": str(one.kind),
                    "threshold": one.threshold,
                    "people": list(one.people),
                    "proposer_counts": one.proposer_counts,
                }
                for one in self.rules
            ],
        }

    def with_person(self, name: str, public_key: bytes) -> Quorum:
        """Add a person.

        Raises:
            ConfigurationError: ``quorum-invalid`` (the name or the key is taken), or ``policy-key-invalid``.
        """
        pem = read_public_key(public_key).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        for one in self.people:
            if one.name == name:
                _refuse(
                    f"a person with the name {name[:80]!r} is already registered",
                    "another name; to replace a key, remove the person first",
                )
            if one.public_key == pem:
                _refuse(f"{one.name!r} already has this key", "a different key for each person")
        return self._next(people=(*self.people, Person(name=name, public_key=pem)))

    def without_person(self, name: str) -> Quorum:
        """Remove a person; refused while a rule names them, so that no rule is weakened implicitly."""
        if name not in {one.name for one in self.people}:
            _refuse(f"no registered person is named {name[:80]!r}", "one of the registered people")
        return self._next(people=tuple(one for one in self.people if one.name != name))

    def with_rule(self, rule: QuorumRule) -> Quorum:
        """Set or replace the rule for a kind of change."""
        others = (one for one in self.rules if one.kind is not rule.kind)
        return self._next(rules=(*others, replace(rule, people=tuple(sorted(rule.people)))))

    def without_rule(self, kind: ChangeKind) -> Quorum:
        """Remove the rule for a kind of change."""
        if self.rule(kind) is None:
            _refuse(f"there is no rule for {kind}", "a kind with a rule")
        return self._next(rules=tuple(one for one in self.rules if one.kind is not kind))

    def _next(self, *, people: tuple[Person, ...] | None = None, rules: tuple[QuorumRule, ...] | None = None) -> Quorum:
        changed = replace(
            self,
            version=self.version + 1,
            people=tuple(sorted(self.people if people is None else people, key=lambda one: one.name)),
            rules=tuple(sorted(self.rules if rules is None else rules, key=lambda one: one.kind)),
        )
        return read_quorum(changed.members())

    def demanded(self, kind: ChangeKind, *, then: Quorum | None = None) -> tuple[QuorumRule, ...]:
        """Return every rule that a change must meet.

        A change of people and rules must meet the rule for such changes and every rule that it alters, so that no rule
        is lowered without the people that it names. ``then`` are the people and rules after such a change.
        """
        found = [one for one in (self.rule(kind),) if one is not None]
        if then is not None:
            found += [one for one in self.rules if one not in found and not self._same(one, then)]
        return tuple(found)

    def _same(self, rule: QuorumRule, then: Quorum) -> bool:
        """Return True if a rule and the keys of the people it names stay unchanged."""
        keys, later = ({one.name: one.public_key for one in each.people} for each in (self, then))
        return then.rule(rule.kind) == rule and all(keys[name] == later.get(name) for name in rule.people)


NOBODY: Final = Quorum(version=0, people=(), rules=())


def read_quorum(document: JsonValue) -> Quorum:
    """Parse the document; refuse rules that cannot be met and people counted twice.

    Raises:
        ConfigurationError: ``quorum-invalid`` or ``policy-key-invalid``.
    """
    members = _object(document, {"schema", "version", "people", "rules"}, "people and rules")
    version = members["version"]
    if members["schema"] != SCHEMA or not _is_count(version):
        _refuse("the document has an unsupported schema", SCHEMA)
    found = Quorum(
        version=int(cast("int", version)),
        people=tuple(map(_person, _list(members["people"], "people"))),
        rules=tuple(map(_rule, _list(members["rules"], "rules"))),
    )
    _require_consistent(found)
    return found


def _require_consistent(quorum: Quorum) -> None:
    names = [one.name for one in quorum.people]
    _require_once(names, "people")
    _require_once([one.key_id for one in quorum.people], "keys")
    _require_once([one.kind for one in quorum.rules], "rules")
    for rule in quorum.rules:
        _require_reachable(rule, names)
    if quorum.rules and quorum.rule(ChangeKind.QUORUM) is None:
        _refuse(
            "without a rule for 'quorum', one person could remove the other rules",
            "a rule for 'quorum' in addition to every other rule",
            hint="start with 'kms quorum set quorum --of M --person NAME …'; clear this rule last",
        )


def _require_reachable(rule: QuorumRule, names: list[str]) -> None:
    unknown = [one for one in rule.people if one not in names]
    if unknown:
        _refuse(f"the rule for {rule.kind} names {unknown[0]!r}, who is not registered", "registered people")
    _require_once(rule.people, f"people of the rule for {rule.kind}")
    if not 1 <= rule.threshold <= len(rule.people):
        _refuse(f"the rule for {rule.kind} requires {rule.threshold} of {len(rule.people)}", f"1 to {len(rule.people)}")


def _require_once(names: Iterable[str], what: str) -> None:
    found = list(names)
    if found != sorted(set(found)) and (what != "keys" or len(found) != len(set(found))):
        _refuse(f"{what}: duplicates, or not sorted", "a sorted list without duplicates")
    if len(found) > MAX_PEOPLE:
        _refuse(f"{what}: {len(found)}", f"at most {MAX_PEOPLE}")


def _person(document: JsonValue) -> Person:
    members = _object(document, {"name", "public_key"}, "a person")
    name, pem = members["name"], members["public_key"]
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(pem, str):
        _refuse(f"{str(name)[:80]!r} is not a name", "1 to 64 lower-case letters, digits, '.', '_', '@' and '-'")
    person = Person(name=str(name), public_key=str(pem))
    if person.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode() != pem:
        _refuse(f"the key of {name} is not in canonical form", "PEM, SubjectPublicKeyInfo")
    return person


def _rule(document: JsonValue) -> QuorumRule:
    members = _object(document, {"kind", "threshold", "people", "proposer_counts"}, "a rule")
    kind, threshold, counts = members["kind"], members["threshold"], members["proposer_counts"]
    people = _list(members["people"], "people of a rule")
    if kind not in set(ChangeKind) or not _is_count(threshold) or not isinstance(counts, bool):
        _refuse(f"a rule for {str(kind)[:40]!r} is malformed", f"one of {', '.join(ChangeKind)}")
    return QuorumRule(
        kind=ChangeKind(str(kind)),
        threshold=int(cast("int", threshold)),
        people=tuple(str(one) for one in people),
        proposer_counts=bool(counts),
    )


def _object(document: JsonValue, names: set[str], what: str) -> dict[str, JsonValue]:
    if not isinstance(document, dict) or document.keys() != names:
        _refuse(f"{what}: wrong members", f"the members {', '.join(sorted(names))}")
    return document


def _list(value: JsonValue, what: str) -> list[JsonValue]:
    if not isinstance(value, list):
        _refuse(f"{what}: not a list", "a list")
    return value


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _refuse(problem: str, expected: str, *, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(problem, code="quorum-invalid", field="quorum", expected=expected, hint=hint)
