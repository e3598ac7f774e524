"""The translation of Azure's demands on claims into keys of our policies.

Each claim has a carrier, which writes the demand into a draft or states why it has no place there. A draft is a set
of demands that have to hold together: its lists only shrink, its minimums only grow, its bits are set once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from types import MappingProxyType

from attest.encoding import JsonValue
from attest.policy.foreign.conversion import CannotCarryError, Carried, Loss
from attest.policy.foreign.skr import Operator, SkrValue, integer_of, values_equal
from attest.policy.foreign.skr_claims import (
    BITS,
    DIGESTS,
    GUEST_SVN,
    TCB_CLAIMS,
    TCB_STATUS,
    TEE_PREFIX,
    VMPL,
    why_lost,
)

MAX_EXACT_TCBS = 64
"""Exact TCBs that are listed, as the combinations of the parts that a source accepts."""
_MINIMUM = {Operator.EQUALS: 0, Operator.GREATER_OR_EQUALS: 0, Operator.GREATER: 1}
"""Operators that a minimum can express, and their offset to it."""
_LOWER_HEX = frozenset("0123456789abcdef")
_KINDS = {"sevsnpvm": "snp", "tdxvm": "tdx"}
_TDX_PROFILE = "https://aka.ms/maa-eat-profile-tdxvm"
_STATUSES = (
    "UpToDate",
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
    "TDRelaunchAdvised",
    "TDRelaunchAdvisedConfigurationNeeded",
)
TCB_PARTS = tuple(TCB_CLAIMS)
_PARTS = {claim: part for part, claim in TCB_CLAIMS.items()}
HIGHEST_LEVEL = 255
_LONGEST_DEMAND = 1000


class NeverHoldsError(Exception):
    """Demands that no machine meets together. Never leaves this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedClaim:
    """A claim, and the values of which it must have one."""

    path: str
    operator: Operator
    values: tuple[SkrValue, ...]

    def __str__(self) -> str:
        return f"{self.path} {self.operator} {' or '.join(map(repr, self.values))}"

    def equals(self) -> tuple[SkrValue, ...]:
        """Return the values of which the claim must equal one."""
        if self.operator is not Operator.EQUALS:
            raise CannotCarryError(
                (f"attest policies have no {self.operator} for it"), "list the values that are accepted"
            )
        return self.values

    @property
    def claim(self) -> str:
        """The claim's name, wherever in a token it stands."""
        return self.path.removeprefix(TEE_PREFIX)

    def levels(self) -> list[int] | None:
        """Return the accepted levels of firmware; None where the demand states none."""
        numbers = [integer_of(value) for value in self.values]
        levels = [number for number in dict.fromkeys(numbers) if number is not None and 0 <= number <= HIGHEST_LEVEL]
        return levels if self.operator is Operator.EQUALS and len(levels) == len(set(numbers)) else None


