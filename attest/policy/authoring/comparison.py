"""Comparison of two values of one demand: the second accepts less, more, or something else.

Each comparison is over the meaning of a demand: the order of a list, a second spelling of a version, or another name
for the same reference value make no difference.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from attest.checks import Unchecked
from attest.encoding import rfc3339_text
from attest.evidence.snp.tcb import SnpTcbVersion
from attest.policy.devices import Count
from attest.policy.eventlog import FIRMWARE_LISTS, LOADER_LISTS
from attest.policy.intel_tcb import AcceptedAdvisory
from attest.policy.snp import SnpAbi
from attest.policy.versions import VersionRange, ranges_text

_K = TypeVar("_K")
_Ordered = TypeVar("_Ordered", int, datetime, SnpAbi)
_Values = tuple[Any, ...]  # Any: members of any list that a policy can have


class Effect(enum.StrEnum):
    """The effect of a difference on the set of accepted evidence."""

    STRICTER = "stricter"
    LOOSER = "looser"
    CHANGED = "changed"
    """Some accepted evidence is refused and some refused evidence accepted, or the direction is unknown."""
    LABEL = "label"
    """Text for people: it changes no outcome."""

    @property
    def reverse(self) -> Effect:
        """The effect of the way back."""
        return {Effect.STRICTER: Effect.LOOSER, Effect.LOOSER: Effect.STRICTER}.get(self, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One difference between two values."""

    effect: Effect
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The reference values of some names: each digest with the last moment at which it counts."""

    ends: Mapping[bytes, datetime | None]
    names: Mapping[bytes, str]
    elsewhere: tuple[str, ...] = ()
    """Names from other documents; they are compared as names."""


Differences = Iterator[Compared]


def combined(effects: Iterable[Effect]) -> Effect | None:
    """Return the effect of several differences together; None for none."""
    found = set(effects)
    real = found - {Effect.LABEL}
    if not real:
        return Effect.LABEL if found else None
    return real.pop() if len(real) == 1 else Effect.CHANGED


def shown(value: object) -> str:
    """Write a value for people; digests in full."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case datetime():
            return rfc3339_text(value)
        case tuple():
            return _tuple_text(cast("tuple[object, ...]", value))
        case Mapping():
            members = cast("Mapping[object, object]", value)
            return "; ".join(f"{name} {shown(member)}" for name, member in members.items()) or "none"
        case Resolved():
            return ", ".join(dict.fromkeys((*value.names.values(), *value.elsewhere)))
        case AcceptedAdvisory():
            return f"until {shown(value.expires)}: {value.reason}"
        case _:
            return str(value)


def _tuple_text(values: tuple[object, ...]) -> str:
    if values and all(isinstance(one, VersionRange) for one in values):
        return ranges_text(cast("tuple[VersionRange, ...]", values))
    return ", ".join(map(shown, values)) or "none"


# -- lists and tables


def _members(old: _Values, new: _Values, *, added: Effect) -> Differences:
    """Compare lists, regardless of order and repetitions; ``added`` is the effect of one more member."""
    more = tuple(dict.fromkeys(one for one in new if one not in old))
    fewer = tuple(dict.fromkeys(one for one in old if one not in new))
    if more:
        yield Compared(effect=added, text=f"added {shown(more)}")
    if fewer:
        yield Compared(effect=added.reverse, text=f"removed {shown(fewer)}")


allowed, denied = partial(_members, added=Effect.LOOSER), partial(_members, added=Effect.STRICTER)
"""Comparisons of lists of accepted and of refused values."""


def _events(old: _Values, new: _Values) -> Differences:
    """Compare accepted events of a log. A list that accepts something demands one event; an empty one demands none."""
    if bool(old) is bool(new):
        yield from allowed(old, new)
    else:
        yield Compared(effect=Effect.CHANGED, text=f"{_event_text(old)}, now {_event_text(new)}")


def _event_text(events: _Values) -> str:
    return f"at least one of {shown(events)}" if events else "no such event"


