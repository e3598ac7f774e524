"""Verification of all evidence of one Attester, in one call.

``verify`` reads every item, verifies each by the procedure of its format, and checks what holds them together: the
binding, freshness, and what one set of devices must have in common. It fetches nothing, reads no clock and changes
none of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import TypedDict

from attest.checks import Check, Outcome, Unchecked
from attest.document_verification import verify_document
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, VerificationError
from attest.evidence.attachment.record import judge_attachments
from attest.evidence.attachment.table import read_attachments
from attest.evidence.binding import parse_binding
from attest.evidence.composite import judge_composite
from attest.evidence.device_format import (
    FormatTable,
    JudgeSet,
    VerifiedDevice,
)
from attest.evidence.dstack.judgement import judge_dstack
from attest.evidence.dstack.statements import NO_STATEMENTS
from attest.evidence.envelope import (
    MEDIA_BINDING,
    Evidence,
)
from attest.evidence.eventlog.replay import VerifiedEventLog, verify_event_log
from attest.evidence.eventlog.structure import ParsedEventLog
from attest.evidence.freshness import Expectation, ExpectedFreshness, ExpectedRuntimeData, Freshness
from attest.evidence.providers.families import is_document
from attest.evidence.registry import FORMATS
from attest.evidence.tdx.structure import ParsedTdReport
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.parsed_evidence import (
    ParsedCpu,
    ParsedLogs,
    ParsedPeripheral,
    presented_of,
    read_devices,
    read_logs,
    single_item,
    with_presented,
)
from attest.verified_evidence import ACCOMPANYING, VerifiedEvidence, VerifiedItem

__all__ = ["ExpectedFreshness", "ExpectedRuntimeData", "Freshness", "VerifiedEvidence", "VerifiedItem", "verify"]


def verify(
    evidence: Evidence,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    expected: Expectation = None,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
    formats: FormatTable = FORMATS,
) -> VerifiedEvidence:
    """Verify all evidence of one Attester.

    Args:
        evidence: the evidence as presented; not trusted.
        endorsements: vendors' statements, from files, caches or services; not trusted.
        anchors: root keys that the Verifier Owner accepts.
        at: moment of appraisal, aware.
        expected: the challenge: a nonce or report data, a whole binding, or the digests of runtime data. None leaves
            freshness not evaluated, which appraisal refuses.
        unchecked: named relaxations, each with its reason.
        tolerances: deviations that a policy names, each with its reason.
        formats: known kinds of evidence; a program with its own format merges it with ``FORMATS``.

    Raises:
        EvidenceError: an item is malformed, or no item is of a kind that this version verifies.
        VerificationError: an item does not hold, or the items do not hold together.
        EndorsementError: an endorsement is missing or stale.
        ConfigurationError: ``rim-library-missing``: this installation cannot read reference manifests.
        ValueError: ``at`` has no time zone, or evidence of this kind cannot meet ``expected``.

        Where several apply, malformed comes before does-not-hold before endorsements; the error carries all checks.
    """
    if at.tzinfo is None:
        raise ValueError("the moment of appraisal needs a time zone")
    verify_whole = _verify_document if is_document(evidence) else _verify_machine
    return verify_whole(
        evidence,
        endorsements=endorsements,
        expected=expected,
        given=_Arguments(anchors=anchors, at=at, unchecked=unchecked, tolerances=tolerances, formats=formats),
    )


class _Arguments(TypedDict):
    """Arguments for each machine."""

    anchors: TrustAnchors
    at: datetime
    unchecked: tuple[Unchecked, ...]
    tolerances: DeviceTolerances
    formats: FormatTable


def _verify_machine(
    evidence: Evidence,
    *,
    endorsements: Endorsements,
    expected: Expectation,
    given: _Arguments,
) -> VerifiedEvidence:
    """Verify the evidence of one machine."""
    at, unchecked, tolerances = given["at"], given["unchecked"], given["tolerances"]
    # (1) Read everything before anything is judged.
    cpu, peripherals = read_devices(evidence, given["formats"])
    beside = [item for item in evidence.items if item.essence in ACCOMPANYING]
    logs = read_logs(beside, cpu)
    attachments = read_attachments(beside, None if cpu is None else cpu.format.kind)
    cpu = None if cpu is None else cpu._replace(attachments=attachments)
    bound = single_item(beside, MEDIA_BINDING, field="binding", name="binding")
    binding = None if bound is None else parse_binding(bound.value)
    pool = with_presented(endorsements, evidence.presented, beside, at)
    # (2) Judge what holds the items together, then each item; one refusal does not hide another.
    composite = judge_composite(presented_of(evidence, cpu, peripherals, binding), expected)
    presented = _Given(endorsements=pool, anchors=given["anchors"], at=at, unchecked=unchecked)
    found = _Findings(checks=list(composite.checks), failures=list(composite.failures), items=[], refused=[])
    found.judge_devices(cpu, logs, peripherals, presented, tolerances)
    # (3) The refusal that comes first in the order of exit codes is raised, with every check.
    if found.failures:
        raise found.refusal()
    return VerifiedEvidence(
        evidence=evidence,
        items=tuple(found.items),
        binding=binding,
        freshness=composite.freshness,
        at=at,
        unchecked=unchecked,
        tolerances=tolerances,
        composite_checks=tuple(found.checks),
        devices_bound=composite.devices_bound,
    )


def _verify_document(
    evidence: Evidence,
    *,
    endorsements: Endorsements,
    expected: Expectation,
    given: _Arguments,
) -> VerifiedEvidence:
    """Verify each machine of a service's document with the same arguments, and the document."""
    beside = [item for item in evidence.items if item.essence in ACCOMPANYING]
    pool = with_presented(endorsements, evidence.presented, beside, given["at"])
    return verify_document(
        evidence,
        verify_machine=lambda machine: verify(machine, endorsements=pool, **given),
        expected=expected,
        formats=given["formats"],
        at=given["at"],
        unchecked=given["unchecked"],
        tolerances=given["tolerances"],
    )


