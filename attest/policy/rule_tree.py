"""A policy prepared for appraisal: its rules, in the places where its author put them.

A ``path`` names a branch (``any_of[genoa]``, ``all_of[0].any_of[1]``); it is empty for the policy itself. Of a
combinator it is that of the branch in which it stands. A body holds when all its rules and all its combinators hold.
Every rule is judged, regardless of the others, so each appraisal walks the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from attest.policy.rules import Rule

SET = "set"
"""Kind of the rules over all GPUs and NVSwitches together, and over their CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The rules of one section for one kind of Attester, each item by itself; or for ``SET``."""

    path: str
    kind: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllBranch:
    """A body: its sections, and then its combinators. All of them have to hold."""

    path: str
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyBranch:
    """Alternatives, of which one has to hold."""

    path: str
    members: tuple[AllBranch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """Alternatives, of which ``count`` have to hold, from 1 to all."""

    path: str
    count: int
    members: tuple[AllBranch, ...]


Node: TypeAlias = Leaf | AllBranch | AnyBranch | AtLeast


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRule:
    """A rule with its branch and the kind of Attester that it judges, or ``SET``."""

    path: str
    kind: str
    rule: Rule


def placed_rules(node: Node) -> Iterator[PlacedRule]:
    """Yield every rule of a tree, in the order of the checks in a result."""
    if isinstance(node, Leaf):
        for rule in node.rules:
            yield PlacedRule(path=node.path, kind=node.kind, rule=rule)
        return
    for member in node.members:
        yield from placed_rules(member)


def paths_of(node: Node) -> Iterator[str]:
    """Yield the branches of a tree: that of the node itself, if it is one, and all within."""
    if isinstance(node, Leaf):
        return
    if isinstance(node, AllBranch):
        yield node.path
    for member in node.members:
        yield from paths_of(member)


def kinds_of(node: Node) -> tuple[str, ...]:
    """Return the kinds of Attesters that a tree has rules for, each once."""
    if isinstance(node, Leaf):
        return () if node.kind == SET else (node.kind,)
    return tuple(dict.fromkeys(kind for member in node.members for kind in kinds_of(member)))
