"""Evaluation of Azure's secure-key-release policies on the claims of one verified token (azure-skr.md, 3). Pure.

The caller verified the token's signature, issuer and times. The outcome has a step for each condition, with the value
that was expected and the one that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from attest.encoding import JsonValue
from attest.policy.foreign.issuers import normalised_issuer
from attest.policy.foreign.skr import (
    AllOf,
    AnyOf,
    ClaimTest,
    Condition,
    Operator,
    SkrPolicy,
    integer_of,
    values_equal,
)

Scalar: TypeAlias = "str | bool | int | float"
_SHOWN_CHARACTERS = 200


class Absent:
    """The absence of a value at a path; null is a value."""


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrStep:
    """One condition of an evaluation.

    Attributes:
        path: of the condition in the policy (``anyOf[0].allOf[1]``).
        expected: the test, or what a list demands.
        found: the claim's value as text, or the number of conditions that hold.
    """

    path: str
    holds: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrOutcome:
    """The outcome of an evaluation; ``holds`` is True if one authority's conditions hold."""

    holds: bool
    steps: tuple[SkrStep, ...]

    @property
    def reason(self) -> str:
        """The first test that does not hold, in words; empty if the policy holds."""
        if self.holds:
            return ""
        step = next((one for one in self.steps if not one.holds), self.steps[0])
        return f"{step.path}: expected {step.expected}, found {step.found}"


def evaluate_skr(policy: SkrPolicy, claims: Mapping[str, JsonValue], *, issuer: str) -> SkrOutcome:
    """Evaluate a policy on a token's claims.

    ``issuer`` is the token's ``iss``. Only the conditions of authorities with the same URL count.
    """
    wanted, steps, holds = normalised_issuer(issuer), list[SkrStep](), False
    for index, authority in enumerate(policy.authorities):
        path = f"anyOf[{index}]"
        if wanted is None or authority.issuer != wanted:
            steps.append(
                SkrStep(path=path, holds=False, expected=f"a token of {authority.issuer}", found=_shown(issuer))
            )
            continue
        found = tuple(_steps(authority.conditions, claims, path))
        holds = holds or found[-1].holds
        steps += found
    return SkrOutcome(holds=holds, steps=tuple(steps))


def _steps(condition: Condition, claims: Mapping[str, JsonValue], path: str) -> Iterator[SkrStep]:
    """Yield the steps below a condition, and its own as the last one."""
    if isinstance(condition, ClaimTest):
        yield _test(condition, claims, path)
        return
    name = "allOf" if isinstance(condition, AllOf) else "anyOf"
    outcomes: list[bool] = []
    for index, below in enumerate(condition.conditions):
        found = tuple(_steps(below, claims, f"{path}.{name}[{index}]"))
        outcomes.append(found[-1].holds)
        yield from found
    yield _of_list(condition, outcomes, f"{path}.{name}")


def _of_list(condition: AllOf | AnyOf, outcomes: list[bool], path: str) -> SkrStep:
    """Return the step of a list; an empty one does not hold."""
    several = isinstance(condition, AllOf)
    return SkrStep(
        path=path,
        holds=bool(outcomes) and (all(outcomes) if several else any(outcomes)),
        expected="every condition" if several else "one of the conditions",
        found=f"{sum(outcomes)} of {len(outcomes)}",
    )


def _test(test: ClaimTest, claims: Mapping[str, JsonValue], path: str) -> SkrStep:
    found = resolve_claim(claims, test.path)
    return SkrStep(
        path=path,
        holds=_holds(test, found),
        expected=_shown(f"{test.path} {test.operator} {test.value!r}"),
        found="no such claim" if isinstance(found, Absent) else _shown(repr(found)),
    )


def resolve_claim(claims: Mapping[str, JsonValue], path: str) -> JsonValue | Absent:
    """Return the value at a dotted path, or ``ABSENT``.

    At each object, a member whose name is all of the rest of the path wins: some names contain dots.
    """
    here: JsonValue = dict(claims)
    rest = path
    while isinstance(here, dict):
        if rest in here:
            return here[rest]
        name, _, rest = rest.partition(".")
        here = here.get(name)
    return ABSENT


def _is_scalar(found: JsonValue | Absent) -> TypeGuard[Scalar]:
    return isinstance(found, str | bool | int | float)


def _holds(test: ClaimTest, found: JsonValue | Absent) -> bool:
    """Judge one test. A value that is no scalar meets none, whether presence or absence is demanded."""
    operator, wanted = test.operator, test.value
    if operator is Operator.EXISTS:
        return _is_scalar(found) if values_equal(True, wanted) else found is ABSENT  # noqa: FBT003  a policy's value
    if not _is_scalar(found):
        return False
    if operator is Operator.EQUALS:
        return values_equal(wanted, found)
    if operator is Operator.NOT_EQUALS:
        return _is_comparable(found) and not values_equal(wanted, found)
    left, right = integer_of(found), integer_of(wanted)
    return left is not None and right is not None and _is_ordered(operator, left, right)


def _is_comparable(found: Scalar) -> bool:
    """Return False for a number that two readers of JSON may see as two numbers."""
    return isinstance(found, str | bool) or integer_of(found) is not None


def _is_ordered(operator: Operator, left: int, right: int) -> bool:
    return {
        Operator.LESS: left < right,
        Operator.LESS_OR_EQUALS: left <= right,
        Operator.GREATER: left > right,
        Operator.GREATER_OR_EQUALS: left >= right,
    }[operator]


def _shown(text: str) -> str:
    return text[:_SHOWN_CHARACTERS]
