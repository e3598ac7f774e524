"""A boot beside a known good one: which event was the first to differ?

An explanation, not a verdict: it changes no outcome. What is acceptable is for a policy to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attest.cli.files import read_file
from attest.encoding import JsonValue
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.envelope import MAX_ITEM_BYTES, MEDIA_EVENT_LOG, Evidence
from attest.evidence.eventlog.reference import ComparedEvent, RegisterDifference, compare_logs
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.evidence.formats import FORMATS

__all__ = ["ReferenceLog", "compared_document", "read_reference_log"]

_Registers = tuple[bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLog:
    """The log of a known good boot, and what the evidence has to compare with it.

    Attributes:
        log: the reference.
        registers: RTMR0 to RTMR3, as the evidence states them.
        eventlog: the log that came with the evidence, if one did.
    """

    log: ParsedEventLog
    registers: _Registers
    eventlog: ParsedEventLog | None


def read_reference_log(file: str | None, evidence: Evidence) -> ReferenceLog | None:
    """Read the log of ``--reference-log``.

    Raises:
        ConfigurationError: ``reference-log-malformed``, ``eventlog-without-registers``, or it cannot be read.
        EvidenceError: the evidence is malformed.
    """
    if file is None:
        return None
    data = read_file(file, limit=MAX_ITEM_BYTES, what="--reference-log")
    try:
        reference = parse_event_log(data)
    except EvidenceError as exc:
        raise ConfigurationError(
            f"--reference-log: {file}: {exc.message}",
            code="reference-log-malformed",
            field=exc.field,
            offset=exc.offset,
            expected="the event log of a TDX guest (CCEL)",
            hint="copy /sys/firmware/acpi/tables/data/CCEL of a boot that you trust",
        ) from exc
    registers = next(_registers(evidence), None)
    if registers is None:
        raise ConfigurationError(
            "--reference-log: this evidence has no registers that an event log could explain",
            code="eventlog-without-registers",
            expected="evidence with runtime measurement registers: a TDX quote",
            hint="leave --reference-log out",
        )
    logs = [item.value for item in evidence.items if item.essence == MEDIA_EVENT_LOG]
    return ReferenceLog(
        log=reference, registers=registers, eventlog=parse_event_log(logs[0]) if len(logs) == 1 else None
    )


def _registers(evidence: Evidence) -> Iterator[_Registers]:
    for item in evidence.items:
        media = FORMATS.get(item.essence)
        if media is not None:
            parsed = media.parse(item.value)
            registers = media.kind_of(parsed).registers
            if registers is not None:
                yield registers(parsed)


def compared_document(reference: ReferenceLog, *, verified: bool) -> dict[str, JsonValue]:
    """Tell, register by register, how the evidence differs from the known good boot; equal registers are left out.

    Args:
        reference: both sides.
        verified: whether the evidence is; the registers and the log of refused evidence are a stranger's word.
    """
    events = (
        {} if reference.eventlog is None else {d.register: d for d in compare_logs(reference.eventlog, reference.log)}
    )
    registers: list[JsonValue] = []
    for number, (expected, got) in enumerate(zip(replay(reference.log).rtmrs, reference.registers, strict=True)):
        name = f"RTMR{number}"
        if expected != got or name in events:
            told: dict[str, JsonValue] = {"register": name, "expected": expected.hex(), "got": got.hex()}
            registers.append(told | (_difference(events[name]) if name in events else {}))
    return {
        "verified": verified,
        "eventlog": reference.eventlog is not None,
        "agrees": not registers,
        "registers": registers,
    }


def _difference(difference: RegisterDifference) -> dict[str, JsonValue]:
    """Tell the first event that differs; the side whose log has ended there is left out."""
    told: dict[str, JsonValue] = {"position": difference.position}
    for name, event in (("expected_event", difference.expected), ("got_event", difference.got)):
        if event is not None:
            told[name] = _event(event)
    told["missing"] = [_event(event) for event in difference.missing]
    told["extra"] = [_event(event) for event in difference.extra]
    return told


def _event(event: ComparedEvent) -> JsonValue:
    text: dict[str, JsonValue] = {} if event.text is None else {"text": event.text}
    return {"number": event.number, "type": event.type_name, "digest": event.digest.hex(), **text}