@dataclass(slots=True, kw_only=True)
class SkrDraft:
    """Demands of ours in the making, which all have to hold together.

    Attributes:
        lists: accepted values, by section and key.
        bits: bits that must be set or clear, by section, table and name.
        minimums: least numbers, by key.
        levels: the accepted levels of each part of the TCB; for all four parts, or empty.
        kinds: sections that are named by the kind of machine.
    """

    lists: dict[str, dict[str, list[JsonValue]]] = field(default_factory=dict[str, dict[str, list[JsonValue]]])
    bits: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict[str, dict[str, dict[str, bool]]])
    minimums: dict[str, int] = field(default_factory=dict[str, int])
    levels: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    kinds: set[str] = field(default_factory=set[str])
    carried: list[Carried] = field(default_factory=list[Carried])
    losses: list[Loss] = field(default_factory=list[Loss])

    @staticmethod
    def of(wanted: Iterable[WantedClaim]) -> SkrDraft:
        """Write demands that all have to hold, or record their loss.

        Raises:
            NeverHoldsError: no machine meets them together.
        """
        demands = tuple(wanted)
        draft = SkrDraft(levels=_exact_levels(demands))
        for one in demands:
            draft._carry(one)
        if len(draft.sections) > 1:
            raise NeverHoldsError("it demands two kinds of machine at once")
        if draft.levels and not draft.exact_tcbs():
            raise NeverHoldsError("no value of snp.exact_tcb is left")
        return draft

    @property
    def sections(self) -> frozenset[str]:
        """The sections that something is demanded in."""
        return frozenset({*self.kinds, *self.lists, *self.bits, *(["snp"] if self.minimums or self.levels else [])})

    def exact_tcbs(self) -> list[dict[str, int]]:
        """Return the TCBs that are accepted: all combinations of their parts, without those below a minimum."""
        floors = {part: self.minimums.get(f"minimum_tcb.{part}", 0) for part in TCB_PARTS}
        combined = (dict(zip(TCB_PARTS, levels, strict=True)) for levels in product(*self.levels.values()))
        return [tcb for tcb in combined if all(tcb[part] >= floor for part, floor in floors.items())]

    def lose(self, name: str, demand: str, why: str, remedy: str) -> None:
        """Record a demand that is lost, in whole or in part."""
        self.losses.append(Loss(name=name, demand=demand[:_LONGEST_DEMAND], why=why, remedy=remedy))

    def narrow(self, kind: str, key: str, values: list[JsonValue]) -> str:
        """Keep the values that both lists have: both demands have to hold."""
        known = self.lists.setdefault(kind, {})
        known[key] = [one for one in known.get(key, dict.fromkeys(values)) if one in values]
        if not known[key]:
            raise NeverHoldsError(f"no value of {kind}.{key} is left")
        return f"{kind}.{key}"

    def switch(self, kind: str, group: str, bit: str, *, wanted: bool) -> str:
        """Demand a bit."""
        known = self.bits.setdefault(kind, {}).setdefault(group, {})
        if known.setdefault(bit, wanted) is not wanted:
            raise NeverHoldsError(f"{kind}.{group}.{bit} is demanded true and false")
        return f"{kind}.{group}.{bit}"

    def raise_to(self, name: str, minimum: int) -> None:
        """Demand a minimum; of several the highest counts."""
        self.minimums[name] = max(minimum, self.minimums.get(name, 0))

    def _carry(self, wanted: WantedClaim) -> None:
        carrier = _CARRIERS.get(wanted.claim)
        if carrier is None:
            self.lose(wanted.path, str(wanted), *why_lost(wanted.path))
            return
        try:
            target = carrier(self, wanted)
        except CannotCarryError as exc:
            self.lose(wanted.path, str(wanted), exc.why, exc.remedy)
        else:
            self.carried.append(Carried(source=wanted.path, target=target))


def is_carriable(wanted: WantedClaim) -> bool:
    """Return True if our policies have a place for a demand, or for a part of it."""
    return bool(SkrDraft.of((wanted,)).carried)


def _exact_levels(demands: tuple[WantedClaim, ...]) -> dict[str, list[int]]:
    """Return the levels of each part of the TCB that are accepted, if a source lists them for all four.

    Raises:
        NeverHoldsError: it demands two levels of one part at once.
    """
    found: dict[str, list[int]] = {}
    for one in demands:
        part, levels = _PARTS.get(one.claim), one.levels()
        if part is not None and levels is not None:
            found[part] = [level for level in found[part] if level in levels] if part in found else levels
    if len(found) < len(TCB_PARTS) or prod(map(len, found.values())) > MAX_EXACT_TCBS:
        return {}
    if not all(found.values()):
        raise NeverHoldsError("no value of snp.exact_tcb is left")
    return {part: found[part] for part in TCB_PARTS}


_Carrier = Callable[[SkrDraft, WantedClaim], str]
"""Writes a demand into a draft and returns its key; raises CannotCarryError."""


# -- carriers


def _hex_values(wanted: WantedClaim, size: int) -> list[JsonValue]:
    values = wanted.equals()
    for value in values:
        if not isinstance(value, str) or len(value) != 2 * size or not _LOWER_HEX.issuperset(value):
            why = f"{value!r} is not {2 * size} lower-case hex digits, as Azure writes them: it can never be met there"
            raise CannotCarryError(why, "correct the value in the source")
    return list(values)


def _hex(kind: str, key: str, *, size: int) -> _Carrier:
    return lambda draft, wanted: draft.narrow(kind, key, _hex_values(wanted, size))


