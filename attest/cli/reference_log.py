"""Comparison of a boot with a known good one: the first event that differs.

An explanation that changes no outcome: a policy decides on acceptance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attest.cli.files import read_file
from attest.encoding import JsonValue
from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.dstack.structure import is_dstack_log, parse_dstack_log
from attest.evidence.envelope import MAX_ITEM_BYTES, MEDIA_DSTACK_LOG, MEDIA_EVENT_LOG, Evidence
from attest.evidence.eventlog.kinds import CCEL, Growth, LogKind, Register
from attest.evidence.eventlog.reference import ComparedEvent, RegisterDifference, compare_logs
from attest.evidence.eventlog.replay import continuation, replay
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.evidence.registry import FORMATS

_WHERE = {
    "CCEL": ("the event log of a TDX guest (CCEL)", "/sys/firmware/acpi/tables/data/CCEL"),
    "TCG2": ("the event log of a TPM (TCG2)", "/sys/kernel/security/tpm0/binary_bios_measurements"),
}
"""The names of logs of each kind, and their paths on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLog:
    """The log of a known good boot, and the registers and log of the evidence to compare with it."""

    log: ParsedEventLog
    registers: Mapping[str, bytes]
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
    kind, registers = _registers(evidence)
    logs = [item.value for item in evidence.items if item.essence in (MEDIA_EVENT_LOG, MEDIA_DSTACK_LOG)]
    return ReferenceLog(
        log=_reference(file, data, kind),
        registers=registers,
        eventlog=_parsed(logs[0], kind) if len(logs) == 1 else None,
    )


def _reference(file: str, data: bytes, kind: LogKind) -> ParsedEventLog:
    try:
        return _parsed(data, kind)
    except EvidenceError as exc:
        called, path = _WHERE[kind.name]
        raise ConfigurationError(
            f"--reference-log: {file}: {exc.message}",
            code="reference-log-malformed",
            field=exc.field,
            offset=exc.offset,
            expected=called,
            hint=f"copy {path} of a boot that you trust",
        ) from exc


def _parsed(data: bytes, kind: LogKind) -> ParsedEventLog:
    """Read a log in either form of a TDX guest: what they extend can be compared."""
    return parse_dstack_log(data) if kind is CCEL and is_dstack_log(data) else parse_event_log(data, kind=kind)


def _registers(evidence: Evidence) -> tuple[LogKind, Mapping[str, bytes]]:
    for item in evidence.items:
        media = FORMATS.cpus.get(item.essence)
        if media is not None:
            parsed = media.parse(item.value)
            registers = media.kind_of(parsed).registers
            if registers is not None:
                return registers.log, registers.read(parsed)
    raise ConfigurationError(
        "--reference-log: this evidence has no registers that an event log could explain",
        code="eventlog-without-registers",
        expected="evidence with registers that a boot is measured into: a TDX quote, an Azure VM's",
        hint="leave --reference-log out",
    )


def compared_document(reference: ReferenceLog, *, verified: bool) -> dict[str, JsonValue]:
    """Return the differences from the known good boot, register by register; equal registers are left out.

    The registers and the log of evidence that is not ``verified`` are only claims.
    """
    registers: list[JsonValue] = [*_differences(reference)]
    return {
        "verified": verified,
        "eventlog": reference.eventlog is not None,
        "agrees": not registers,
        "registers": registers,
    }


def _differences(reference: ReferenceLog) -> Iterator[dict[str, JsonValue]]:
    compared = () if reference.eventlog is None else compare_logs(reference.eventlog, reference.log)
    events = {difference.register: difference for difference in compared}
    replayed = replay(reference.log)
    for register in reference.log.kind.registers:
        name, got = register.name, reference.registers.get(register.name)
        if register.initial is None or got is None:
            continue
        expected = replayed.values[name]
        if name in events or not _explained(reference.log.kind, register, expected, got, replayed.counts[name]):
            event = _difference(events[name]) if name in events else {}
            yield {"register": name, "expected": expected.hex(), "got": got.hex(), **event}


def _explained(kind: LogKind, register: Register, expected: bytes, got: bytes, count: int) -> bool:
    """Return True if a register is that of the known good boot, as far as its log covers the register."""
    left_out = register.growth is Growth.SYSTEM_ALONE and not count
    return left_out or continuation(kind, register, expected, got) is not None


def _difference(difference: RegisterDifference) -> dict[str, JsonValue]:
    """Return the first event that differs; the side whose log has ended there is left out."""
    document: dict[str, JsonValue] = {"position": difference.position}
    for name, event in (("expected_event", difference.expected), ("got_event", difference.got)):
        if event is not None:
            document[name] = _event(event)
    document["missing"] = [_event(event) for event in difference.missing]
    document["extra"] = [_event(event) for event in difference.extra]
    return document


def _event(event: ComparedEvent) -> JsonValue:
    text: dict[str, JsonValue] = {} if event.text is None else {"text": event.text}
    return {"number": event.number, "type": event.type_name, "digest": event.digest.hex(), **text}