# -- judging


class _Given(TypedDict):
    """Arguments of every procedure."""

    endorsements: Endorsements
    anchors: TrustAnchors
    at: datetime
    unchecked: tuple[Unchecked, ...]


@dataclass(slots=True, kw_only=True)
class _Findings:
    """Findings so far.

    Attributes:
        checks: of what holds the items together.
        refused: the checks of those that are not.
    """

    checks: list[Check]
    failures: list[AttestError]
    items: list[VerifiedItem]
    refused: list[Check]

    def judge_devices(
        self,
        cpu: ParsedCpu | None,
        logs: ParsedLogs,
        peripherals: tuple[ParsedPeripheral, ...],
        given: _Given,
        tolerances: DeviceTolerances,
    ) -> None:
        """Verify each device, and judge those beside the CPU as a set, whatever else is wrong with them."""
        if cpu is not None:
            self._add_cpu(cpu, logs, given, tolerances)
        if not peripherals:
            return
        before = len(self.failures)
        for device in peripherals:
            self._add_peripheral(device, given, tolerances)
        # Devices have no order: of several that are refused, the code decides, not the order of their files.
        self.failures[before:] = sorted(self.failures[before:], key=attrgetter("code"))
        for judge_set in dict.fromkeys(device.format.judge_set for device in peripherals):
            self._judge_set(judge_set, [d for d in peripherals if d.format.judge_set is judge_set], given)

    def _judge_set(self, judge_set: JudgeSet, members: list[ParsedPeripheral], given: _Given) -> None:
        """Judge every device of one format whose signature and chain hold."""
        verified: dict[str, object] = {item.name: item.verified for item in self.items}
        devices = [(each.item.name, verified.get(each.item.name) or _authentic(each, given)) for each in members]
        judged = [(name, device) for name, device in devices if device is not None]
        unchecked = given["unchecked"]
        strangers = [name for name, device in devices if device is None]
        if strangers:  # they may be what is missing
            reason = f"not evaluated, because signature or chain do not verify: {', '.join(strangers)}"
            unchecked = (*unchecked, Unchecked(check="topology", reason=reason))
        checks, failures = judge_set(judged, unchecked=unchecked)
        self.checks += checks
        self.failures += failures

    def _add_cpu(self, cpu: ParsedCpu, logs: ParsedLogs, given: _Given, tolerances: DeviceTolerances) -> None:
        """Verify the CPU's evidence, that the event log replays to its registers, and what is attached to it."""
        tolerant = cpu.format.verify_tolerant
        verify_cpu = cpu.format.verify if tolerant is None else partial(tolerant, tolerances=tolerances)
        verified = self._attempt(cpu.item.name, lambda: verify_cpu(cpu.parsed, **given))
        replayed, registers, td_report = None, cpu.format.registers, cpu.format.td_report
        if registers is not None and logs.log is not None and logs.dstack is None:
            replayed = self._judge_log(logs.log, registers.read(cpu.parsed), given["unchecked"])
        if td_report is not None and (logs.dstack is not None or logs.statements is not None):
            replayed = self._judge_dstack(logs, td_report(cpu.parsed)) or replayed
        judged = judge_attachments(cpu.attachments, cpu.attested(), given["anchors"])
        self.checks += judged.checks
        self.failures += judged.failures
        if verified is not None:
            item = VerifiedItem(
                name=cpu.item.name,
                format=cpu.format,
                verified=verified,
                eventlog=replayed,
                attached=judged.claims,
                attached_simulated=judged.simulated,
            )
            self.items.append(item)

    def _add_peripheral(self, device: ParsedPeripheral, given: _Given, tolerances: DeviceTolerances) -> None:
        verified = self._attempt(
            device.item.name, lambda: device.format.verify(device.parsed, **given, tolerances=tolerances)
        )
        if verified is not None:
            form = device.format.kind_of(verified)
            self.items.append(VerifiedItem(name=device.item.name, format=form, verified=verified))

    def _attempt(self, name: str, verify_item: Callable[[], VerifiedDevice]) -> VerifiedDevice | None:
        try:
            return verify_item()
        except AttestError as exc:
            self.failures.append(exc)
            self.refused += [replace(check, item=name) for check in exc.checks]
            return None

    def _judge_dstack(self, logs: ParsedLogs, report: ParsedTdReport) -> VerifiedEventLog | None:
        """Judge dstack's log and statements by the TD report; add the checks."""
        judged = judge_dstack(report=report, log=logs.dstack, statements=logs.statements or NO_STATEMENTS)
        self.checks += judged.checks
        if judged.failure is not None:
            self.failures.append(judged.failure)
        return judged.eventlog

    def _judge_log(
        self, log: ParsedEventLog, signed: Mapping[str, bytes], unchecked: tuple[Unchecked, ...]
    ) -> VerifiedEventLog | None:
        """Require that the log replays to the registers and that its data is what was measured; add the check."""
        expected, verified = "the registers of the evidence, and data that was measured", None
        outcome, got = Outcome.PASS, f"{len(log.events)} events replay"
        reasons = [relaxed.reason for relaxed in unchecked if relaxed.check == "eventlog"]
        try:
            verified = verify_event_log(log, signed=signed, tolerant=bool(reasons))
            if verified.unjudged:
                outcome, expected = Outcome.NOT_EVALUATED, f"unchecked: {'; '.join(reasons)}"
                got = f"{got}, but not to {', '.join(verified.unjudged)}"
        except VerificationError as exc:
            exc.check = "eventlog.replay"
            self.failures.append(exc)
            outcome, expected, got = Outcome.FAIL, exc.expected or expected, exc.got or exc.message
        self.checks.append(
            Check(
                id="eventlog.replay",
                outcome=outcome,
                expected=expected,
                got=got,
                clause="TCG PC Client Platform Firmware Profile; Intel TDX module, TDG.MR.RTMR.EXTEND",
            )
        )
        return verified

    def refusal(self) -> AttestError:
        """Return the refusal to raise, with every check that was made."""
        genuine = [replace(check, item=item.name) for item in self.items for check in item.verified.checks]
        worst = min(self.failures, key=lambda failure: failure.exit_code)
        worst.checks = (*self.checks, *self.refused, *genuine)
        return worst


def _authentic(device: ParsedPeripheral, given: _Given) -> object | None:
    """Return the device that signed refused evidence; None when signature or chain do not hold."""
    authenticate = device.format.authenticate
    return None if authenticate is None else authenticate(device.parsed, **given)
