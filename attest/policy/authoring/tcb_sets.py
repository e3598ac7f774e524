"""Sets of TCBs that a minimum and a list of exact ones accept together, and the comparison of two sets.

Neither demand can be compared alone: a list of exact TCBs in the place of a minimum is stricter when the minimum
covered them all, and an entry of a list below the minimum beside it does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy.authoring.comparison import Compared, Effect
from attest.policy.decoder import Demand, RelaxedDemand, stated
from attest.policy.snp import SnpDemands
from attest.policy.snp_tcb import TCB_DEMANDS, ExactTcbs, TcbMinimums, exact_tcbs_text, minimum_tcbs_text

_Pair = tuple[Demand[TcbMinimums] | None, Demand[ExactTcbs] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """The accepted TCBs of one product line: all from ``least`` on, or the members of ``exactly``."""

    least: SnpTcbVersion | None = None
    exactly: tuple[SnpTcbVersion, ...] = ()

    def __str__(self) -> str:
        if self.least is not None:
            return f"at least {self.least}"
        return f"exactly {' or '.join(map(str, self.exactly))}" if self.exactly else "none"

    def within(self, other: _Levels) -> bool:
        """Return True if ``other`` accepts the whole set; a list never has all that a minimum accepts."""
        if self.least is not None:
            return other.least is not None and self.least.covers(other.least)
        return all(other.has(tcb) for tcb in self.exactly)

    def has(self, tcb: SnpTcbVersion) -> bool:
        """Return True if the set contains this TCB."""
        return tcb in self.exactly if self.least is None else tcb.covers(self.least)


_NONE = _Levels()


def _accepted(minimums: TcbMinimums | None, exact: ExactTcbs | None) -> Mapping[SnpProduct, _Levels] | None:
    """Return the accepted TCBs of each product line, the others being refused; None without a demand."""
    floors = None if minimums is None else {line: _Levels(least=least) for line, least in minimums.items()}
    if exact is None:
        return floors
    return {
        line: _Levels(exactly=tuple(tcb for tcb in tcbs if floors is None or floors.get(line, _NONE).has(tcb)))
        for line, tcbs in exact.items()
    }


def have_common_tcb(exact: ExactTcbs, *, minimums: TcbMinimums | None = None, other: ExactTcbs | None = None) -> bool:
    """Return True if a TCB of a list also meets another demand on the same TCB: a minimum, or another list."""
    found = _accepted(minimums, exact) or {}
    return any(other is None or tcb in other.get(line, ()) for line, levels in found.items() for tcb in levels.exactly)


def joined_tcbs(old: object, new: object) -> dict[str, tuple[Compared, ...]]:
    """Compare demands on TCBs in pairs, where one of both policies lists exact ones.

    Return the differences by key. Without an exact TCB there is no entry: a minimum is compared with a minimum.
    """
    if not isinstance(old, SnpDemands) or not isinstance(new, SnpDemands):
        return {}
    found: dict[str, tuple[Compared, ...]] = {}
    for minimum, exact in TCB_DEMANDS.values():
        before, after = ((getattr(one, minimum), getattr(one, exact)) for one in (old, new))
        if stated(before[1]) is not None or stated(after[1]) is not None:
            found |= {minimum: (), exact: tuple(_differences(before, after))}
    return found


def _differences(old: _Pair, new: _Pair) -> Iterator[Compared]:
    if old == new:
        return
    before, after = (_accepted(stated(minimum), stated(exact)) for minimum, exact in (old, new))
    text = f"{_pair_text(old)}, now {_pair_text(new)}"
    if before is None or after is None:
        yield Compared(effect=Effect.STRICTER if before is None else Effect.LOOSER, text=text)
        return
    found = tuple(_by_line(before, after))
    yield from found or (Compared(effect=Effect.LABEL, text=text),)


def _by_line(old: Mapping[SnpProduct, _Levels], new: Mapping[SnpProduct, _Levels]) -> Iterator[Compared]:
    for line in dict.fromkeys((*old, *new)):
        before, after = old.get(line, _NONE), new.get(line, _NONE)
        fewer, more = after.within(before), before.within(after)
        if not (fewer and more):
            effect = Effect.STRICTER if fewer else Effect.LOOSER if more else Effect.CHANGED
            yield Compared(effect=effect, text=f"{line}: {before}, now {after}")


def _pair_text(pair: _Pair) -> str:
    minimum, exact = pair
    parts = (_text(minimum, minimum_tcbs_text), _text(exact, exact_tcbs_text))
    return "; ".join(part for part in parts if part) or "not demanded"


def _text(demand: Demand[Any] | None, written: Any) -> str:  # noqa: ANN401  the demand's own type, and its text
    if demand is None:
        return ""
    value = demand.value
    return f"unchecked ({value.reason})" if isinstance(value, RelaxedDemand) else str(written(value))
