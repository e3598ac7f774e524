"""Azure's secure-key-release policies: their grammar, read into a closed tree and written back (azure-skr.md, 2).

A policy is a tree of three kinds of node: a test of one claim, all of some conditions, any of them. Every list has a
member, every member name is known, every number is an integer that no reader rounds. Anything outside the grammar is
refused here, so that evaluation never meets it.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.policy.foreign.issuers import normalised_issuer, parse_issuer

VERSION = "1.0.0"
MAX_SKR_BYTES = 64 * 1024
MAX_LEVELS = 10
"""Lists of conditions inside each other, the one of the authority included."""
MAX_CONDITIONS = 1000
"""Tests and lists of tests, in the whole policy."""
LARGEST_INTEGER = 2**53
"""Beyond it two readers of JSON may see two numbers."""

SkrValue: TypeAlias = "str | int | bool"

_BOOLEANS = {"true": True, "false": False}
_DIGITS = frozenset("0123456789")
_LONGEST_INTEGER = len(str(LARGEST_INTEGER))
_CLAUSE = "Microsoft, secure key release policy grammar"


class Operator(enum.StrEnum):
    """The comparison of a claim. Azure's service acts on ``EQUALS`` alone."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    LESS = "less"
    LESS_OR_EQUALS = "lessOrEquals"
    GREATER = "greater"
    GREATER_OR_EQUALS = "greaterOrEquals"
    EXISTS = "exists"


_OPERATORS = {str(operator): operator for operator in Operator}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTest:
    """A test of the claim at a dotted path. A boolean value and its word mean the same; both are kept as written."""

    path: str
    operator: Operator
    value: SkrValue


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every condition has to hold; of none, none does."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one condition has to hold."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = "ClaimTest | AllOf | AnyOf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrAuthority:
    """An issuer of tokens, its URL as it was written, and the conditions on its tokens."""

    url: str
    conditions: AllOf | AnyOf

    @property
    def issuer(self) -> str:
        """The issuer as it is compared."""
        return normalised_issuer(self.url) or self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrPolicy:
    """A release policy; one authority whose conditions hold is enough."""

    authorities: tuple[SkrAuthority, ...]


def _refuse(path: str, expected: str, got: JsonValue) -> ConfigurationError:
    shown = type(got).__name__ if isinstance(got, list | dict) else repr(got)[:80]
    return ConfigurationError(
        f"release policy: {path}: expected {expected}, got {shown}",
        code="skr-policy-invalid",
        field=path,
        expected=expected,
        got=shown,
        clause=_CLAUSE,
        hint="docs/policy-conversion.md describes what a release policy can say",
    )


# -- values


def integer_of(value: JsonValue) -> int | None:
    """Take an integer or its canonical decimal digits; None for everything else, and beyond 2^53."""
    if isinstance(value, str):
        digits = 0 < len(value) <= _LONGEST_INTEGER and _DIGITS.issuperset(value)
        value = int(value) if digits and (value == "0" or value[0] != "0") else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= LARGEST_INTEGER else None


def _truth(value: JsonValue) -> bool | None:
    """Take a boolean or its word."""
    if isinstance(value, str):
        return _BOOLEANS.get(value)
    return value if isinstance(value, bool) else None


def values_equal(wanted: SkrValue, found: JsonValue) -> bool:
    """Compare by the table of azure-skr.md, 3; an unlisted comparison is false.

    Text equals text of the same code points. A boolean equals the same one, or its word; an integer equals the same
    one, or its canonical decimal digits. A number with a fraction or an exponent equals nothing.
    """
    if isinstance(wanted, str) and isinstance(found, str):
        return wanted == found
    if isinstance(wanted, bool) or isinstance(found, bool):
        return _truth(wanted) is _truth(found)
    number = integer_of(wanted)
    return number is not None and number == integer_of(found)


# -- reading


def _authority_url(value: JsonValue, path: str) -> str:
    issuer = parse_issuer(value) if isinstance(value, str) else None
    if not isinstance(value, str) or issuer is None:
        raise _refuse(path, "the https URL of an issuer, without user, query and fragment", value)
    if issuer.scheme != "https":
        raise _refuse(path, "an https URL", value)
    return value