def _application_events(old: _Values, new: _Values) -> Differences:
    """Compare exhaustive lists of entries that must all be met: a difference has no direction."""
    if set(old) != set(new):
        yield Compared(effect=Effect.CHANGED, text=f"{shown(old)}, now {shown(new)}")


def _table(
    old: Mapping[_K, Any],
    new: Mapping[_K, Any],
    *,
    added: Effect,
    each: Callable[[Any, Any], Differences],
) -> Differences:
    """Compare entries by their names; ``added`` is what one more of them does."""
    for name in dict.fromkeys((*old, *new)):
        if name not in old:
            yield Compared(effect=added, text=f"added {name}: {shown(new[name])}")
        elif name not in new:
            yield Compared(effect=added.reverse, text=f"removed {name}: {shown(old[name])}")
        else:
            for one in each(old[name], new[name]):
                yield Compared(effect=one.effect, text=f"{name}: {one.text}")


# -- numbers


def minimum(old: _Ordered, new: _Ordered) -> Differences:
    """Compare minimums of one kind: numbers, dates, versions of an interface."""
    if old != new:
        word, effect = ("raised", Effect.STRICTER) if new > old else ("lowered", Effect.LOOSER)
        yield Compared(effect=effect, text=f"{word} from {shown(old)} to {shown(new)}")


def maximum(old: int, new: int) -> Differences:
    """Compare maximums: the higher one accepts more."""
    for one in minimum(old, new):
        yield Compared(effect=one.effect.reverse, text=one.text)


def _tcb(old: SnpTcbVersion, new: SnpTcbVersion) -> Differences:
    """Compare minimums component by component: none makes up for another."""
    levels = new.components()
    for name, level in old.components().items():
        for one in minimum(level, levels[name]):
            yield Compared(effect=one.effect, text=f"{name} {one.text}")


def _mask(old: int, new: int) -> Differences:
    """Compare bits that must be set."""
    if new & ~old:
        yield Compared(effect=Effect.STRICTER, text=f"bits {new & ~old:#x} demanded")
    if old & ~new:
        yield Compared(effect=Effect.LOOSER, text=f"bits {old & ~new:#x} no longer demanded")


def counts(old: Count, new: Count) -> Differences:
    """Compare numbers of devices, by both bounds."""
    yield from minimum(old.at_least, new.at_least)
    if old.at_most != new.at_most:
        lower = old.at_most is None or (new.at_most is not None and new.at_most < old.at_most)
        texts = ["any number" if count.at_most is None else str(count.at_most) for count in (old, new)]
        effect = Effect.STRICTER if lower else Effect.LOOSER
        yield Compared(effect=effect, text=f"at most {texts[0]}, now at most {texts[1]}")


def switches(old: object, new: object) -> Differences:
    """Compare values of which neither contains the other."""
    if old != new:
        yield Compared(effect=Effect.CHANGED, text=f"{shown(old)}, now {shown(new)}")


# -- versions

Edge = tuple[tuple[int, ...], int]
"""A place between versions: just before (0) or just after (1) one of them."""
_LAST: Edge = ((1 << 62,), 0)


def spans(ranges: Iterable[VersionRange]) -> list[tuple[Edge, Edge]]:
    """Return the ranges in order, those that touch made one."""
    merged: list[tuple[Edge, Edge]] = []
    for low, high in sorted(map(_span, ranges)):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _span(one: VersionRange) -> tuple[Edge, Edge]:
    if one.exactly is not None:
        return (one.exactly.components, 0), (one.exactly.components, 1)
    low = () if one.at_least is None else one.at_least.components
    return (low, 0), _LAST if one.below is None else (one.below.components, 0)


def _within(inner: list[tuple[Edge, Edge]], outer: list[tuple[Edge, Edge]]) -> bool:
    return all(any(low <= a and b <= high for low, high in outer) for a, b in inner)


def _versions(old: tuple[VersionRange, ...], new: tuple[VersionRange, ...]) -> Differences:
    """Compare the versions that are in some range, however the ranges are cut."""
    before, after = spans(old), spans(new)
    if before == after:
        return
    effect = Effect.STRICTER if _within(after, before) else Effect.LOOSER if _within(before, after) else Effect.CHANGED
    yield Compared(effect=effect, text=f"{shown(old)}; now {shown(new)}")


