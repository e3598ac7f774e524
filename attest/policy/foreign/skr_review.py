"""Warnings about a release policy, to read before it guards a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attest.policy.foreign.skr import (
    AllOf,
    ClaimTest,
    Condition,
    Operator,
    SkrPolicy,
    claim_tests,
    integer_of,
    values_equal,
)

_ORDERED = (Operator.LESS, Operator.LESS_OR_EQUALS, Operator.GREATER, Operator.GREATER_OR_EQUALS)
_GUEST_ROOTS = ("x-ms-runtime", "nonce")
_INIT_ROOT = "x-ms-inittime"
_HOST_DATA = "x-ms-sevsnpvm-hostdata"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrFinding:
    """A warning about a policy.

    Attributes:
        kind: ``not-portable``, ``guest-chosen``, ``unbound-init-data``, ``never-holds`` or ``no-evidence``.
        path: the claim, or the place of an authority.
    """

    kind: str
    path: str
    message: str


def is_guest_chosen(path: str) -> bool:
    """Return True if the guest alone chooses the value; inside ``x-ms-isolation-tee`` the paravisor does."""
    return path.partition(".")[0] in _GUEST_ROOTS


def is_init_time(path: str) -> bool:
    """Return True if the party that started the machine chooses the value, fixed by HOSTDATA."""
    return path.partition(".")[0] == _INIT_ROOT


def review_skr(policy: SkrPolicy) -> tuple[SkrFinding, ...]:
    """Return the findings, in the order in which a policy is read."""
    return tuple(dict.fromkeys(_findings(policy)))


def _findings(policy: SkrPolicy) -> Iterator[SkrFinding]:
    for index, authority in enumerate(policy.authorities):
        tests = tuple(claim_tests(authority.conditions))
        for test in tests:
            yield from _about(test)
        if any(is_init_time(test.path) for test in tests) and not _demands_host_data(authority.conditions):
            text = "init-time data counts only with a demand on HOSTDATA, which alone covers it"
            yield SkrFinding(kind="unbound-init-data", path=f"anyOf[{index}]", message=text)
        if all(is_guest_chosen(test.path) for test in tests):
            text = "every condition is on claims that the guest makes about itself: any machine meets it"
            yield SkrFinding(kind="no-evidence", path=f"anyOf[{index}]", message=text)
    yield from _contradictions(policy)


def _about(test: ClaimTest) -> Iterator[SkrFinding]:
    if test.operator is not Operator.EQUALS:
        text = f"Azure's service acts on equals only; {test.operator} is not portable to Azure"
        yield SkrFinding(kind="not-portable", path=test.path, message=text)
    if is_guest_chosen(test.path):
        text = "the guest chooses it freely: it authorises nothing"
        yield SkrFinding(kind="guest-chosen", path=test.path, message=text)
    if test.operator in _ORDERED and integer_of(test.value) is None:
        text = "only integers and their decimal digits have an order: it can never be met"
        yield SkrFinding(kind="never-holds", path=test.path, message=text)


def _demands_host_data(condition: Condition) -> bool:
    """Return True if every way through the conditions compares HOSTDATA with one value."""
    if isinstance(condition, ClaimTest):
        return condition.operator is Operator.EQUALS and condition.path.rpartition(".")[2] == _HOST_DATA
    below = [_demands_host_data(one) for one in condition.conditions]
    return any(below) if isinstance(condition, AllOf) else all(below)


def _contradictions(policy: SkrPolicy) -> Iterator[SkrFinding]:
    """Find lists that demand two values of one claim."""
    for authority in policy.authorities:
        for group in _all_ofs(authority.conditions):
            wanted: dict[str, ClaimTest] = {}
            for test in group.conditions:
                if not isinstance(test, ClaimTest) or test.operator is not Operator.EQUALS:
                    continue
                first = wanted.setdefault(test.path, test)
                if not values_equal(first.value, test.value):
                    text = "two different values are demanded at once: it can never be met"
                    yield SkrFinding(kind="never-holds", path=test.path, message=text)


def _all_ofs(condition: Condition) -> Iterator[AllOf]:
    if isinstance(condition, ClaimTest):
        return
    if isinstance(condition, AllOf):
        yield condition
    for below in condition.conditions:
        yield from _all_ofs(below)