class _Reader:
    """One reading of one policy, with the rest of its limits."""

    def __init__(self, *, extended: bool) -> None:
        self._extended = extended
        self._conditions = 0

    def authority(self, value: JsonValue, path: str) -> SkrAuthority:
        members = _members(value, path, known=("authority", "allOf", "anyOf"))
        if "authority" not in members:
            raise _refuse(f"{path}.authority", "the URL of an issuer", "nothing")
        url = _authority_url(members["authority"], f"{path}.authority")
        return SkrAuthority(url=url, conditions=self._group(members, path, level=1))

    def _condition(self, value: JsonValue, path: str, level: int) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _refuse(path, f"at most {MAX_CONDITIONS} conditions", "more")
        if isinstance(value, dict) and "claim" in value:
            return self._claim(value, path)
        return self._group(_members(value, path, known=("claim", "allOf", "anyOf")), path, level=level)

    def _group(self, members: dict[str, JsonValue], path: str, *, level: int) -> AllOf | AnyOf:
        names = [name for name in ("allOf", "anyOf") if name in members]
        if len(names) != 1:
            raise _refuse(path, "exactly one of allOf and anyOf", " and ".join(names) or "neither")
        name, listed = names[0], f"{path}.{names[0]}"
        if level > MAX_LEVELS:
            raise _refuse(listed, f"at most {MAX_LEVELS} levels", "more")
        found = tuple(
            self._condition(member, f"{listed}[{index}]", level + 1)
            for index, member in enumerate(_list(members[name], listed))
        )
        return AllOf(conditions=found) if name == "allOf" else AnyOf(conditions=found)

    def _claim(self, members: dict[str, JsonValue], path: str) -> ClaimTest:
        """Read a test; the preview form ``{claim, condition, value}`` too, which is kept in the new form."""
        claim = members["claim"]
        if not isinstance(claim, str) or not claim:
            raise _refuse(f"{path}.claim", "the dotted path of a claim", claim)
        preview = "condition" in members or "value" in members
        known = ("claim", "condition", "value") if preview else ("claim", *_OPERATORS)
        _members(members, path, known=known)
        names = [name for name in members if name != "claim"]
        if preview and len(names) != len(("condition", "value")):
            raise _refuse(path, "both condition and value", names[0])
        if not preview and len(names) != 1:
            raise _refuse(path, "exactly one operator", ", ".join(names) or "none")
        word, value = (members["condition"], members["value"]) if preview else (names[0], members[names[0]])
        return self._test(claim, word, value, path)

    def _test(self, claim: str, word: JsonValue, value: JsonValue, path: str) -> ClaimTest:
        operator = _OPERATORS.get(word) if isinstance(word, str) else None
        if operator is None:
            raise _refuse(f"{path}.condition", f"one of {', '.join(_OPERATORS)}", word)
        if operator is not Operator.EQUALS and not self._extended:
            raise _refuse(f"{path}.{operator}", "equals, the only operator that Azure acts on", str(operator))
        where = f"{path}.{operator}"
        if operator is Operator.EXISTS and value not in ("true", "false") and not isinstance(value, bool):
            raise _refuse(where, "true or false", value)
        return ClaimTest(path=claim, operator=operator, value=_value(value, where))


def _value(value: JsonValue, path: str) -> SkrValue:
    """Read a value. ``1.0`` and ``1e0`` are refused: a reader that rounds takes 0.99999999999999999999 for 1."""
    if isinstance(value, bool | str):
        return value
    if not isinstance(value, int) or abs(value) > LARGEST_INTEGER:
        raise _refuse(path, "text, true, false, or an integer of at most 2^53 without fraction or exponent", value)
    return value


def _members(value: JsonValue, path: str, *, known: tuple[str, ...]) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _refuse(path, "an object", value)
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise _refuse(f"{path}.{unknown[0]}", f"one of {', '.join(known)}", unknown[0])
    return value


def _list(value: JsonValue, path: str) -> list[JsonValue]:
    if not isinstance(value, list) or not value:
        raise _refuse(path, "a list with at least one member", value if value != [] else "an empty list")
    return value


def parse_skr(data: bytes, *, extended: bool = False) -> SkrPolicy:
    """Read a release policy from UTF-8 JSON.

    ``extended`` accepts the operators beside ``equals``, which Azure's grammar knows and its service ignores. A policy
    that uses them is not portable; ``review_skr`` says so.

    Raises:
        ConfigurationError: ``skr-policy-invalid``, with the path of the value and what was expected there.
    """
    if len(data) > MAX_SKR_BYTES:
        raise _refuse("policy", f"at most {MAX_SKR_BYTES} bytes", f"{len(data)} bytes")
    try:
        document = json_value(data, what="release policy")
    except EvidenceError as exc:
        raise ConfigurationError(exc.message, code="skr-policy-invalid", field="policy", clause=_CLAUSE) from exc
    top = _members(document, "policy", known=("version", "anyOf"))
    if top.get("version") != VERSION:
        raise _refuse("version", repr(VERSION), top.get("version", "nothing"))
    reader = _Reader(extended=extended)
    listed = _list(top.get("anyOf", "nothing"), "anyOf")
    return SkrPolicy(
        authorities=tuple(reader.authority(member, f"anyOf[{index}]") for index, member in enumerate(listed))
    )


# -- writing


def canonical_bytes(policy: SkrPolicy) -> bytes:
    """Write a policy in one spelling, so that two are compared however a service re-serialised them.

    As Azure Key Vault stores it: ``version`` first, ``authority`` and ``claim`` before what belongs to them, no white
    space, booleans as words; the issuer in its normalised form. Lists keep their order.
    """
    document = {
        "version": VERSION,
        "anyOf": [{"authority": one.issuer, **_written(one.conditions)} for one in policy.authorities],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _written(condition: Condition) -> dict[str, JsonValue]:
    match condition:
        case ClaimTest():
            value = condition.value
            word = str(value).lower() if isinstance(value, bool) else value
            return {"claim": condition.path, str(condition.operator): word}
        case AllOf():
            return {"allOf": [_written(one) for one in condition.conditions]}
        case _:
            return {"anyOf": [_written(one) for one in condition.conditions]}


def skr_digest(policy: SkrPolicy) -> bytes:
    """Return the SHA-256 of a policy's canonical form, 32 bytes."""
    return sha256(canonical_bytes(policy)).digest()


def claim_tests(condition: Condition) -> Iterator[ClaimTest]:
    """Yield every test below a condition, in the order in which they were written."""
    if isinstance(condition, ClaimTest):
        yield condition
        return
    for below in condition.conditions:
        yield from claim_tests(below)
