"""Reference evaluator of Azure's release policies over the claims of one token (azure-skr.md, 3), with a trace.

Values are compared by the table of the specification only: no patterns, no folding of case, no other conversion.
Azure's service gives no trace: it answers one 403 for every cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attest.encoding import JsonValue
from attest.policy.foreign.issuers import normalised_issuer
from attest.policy.foreign.skr import (
    AllOf,
    AnyOf,
    ClaimTest,
    Condition,
    Operator,
    SkrPolicy,
    SkrValue,
    integer_of,
    values_equal,
)

MAX_SHOWN = 200
"""Characters of a claim that a trace shows; a token may carry anything."""


class Missing:
    """The absence of a value at a path, which differs from null and any other value."""


MISSING = Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrNode:
    """One node of a policy, and its outcome.

    Attributes:
        path: where it stands (``anyOf[0].allOf[2]``).
        holds: the outcome.
        expected: the demand, for people.
        found: the token's value; long text is cut, objects and lists are named only.
    """

    path: str
    holds: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrDecision:
    """Return True if a policy holds for a token.

    Attributes:
        holds: the outcome; a key is released only on True, and only after every other check.
        issuer_known: whether any authority is the token's issuer.
        trace: every node, from the top, for either outcome.
    """

    holds: bool
    issuer_known: bool
    trace: tuple[SkrNode, ...]


# -- claims


def claim_at(claims: Mapping[str, JsonValue], path: str) -> JsonValue | Missing:
    """Walk a dotted path. Where the whole rest of it is a member's name, that member wins."""
    node: JsonValue | Mapping[str, JsonValue] = claims
    rest = path
    while isinstance(node, Mapping):
        if rest in node:
            return node[rest]
        head, dot, rest = rest.partition(".")
        if not dot or head not in node:
            return MISSING
        node = node[head]
    return MISSING


def _is_scalar(value: JsonValue | Missing) -> bool:
    return isinstance(value, bool | int | float | str)


# -- comparing


def _is_unjudgeable(value: JsonValue) -> bool:
    """Return True for a number that JSON readers disagree about: "not equal" is no answer for it either."""
    if isinstance(value, float):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and integer_of(value) is None


def _in_order(compare: Callable[[int, int], bool]) -> Callable[[SkrValue, JsonValue], bool]:
    """Compare two integers, or their decimal digits; nothing else has an order."""

    def holds(wanted: SkrValue, found: JsonValue) -> bool:
        limit, number = integer_of(wanted), integer_of(found)
        return limit is not None and number is not None and compare(number, limit)

    return holds


_COMPARISONS: Mapping[Operator, Callable[[SkrValue, JsonValue], bool]] = {
    Operator.EQUALS: values_equal,
    Operator.NOT_EQUALS: lambda wanted, found: not _is_unjudgeable(found) and not values_equal(wanted, found),
    Operator.LESS: _in_order(lambda found, limit: found < limit),
    Operator.LESS_OR_EQUALS: _in_order(lambda found, limit: found <= limit),
    Operator.GREATER: _in_order(lambda found, limit: found > limit),
    Operator.GREATER_OR_EQUALS: _in_order(lambda found, limit: found >= limit),
}


def _holds(test: ClaimTest, found: JsonValue | Missing) -> bool:
    """Judge one test. Only ``exists: false`` can hold of a claim that is not there."""
    if test.operator is Operator.EXISTS:
        return _is_scalar(found) if test.value in (True, "true") else isinstance(found, Missing)
    if isinstance(found, Missing) or not _is_scalar(found):
        return False
    return _COMPARISONS[test.operator](test.value, found)


# -- evaluating


def evaluate_skr(policy: SkrPolicy, claims: Mapping[str, JsonValue]) -> SkrDecision:
    """Judge the claims of one token.

    The caller has verified its signature, its times, and that its issuer is one that the operator configured
    (azure-skr.md, 7). Every node is judged, so that the trace is whole and does not depend on order.

    NOTE: a token has no audience and no relation to a key or a request. A policy that holds authorises nothing unless
    the released key is encrypted to a key that the hardware signed for.
    """
    issuer = claims.get("iss")
    normalised = normalised_issuer(issuer) if isinstance(issuer, str) else None
    trace: list[SkrNode] = []
    known = released = False
    for index, authority in enumerate(policy.authorities):
        path = f"anyOf[{index}]"
        is_issuer = normalised is not None and normalised == authority.issuer
        trace.append(
            SkrNode(path=f"{path}.authority", holds=is_issuer, expected=authority.issuer, found=_shown(issuer))
        )
        holds = _judge(authority.conditions, claims, path, trace)
        known = known or is_issuer
        released = released or (is_issuer and holds)
    return SkrDecision(holds=released, issuer_known=known, trace=tuple(trace))


def _judge(condition: Condition, claims: Mapping[str, JsonValue], path: str, trace: list[SkrNode]) -> bool:
    if isinstance(condition, ClaimTest):
        found = claim_at(claims, condition.path)
        holds = _holds(condition, found)
        expected = f"{condition.path} {condition.operator} {_shown(condition.value)}"
        trace.append(SkrNode(path=path, holds=holds, expected=expected, found=_shown(found)))
        return holds
    name, words = ("allOf", "all") if isinstance(condition, AllOf) else ("anyOf", "at least one")
    position = len(trace)
    below = [_judge(one, claims, f"{path}.{name}[{index}]", trace) for index, one in enumerate(condition.conditions)]
    holds = _combined(condition, below)
    node = SkrNode(
        path=f"{path}.{name}", holds=holds, expected=f"{words} of {len(below)}", found=f"{sum(below)} of {len(below)}"
    )
    trace.insert(position, node)
    return holds


def _combined(condition: AllOf | AnyOf, below: list[bool]) -> bool:
    """Put outcomes together. Both kinds of list are false when empty, which Python's ``all`` is not."""
    return any(below) if isinstance(condition, AnyOf) else bool(below) and all(below)


def _shown(value: JsonValue | Missing) -> str:
    match value:
        case Missing():
            return "nothing"
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return (
                repr(value) if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]!r} and {len(value) - MAX_SHOWN} more"
            )
        case _:
            return str(value) if integer_of(value) is not None else "a number without a certain value"
