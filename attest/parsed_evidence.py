"""All evidence of one Attester, parsed: not trusted yet.

``verification.py`` judges it. At most one item is of a CPU; any number are of devices beside it; the others accompany
them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.attachment.record import Attested, ParsedAttachment
from attest.evidence.binding import Binding
from attest.evidence.composite import DeviceNonce, Presented
from attest.evidence.device_format import (
    CpuFormat,
    FormatTable,
    MediaFormat,
    PeripheralFormat,
)
from attest.evidence.dstack.forms import parse_statements
from attest.evidence.dstack.statements import DstackStatements
from attest.evidence.dstack.structure import ParsedDstackLog, parse_dstack_log
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import (
    MEDIA_DSTACK_LOG,
    MEDIA_DSTACK_STATEMENTS,
    MEDIA_ENDORSEMENTS,
    MEDIA_EVENT_LOG,
    Evidence,
    EvidenceItem,
)
from attest.evidence.eventlog.kinds import LogKind
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.verified_evidence import ACCOMPANYING


class ParsedCpu(NamedTuple):
    """The item of the CPU, read."""

    item: EvidenceItem
    format: CpuFormat
    parsed: Any  # of the package of its format
    attachments: tuple[ParsedAttachment, ...] = ()

    def attested(self) -> Attested:
        """Return what attachments are compared with."""
        return Attested(self.format.kind, self.format.report_data(self.parsed), self.parsed)


class ParsedPeripheral(NamedTuple):
    """The item of a device beside the CPU, read."""

    item: EvidenceItem
    format: PeripheralFormat
    parsed: Any  # as above


def read_devices(evidence: Evidence, formats: FormatTable) -> tuple[ParsedCpu | None, tuple[ParsedPeripheral, ...]]:
    """Read the devices: at most one CPU, since two could be read as either, and any number of others."""
    cpus: list[tuple[EvidenceItem, MediaFormat]] = []
    others: list[tuple[EvidenceItem, PeripheralFormat]] = []
    for item in evidence.items:
        essence = item.essence
        if essence in formats.cpus:
            cpus.append((item, formats.cpus[essence]))
        elif essence in formats.peripherals:
            others.append((item, formats.peripherals[essence]))
    if not cpus and not others:
        types = ", ".join(f"{item.name}: {item.media_type}" for item in evidence.items)
        raise UnsupportedError(
            f"no item is evidence that this version verifies ({types})",
            code="evidence-unsupported",
            expected=f"one of {', '.join(form.kind for form in formats.kinds)}",
            got=types,
        )
    if len(cpus) > 1:
        names = ", ".join(item.name for item, _ in cpus)
        raise EvidenceError(
            f"several items are CPU evidence: {names}", code="evidence-ambiguous", expected="one", got=names
        )
    cpu: ParsedCpu | None = None
    if cpus:
        item, media = cpus[0]
        parsed = media.parse(item.value)
        cpu = ParsedCpu(item=item, format=media.kind_of(parsed), parsed=parsed)
    return cpu, tuple([ParsedPeripheral(item=item, format=row, parsed=row.parse(item.value)) for item, row in others])


class ParsedLogs(NamedTuple):
    """The given event log, and dstack's statements."""

    log: ParsedEventLog | None
    statements: DstackStatements | None

    @property
    def dstack(self) -> ParsedDstackLog | None:
        """The log, if dstack made it."""
        return self.log if isinstance(self.log, ParsedDstackLog) else None


_NO_LOGS = ParsedLogs(None, None)


def read_logs(beside: list[EvidenceItem], cpu: ParsedCpu | None) -> ParsedLogs:
    """Read the event log and the statements; beside a device without registers they could prove nothing."""
    if not beside:
        return _NO_LOGS
    log = single_item(beside, MEDIA_EVENT_LOG, MEDIA_DSTACK_LOG, field="eventlog", name="event log")
    stated = single_item(beside, MEDIA_DSTACK_STATEMENTS, field="dstack", name="set of dstack's statements")
    of_dstack = stated is not None or (log is not None and log.essence == MEDIA_DSTACK_LOG)
    if log is None and stated is None:
        return _NO_LOGS
    if cpu is None or cpu.format.registers is None or (of_dstack and cpu.format.td_report is None):
        kind = "evidence without a CPU report" if cpu is None else cpu.format.kind
        what, registers = ("dstack's event log", "RTMRs") if of_dstack else ("an event log", "registers")
        raise UnsupportedError(
            f"{what} was given, but {kind} has no {registers} that it could replay to",
            code="eventlog-without-registers",
            field="eventlog",
            expected="evidence with registers that a boot is measured into",
            got=kind,
        )
    return ParsedLogs(
        log=None if log is None else _read_log(log, cpu.format.registers.log),
        statements=None if stated is None else parse_statements(stated.value),
    )


def _read_log(item: EvidenceItem, kind: LogKind) -> ParsedEventLog:
    return parse_dstack_log(item.value) if item.essence == MEDIA_DSTACK_LOG else parse_event_log(item.value, kind=kind)


def single_item(beside: list[EvidenceItem], *essences: str, field: str, name: str) -> EvidenceItem | None:
    """Return the item of one of these types; two could be read as either."""
    found = [item for item in beside if item.essence in essences]
    if len(found) > 1:
        raise EvidenceError(f"the evidence carries two {name}s", code="evidence-ambiguous", field=field)
    return found[0] if found else None


def with_presented(
    endorsements: Endorsements, presented: Endorsements, beside: list[EvidenceItem], at: datetime
) -> Endorsements:
    """Add the endorsements that came with the evidence; like all others they are only candidates."""
    for item in beside:
        if item.essence == MEDIA_ENDORSEMENTS:
            presented = presented.merged(read_endorsements([(item.name, item.value)], at=at).endorsements)
    return endorsements if presented is NO_ENDORSEMENTS else presented.merged(endorsements)


def presented_of(
    evidence: Evidence, cpu: ParsedCpu | None, peripherals: tuple[ParsedPeripheral, ...], binding: Binding | None
) -> Presented:
    """Return what the items present together, for the composite checks."""
    own = None if cpu is None else cpu.item
    return Presented(
        report_data=None if cpu is None else cpu.format.report_data(cpu.parsed),
        nonce=None if cpu is None or cpu.format.nonce is None else cpu.format.nonce(cpu.parsed),
        binding=binding,
        others=tuple([i for i in evidence.items if i is not own and i.essence not in ACCOMPANYING]),
        device_nonces=tuple([_nonce_of(device) for device in peripherals]),
    )


def _nonce_of(device: ParsedPeripheral) -> DeviceNonce:
    form = device.format
    return DeviceNonce(name=device.item.name, value=form.nonce(device.parsed), size=form.nonce_bytes)
