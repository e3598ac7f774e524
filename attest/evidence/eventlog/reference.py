"""Comparison of a log with a reference log: the first event that differs.

It explains to a person which event changed. A policy decides whether the change is acceptable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from attest.evidence.eventlog.content import event_text, is_extended
from attest.evidence.eventlog.structure import ParsedEvent, ParsedEventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEvent:
    """One event, as far as a person needs it to know what changed.

    Attributes:
        number: in its own log.
        digest: the value that extended the register.
        text: its data when readable; not verified here.
    """

    number: int
    type_name: str
    digest: bytes
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterDifference:
    """The difference between the events of one register.

    Attributes:
        position: 1 for the register's first event: the first place at which the digests differ.
        expected: the reference's event there; None when the reference has ended.
        got: the log's event there; None when the log has ended.
        missing: events of the reference that the log does not have, wherever they stand.
        extra: events of the log that the reference does not have.
    """

    register: str
    position: int
    expected: ComparedEvent | None
    got: ComparedEvent | None
    missing: tuple[ComparedEvent, ...]
    extra: tuple[ComparedEvent, ...]


def compare_logs(log: ParsedEventLog, reference: ParsedEventLog) -> tuple[RegisterDifference, ...]:
    """Compare two logs by what they extend, register by register; equal registers are left out.

    Only digests count: equal digests mean equal registers, whatever the types and texts beside them say.

    Raises:
        ValueError: the logs are of two kinds.
    """
    if log.kind != reference.kind:
        raise ValueError(f"a {log.kind.name} log cannot be compared with a {reference.kind.name} log")
    differences = (
        _difference(register.name, _of_register(reference, index), _of_register(log, index))
        for index, register in enumerate(log.kind.registers)
    )
    return tuple(difference for difference in differences if difference is not None)


def _of_register(log: ParsedEventLog, index: int) -> list[ParsedEvent]:
    return [event for event in log.events if event.index == index and is_extended(event, log.kind)]


def _difference(name: str, expected: list[ParsedEvent], got: list[ParsedEvent]) -> RegisterDifference | None:
    if [event.digest for event in expected] == [event.digest for event in got]:
        return None
    pairs = zip(expected, got, strict=False)  # One list may be the beginning of the other.
    same = next((at for at, (one, two) in enumerate(pairs) if one.digest != two.digest), min(len(expected), len(got)))
    return RegisterDifference(
        register=name,
        position=same + 1,
        expected=_compared(expected[same]) if same < len(expected) else None,
        got=_compared(got[same]) if same < len(got) else None,
        missing=_beyond(expected, got),
        extra=_beyond(got, expected),
    )


def _beyond(events: Iterable[ParsedEvent], others: Iterable[ParsedEvent]) -> tuple[ComparedEvent, ...]:
    """Return the events whose digest the others have less often; of equal ones, the last."""
    there = Counter(event.digest for event in others)
    found: list[ComparedEvent] = []
    for event in events:
        if there[event.digest]:
            there[event.digest] -= 1
        else:
            found.append(_compared(event))
    return tuple(found)


def _compared(event: ParsedEvent) -> ComparedEvent:
    return ComparedEvent(number=event.number, type_name=event.type_name, digest=event.digest, text=event_text(event))