# -- what has an end, what has a reason


def _ends(old: datetime | None, new: datetime | None) -> Differences:
    if old != new:
        sooner = old is None or (new is not None and new < old)
        texts = ["no end" if end is None else shown(end) for end in (old, new)]
        effect = Effect.STRICTER if sooner else Effect.LOOSER
        yield Compared(effect=effect, text=f"counts until {texts[1]}, before: {texts[0]}")


def _advisory(old: AcceptedAdvisory, new: AcceptedAdvisory) -> Differences:
    yield from _ends(old.expires, new.expires)
    yield from reasons(old.reason, new.reason)


def reasons(old: str, new: str) -> Differences:
    """Compare texts for people."""
    if old != new:
        yield Compared(effect=Effect.LABEL, text=f"reason {old!r}, now {new!r}")


def _resolved(old: Resolved, new: Resolved) -> Differences:
    """Compare the digests of names: another name for the same digest is not a difference."""
    for digest in dict.fromkeys((*old.ends, *new.ends)):
        value = digest.hex()
        if digest not in old.ends:
            end = "" if new.ends[digest] is None else f", until {shown(new.ends[digest])}"
            yield Compared(effect=Effect.LOOSER, text=f"added {new.names[digest]} {value}{end}")
        elif digest not in new.ends:
            yield Compared(effect=Effect.STRICTER, text=f"removed {old.names[digest]} {value}")
        else:
            for one in _ends(old.ends[digest], new.ends[digest]):
                yield Compared(effect=one.effect, text=f"{new.names[digest]} {value}: {one.text}")
    yield from allowed(old.elsewhere, new.elsewhere)


# -- which comparison


def compare_values(name: str, old: object, new: object) -> Differences:
    """Compare two values of the demand of this name (the last part of its path)."""
    yield from _comparison(name, old)(old, new)


def _comparison(name: str, value: object) -> Callable[[Any, Any], Differences]:  # Any: values of that demand
    """Return the comparison for a demand; both of its values have one type."""
    if isinstance(value, Resolved):
        return _resolved
    if isinstance(value, Count):
        return counts
    if isinstance(value, tuple):
        return denied if name.startswith("denied_") else _TUPLES.get(name, allowed)
    if name.startswith("minimum_") and isinstance(value, int | datetime | SnpAbi):
        return minimum
    if name.startswith("maximum_"):
        return maximum
    return _OTHERS.get(name, switches)


def _unchecked(old: tuple[Unchecked, ...], new: tuple[Unchecked, ...]) -> Differences:
    first, second = ({one.check: one.reason for one in some} for some in (old, new))
    yield from _table(first, second, added=Effect.LOOSER, each=reasons)


_TUPLES: Mapping[str, Callable[[_Values, _Values], Differences]] = {
    "application_events": _application_events,
    "driver_versions": _versions,
    "vbios_versions": _versions,
    "unchecked": _unchecked,
    **dict.fromkeys((*FIRMWARE_LISTS, *LOADER_LISTS, "other_runtime_events"), _events),
}


_table_of_accepted = partial(_table, added=Effect.LOOSER)
"""Comparison of tables in which an entry that is not listed is refused: product lines, module versions, advisories."""

_OTHERS: Mapping[str, Callable[[Any, Any], Differences]] = {
    "mitigations_at_launch": _mask,
    "mitigations_now": _mask,
    **dict.fromkeys(
        ("minimum_tcb", "minimum_committed_tcb", "minimum_launch_tcb"), partial(_table_of_accepted, each=_tcb)
    ),
    "minimum_tdx_module_svn": partial(_table_of_accepted, each=minimum),
    "accepted_advisories": partial(_table_of_accepted, each=_advisory),
    **dict.fromkeys(
        ("waived_measurements", "accepted_opaque", "accepted_spls"), partial(_table_of_accepted, each=reasons)
    ),
}