def _bit(kind: str, group: str, bit: str, *, only: bool | None) -> _Carrier:
    """Carry a boolean; ``only`` is the one that our policies can demand."""

    def carry(draft: SkrDraft, wanted: WantedClaim) -> str:
        values = wanted.equals()
        for truth in (True, False):
            if all(values_equal(value, truth) for value in values):
                if only is not None and only is not truth:
                    why = f"attest policies never demand {str(truth).lower()} of it"
                    raise CannotCarryError(why, f"{kind}.{group}.{bit}: {{unchecked: reason}} accepts both")
                return draft.switch(kind, group, bit, wanted=truth)
        raise CannotCarryError("both truth values, or none, are accepted", "demand one of true and false")

    return carry


def _vmpl(draft: SkrDraft, wanted: WantedClaim) -> str:
    numbers = [integer_of(value) for value in wanted.equals()]
    if not all(number in range(4) for number in numbers):
        raise CannotCarryError("a VMPL is a number from 0 to 3", "correct the value in the source")
    return draft.narrow("snp", "vmpl", list(numbers))


def _status(draft: SkrDraft, wanted: WantedClaim) -> str:
    values = wanted.equals()
    if not set(values) <= set(_STATUSES):
        raise CannotCarryError("no attest policy accepts such a status", f"name some of {', '.join(_STATUSES)}")
    return draft.narrow("tdx", "tcb_status", list(values))


def _at_least(name: str, highest: int) -> _Carrier:
    """Carry a minimum. An exact number becomes one, which accepts more: that part is lost."""

    def carry(draft: SkrDraft, wanted: WantedClaim) -> str:
        numbers = [integer_of(value) for value in wanted.values]
        if wanted.operator not in _MINIMUM:
            raise CannotCarryError(
                (f"attest policies demand a minimum, and have no {wanted.operator}"), "state a minimum"
            )
        lowest = min(-1 if number is None else number for number in numbers) + _MINIMUM[wanted.operator]
        if not 0 <= lowest <= highest or None in numbers:
            raise CannotCarryError(f"such a number is from 0 to {highest}", "correct the value in the source")
        draft.raise_to(name, lowest)
        if wanted.operator is Operator.EQUALS:
            why = f"attest policies demand a minimum, not an exact number: carried as at least {lowest}"
            draft.lose(wanted.path, str(wanted), why, "accept that newer levels pass too")
        return f"snp.{name}"

    return carry


def _tcb_part(part: str) -> _Carrier:
    """Carry a part of the TCB: exactly, where all of its parts are demanded so; else as a minimum."""
    minimum = _at_least(f"minimum_tcb.{part}", HIGHEST_LEVEL)

    def carry(draft: SkrDraft, wanted: WantedClaim) -> str:
        return minimum(draft, wanted) if not draft.levels or wanted.levels() is None else "snp.exact_tcb"

    return carry


def _kind(draft: SkrDraft, wanted: WantedClaim) -> str:
    values = wanted.equals()
    if len(values) != 1 or values[0] not in _KINDS:
        raise CannotCarryError(
            "attest policies identify machines by the hardware that signs: " + ", ".join(_KINDS), "demand one of these"
        )
    kind = _KINDS[str(values[0])]
    draft.kinds.add(kind)
    return kind


def _profile(draft: SkrDraft, wanted: WantedClaim) -> str:
    if wanted.equals() != (_TDX_PROFILE,):
        raise CannotCarryError("another profile than that of Azure's tokens about TDs", "demand an attestation type")
    draft.kinds.add("tdx")
    return "tdx"


_CARRIERS: Mapping[str, _Carrier] = MappingProxyType(
    {
        "x-ms-attestation-type": _kind,
        "eat_profile": _profile,
        **{claim: _hex(*key.split("."), size=size) for key, (claim, size) in DIGESTS.items()},
        **{claim: _bit(*key.split("."), only=only) for key, (claim, only) in BITS.items()},
        **{claim: _tcb_part(part) for part, claim in TCB_CLAIMS.items()},
        VMPL: _vmpl,
        GUEST_SVN: _at_least("minimum_guest_svn", 2**32 - 1),
        TCB_STATUS: _status,
    }
)
