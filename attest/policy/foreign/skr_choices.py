"""The choices of a release policy, as branches: what always has to hold, and alternatives of which one has to.

A policy of ours has all demands in every branch. So alternatives are written out in full: each has the demands around
its choice, and choices within alternatives become more alternatives. A lost demand never makes a choice easier: an
alternative of which nothing is carried is left out, and does not count as met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from attest.policy.foreign.conversion import Loss
from attest.policy.foreign.skr import AllOf, AnyOf, ClaimTest, Condition, Operator, SkrValue, claim_tests
from attest.policy.foreign.skr_carriers import NeverHoldsError, SkrDraft, WantedClaim, is_carriable
from attest.policy.model import MAX_BRANCHES

_Placed = tuple[str, Condition]
"""A condition with its place in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Demands that have to hold together, and their place in the source."""

    path: str
    wanted: tuple[WantedClaim, ...]

    def with_(self, other: Alternative) -> Alternative:
        """Return both as one."""
        places = (path for path in (self.path, other.path) if path)
        return Alternative(path=" with ".join(places), wanted=(*self.wanted, *other.wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkrAlternatives:
    """Alternatives of which one has to hold, at least one, and the place of the choice in the source."""

    path: str
    alternatives: tuple[Alternative, ...]


class _TooManyError(Exception):
    """More alternatives than our policies have branches. Never leaves this module."""


@dataclass(slots=True, kw_only=True)
class Factors:
    """The demands of a source: all of ``own``, and one alternative of each choice.

    Attributes:
        left_out: alternatives of which nothing can be carried, beside others of which something can.
        never: alternatives that no machine meets.
        losses: choices that are not carried.
    """

    own: tuple[WantedClaim, ...] = ()
    choices: list[SkrAlternatives] = field(default_factory=list[SkrAlternatives])
    left_out: list[Alternative] = field(default_factory=list[Alternative])
    never: list[Alternative] = field(default_factory=list[Alternative])
    losses: list[Loss] = field(default_factory=list[Loss])

    @staticmethod
    def of(members: Iterable[_Placed], path: str) -> Factors:
        """Take conditions apart of which one has to hold, each with its place; ``path`` is the place of their list.

        Raises:
            NeverHoldsError: no machine meets any of them.
        """
        found, listed = Factors(), tuple(members)
        if len(listed) == 1:
            ((place, only),) = listed
            found._demand(only, place)
        else:
            found._choose(listed, path)
        return found

    def branches(self) -> tuple[SkrAlternatives, ...]:
        """Write every alternative out whole.

        Returns:
            One choice, if the combinations of all alternatives are few enough to be branches. Otherwise several, of
            each of which an alternative has to hold; those that find no place among the branches are lost.
        """
        combined: tuple[Alternative, ...] = (Alternative(path="", wanted=self.own),)
        for choice in self.choices:
            if len(combined) * len(choice.alternatives) > MAX_BRANCHES:
                return tuple(self._side_by_side())
            combined = tuple(one.with_(other) for one in combined for other in choice.alternatives)
        return (SkrAlternatives(path="anyOf", alternatives=combined),)

    def _side_by_side(self) -> Iterator[SkrAlternatives]:
        own, used = Alternative(path="", wanted=self.own), 0
        for choice in self.choices:
            needed = len(choice.alternatives) + (used > 0)  # a branch more, of all_of, for each but the first
            if used + needed > MAX_BRANCHES:
                wanted = (one for alternative in choice.alternatives for one in alternative.wanted)
                self._lose(choice.path, wanted, len(choice.alternatives))
            else:
                used += needed
                yield SkrAlternatives(
                    path=choice.path, alternatives=tuple(own.with_(one) for one in choice.alternatives)
                )

    # -- what always has to hold

    def _demand(self, condition: Condition, path: str) -> None:
        match condition:
            case AllOf():
                for index, below in enumerate(condition.conditions):
                    self._demand(below, f"{path}.allOf[{index}]")
            case AnyOf(conditions=(only,)):
                self._demand(only, f"{path}.anyOf[0]")
            case AnyOf():
                self._choose(tuple(_members(condition, path)), f"{path}.anyOf")
            case _:
                self.own += (_wanted(condition),)

    def _choose(self, members: tuple[_Placed, ...], path: str) -> None:
        before = len(self.left_out), len(self.never)
        try:
            found = self._any(members, path)
        except _TooManyError:
            del self.left_out[before[0] :], self.never[before[1] :]
            self._lose(path, (one for _, member in members for one in _all_wanted(member)), len(members))
            return
        if len(found) == 1:
            self.own += found[0].wanted
        else:
            self.choices.append(SkrAlternatives(path=path, alternatives=found))

    def _lose(self, path: str, wanted: Iterable[WantedClaim], count: int) -> None:
        claims = ", ".join(dict.fromkeys(one.path for one in wanted))
        self.losses.append(
            Loss(
                name=path,
                demand=f"one of {count} conditions on {claims}"[:1000],
                why=f"written out, its alternatives are more than the {MAX_BRANCHES} branches that a policy may have",
                remedy="split the source, and give the policies one after another",
            )
        )

    # -- alternatives

    def _any(self, members: Iterable[_Placed], path: str) -> tuple[Alternative, ...]:
        """Return the alternatives of a choice, without those of which nothing can be carried or that never hold.

        Where nothing can be carried of any of them, all their demands are returned as one: each is lost by its name.
        """
        found, reasons = list[Alternative](), list[NeverHoldsError]()
        for place, member in _grouped(members):
            try:
                found += self._alternatives(member, place)
            except NeverHoldsError as exc:
                self.never.append(Alternative(path=place, wanted=_all_wanted(member)))
                reasons.append(exc)
        live, lost = list[Alternative](), list[Alternative]()
        for one in _distinct(found):
            (live if any(map(is_carriable, one.wanted)) else lost).append(one)
        if len(live) > MAX_BRANCHES:
            raise _TooManyError
        if live:
            self.left_out += lost
            return tuple(live)
        if not lost:
            raise reasons[0]
        return (Alternative(path=path, wanted=tuple(wanted for one in lost for wanted in one.wanted)),)

    def _alternatives(self, member: Condition | WantedClaim, path: str) -> tuple[Alternative, ...]:
        if isinstance(member, AllOf):
            return self._together(member, path)
        if isinstance(member, AnyOf):
            return self._any(_members(member, path), f"{path}.anyOf")
        wanted = _wanted(member) if isinstance(member, ClaimTest) else member
        return (Alternative(path=path, wanted=(wanted,)),)

    def _together(self, member: AllOf, path: str) -> tuple[Alternative, ...]:
        """Combine conditions that must hold together; contradictory combinations are left out."""
        combined: tuple[Alternative, ...] = (Alternative(path=path, wanted=()),)
        for index, below in enumerate(member.conditions):
            found = self._alternatives(below, f"{path}.allOf[{index}]")
            combined = _distinct(
                Alternative(path=path, wanted=(*one.wanted, *other.wanted)) for one in combined for other in found
            )
            if len(combined) > MAX_BRANCHES:
                raise _TooManyError
        possible, reasons = list[Alternative](), list[NeverHoldsError]()
        for one in combined:
            try:
                SkrDraft.of(one.wanted)
            except NeverHoldsError as exc:
                self.never.append(one)
                reasons.append(exc)
            else:
                possible.append(one)
        if not possible:
            raise reasons[0]
        return tuple(possible)


def _distinct(alternatives: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Return the alternatives without repetitions. In Python 1 equals True, in a policy it does not."""
    found: dict[frozenset[tuple[str, Operator, str]], Alternative] = {}
    for one in alternatives:
        found.setdefault(frozenset((each.path, each.operator, repr(each.values)) for each in one.wanted), one)
    return tuple(found.values())


