"""Demands that no evidence meets together.

A body is compared with its ``all_of`` branches, and every alternative with the demands of the outer bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attest.policy.accepted_values import ACCEPTED_VALUES
from attest.policy.authoring.comparison import shown, spans
from attest.policy.authoring.demands import demands_of, resolved_names
from attest.policy.authoring.lint_findings import LintFinding, Severity
from attest.policy.authoring.tcb_sets import have_common_tcb
from attest.policy.decoder import RelaxedDemand
from attest.policy.devices import Count
from attest.policy.model import PolicyBody, PolicyDocument
from attest.policy.references import ReferenceValues
from attest.policy.snp_tcb import TCB_DEMANDS

_NO_CHOICE = frozenset({"application_events", "waived_measurements", "accepted_advisories", *ACCEPTED_VALUES})
"""Lists and tables that demand nothing of a single value."""
_PARTNERS = {one: other for pair in TCB_DEMANDS.values() for one, other in (pair, pair[::-1])}
"""Keys of demands on one TCB: a minimum, and exact ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A demand with its place."""

    path: str
    name: str
    value: Any  # Any: the value of any demand


def contradictions(policy: PolicyDocument) -> Iterator[LintFinding]:
    """Yield the demands that contradict each other."""
    yield from _within(policy, "", {}, policy.reference_values)


def _within(
    body: PolicyBody, path: str, outer: Mapping[str, _Placed], references: Mapping[str, ReferenceValues]
) -> Iterator[LintFinding]:
    """Compare a body with what has to hold beside it, then its branches with both."""
    together = dict(outer)
    for inner, place in _conjuncts(body, path):
        own = _own(inner, place)
        for key, demand in own.items():
            for same in _same_claim(key):
                other = together.get(same)
                if other is not None and _disjoint(demand, other, references):
                    yield _contradiction(demand, other)
        together |= own
    for inner, place in _conjuncts(body, path):
        for combinator, at, branch in inner.branches(place):
            if combinator != "all_of":
                yield from _within(branch, at, together, references)


def _same_claim(key: str) -> tuple[str, ...]:
    """Return the paths of the demands on the same claim: on a TCB, a minimum and a list of exact ones."""
    section, _, name = key.rpartition(".")
    return (key, f"{section}.{_PARTNERS[name]}") if section == "snp" and name in _PARTNERS else (key,)


def _conjuncts(body: PolicyBody, path: str) -> Iterator[tuple[PolicyBody, str]]:
    """Yield a body and the branches of which all have to hold with it, at any depth."""
    yield body, path
    for combinator, place, branch in body.branches(path):
        if combinator == "all_of":
            yield from _conjuncts(branch, place)


def _own(body: PolicyBody, path: str) -> dict[str, _Placed]:
    """Return the demands of a body without those of its branches, by their paths within it."""
    bare = replace(body, any_of=(), all_of=(), at_least=None)
    start = f"{path}." if path else ""
    return {place: _Placed(path=f"{start}{place}", name=name, value=value) for place, name, value in demands_of(bare)}


def _contradiction(demand: _Placed, other: _Placed) -> LintFinding:
    return LintFinding(
        rule="contradictory",
        severity=Severity.ERROR,
        path=demand.path,
        why=f"{shown(demand.value)} is demanded here, and {shown(other.value)} by {other.path}: no evidence meets both",
        remedy="change one so that both can be met, or make them alternatives (any_of)",
    )


def _disjoint(one: _Placed, other: _Placed, references: Mapping[str, ReferenceValues]) -> bool:
    """Return True if no value meets both demands."""
    if isinstance(one.value, RelaxedDemand) or isinstance(other.value, RelaxedDemand) or one.name in _NO_CHOICE:
        return False
    if one.name.startswith("exact_"):
        return not _has_tcb_of(one, other)
    if other.name.startswith("exact_"):
        return not _has_tcb_of(other, one)
    first, second = (resolved_names(each.name, each.value, references) for each in (one, other))
    return _nothing_common(one, first, second)


def _has_tcb_of(exact: _Placed, other: _Placed) -> bool:
    """Return True if a TCB of a list meets another demand on the same TCB: a list or a minimum."""
    if other.name == exact.name:
        return have_common_tcb(exact.value, other=other.value)
    return have_common_tcb(exact.value, minimums=other.value)


def _nothing_common(demand: _Placed, first: Any, second: Any) -> bool:  # noqa: ANN401  values of that demand
    """Return True if no value meets two values of this demand."""
    value: object = first
    if isinstance(value, bool):
        return first is not second
    if isinstance(value, Count):
        return any(a.at_most is not None and a.at_most < b.at_least for a, b in ((first, second), (second, first)))
    is_choice = isinstance(value, tuple) and not demand.name.startswith("denied_")
    if is_choice and ".event_log." not in f".{demand.path}":
        if demand.name.endswith("_versions"):
            return not any(a < d and c < b for a, b in spans(first) for c, d in spans(second))
        return set(first).isdisjoint(second)
    by_name = isinstance(value, Mapping) and demand.name.startswith("minimum_")
    return (by_name or isinstance(value, frozenset)) and set(first).isdisjoint(second)