def _wanted(test: ClaimTest) -> WantedClaim:
    return WantedClaim(path=test.path, operator=test.operator, values=(test.value,))


def _all_wanted(member: Condition | WantedClaim) -> tuple[WantedClaim, ...]:
    return (member,) if isinstance(member, WantedClaim) else tuple(map(_wanted, claim_tests(member)))


def _members(condition: AnyOf, path: str) -> Iterator[_Placed]:
    for index, below in enumerate(condition.conditions):
        yield f"{path}.anyOf[{index}]", below


def _flat(members: Iterable[_Placed]) -> Iterator[_Placed]:
    """Yield the members of a choice and of the choices in it; a list of one is its member."""
    for path, member in members:
        match member:
            case AnyOf():
                yield from _flat(_members(member, path))
            case AllOf(conditions=(only,)):
                yield from _flat([(f"{path}.allOf[0]", only)])
            case _:
                yield path, member


def _grouped(members: Iterable[_Placed]) -> Iterator[tuple[str, Condition | WantedClaim]]:
    """Yield the members of a choice, those that name values of one claim as one demand where we can list them."""
    flat = tuple(_flat(members))
    values: dict[str, list[SkrValue]] = {}
    for _, member in flat:
        if _is_value(member):
            values.setdefault(member.path, []).append(member.value)
    lists = {
        path: WantedClaim(path=path, operator=Operator.EQUALS, values=tuple(found)) for path, found in values.items()
    }
    carriable = {path: found for path, found in lists.items() if is_carriable(found)}
    listed_paths = set[str]()
    for place, member in flat:
        if not _is_value(member) or member.path not in carriable:
            yield place, member
        elif member.path not in listed_paths:
            listed_paths.add(member.path)
            yield place, carriable[member.path]


def _is_value(member: Condition) -> TypeGuard[ClaimTest]:
    return isinstance(member, ClaimTest) and member.operator is Operator.EQUALS
