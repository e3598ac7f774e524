"""Verification of a service's document: each machine by the procedure for one machine, and all of them together.

Spec: specs/providers.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import JsonValue
from attest.errors import AttestError, BindingError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.device_format import CpuFormat, FormatTable
from attest.evidence.envelope import Evidence
from attest.evidence.freshness import DEVICE_NONCE_BYTES, Expectation, ExpectedRuntimeData, Freshness
from attest.evidence.providers.cautions import cautions_of
from attest.evidence.providers.document import StatedMachine
from attest.evidence.providers.families import parse_document
from attest.evidence.providers.judgement import JudgedMachine, judge_machine, judge_machines
from attest.evidence.providers.presentation import present
from attest.evidence.tolerances import DeviceTolerances
from attest.verified_evidence import VerifiedEvidence, VerifiedItem

VerifyMachine: TypeAlias = Callable[[Evidence], VerifiedEvidence]
"""Verifies the evidence of one machine without any expectation of freshness."""

_REPLACED = ("freshness", "binding.devices")
"""Checks of one machine's evidence alone; those of the document take their place."""
_CLAUSE = "RFC 9334, section 10"


def verify_document(
    evidence: Evidence,
    *,
    verify_machine: VerifyMachine,
    expected: Expectation,
    formats: FormatTable,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
    tolerances: DeviceTolerances,
) -> VerifiedEvidence:
    """Verify every machine of a document, and what the document states about keys, nonce and GPUs.

    Args:
        evidence: the document as presented, perhaps with its keys and with endorsements.
        verify_machine: verifies one machine.
        expected: a nonce of 32 bytes, or None.
        formats: known kinds of evidence.
        at: moment of appraisal, for the result.
        unchecked: every requested relaxation, for the result.
        tolerances: tolerated deviations of devices, for the result.

    Raises:
        EvidenceError: the document, or evidence in it, is malformed or of an unknown kind.
        VerificationError: a machine's evidence, or a statement about it, does not hold.
        EndorsementError: an endorsement, or a key to compute REPORT_DATA with, is missing.
        ValueError: the expectation is report data, or a nonce of another length.
    """
    nonce = _nonce(expected)
    # (1) Read everything before anything is judged.
    document = parse_document(evidence.items)
    machines = tuple((machine, present(machine, formats)) for machine in document.machines)
    # (2) Judge the document, then each machine; one refusal does not hide another.
    found = _Findings(checks=[], failures=[], items=[])
    together, repeated = judge_machines(machines)
    found.add((together,), repeated)
    for machine, presented in machines:
        judged = judge_machine(machine, presented, nonce=nonce, label=document.label)
        found.add(judged.checks, judged.failure)
        found.add_verified(machine, judged, verify_machine)
    freshness = found.judge_freshness(nonce)
    # (3) The refusal that comes first in the order of exit codes is raised, with every check.
    if found.failures:
        raise found.refusal()
    return VerifiedEvidence(
        evidence=evidence,
        items=tuple(found.items),
        binding=None,
        freshness=freshness,
        at=at,
        unchecked=unchecked,
        tolerances=tolerances,
        composite_checks=tuple(found.checks),
        cautions=cautions_of(document.cautions, machines, nonce=nonce),
    )


def _nonce(expected: Expectation) -> bytes | None:
    if expected is None:
        return None
    if isinstance(expected, ExpectedBinding):
        raise BindingError(
            "a service's document carries no binding",
            code="binding-missing",
            check="freshness",
            field="binding",
            expected=f"a binding for {expected.context}",
            got="none",
        )
    if isinstance(expected, ExpectedRuntimeData) or expected.report_data is not None or expected.nonce is None:
        raise ValueError("report data is expected of a service's document, whose report data follow from its keys")
    if len(expected.nonce) != DEVICE_NONCE_BYTES:
        raise ValueError(f"the nonce of a service's document has {DEVICE_NONCE_BYTES} bytes, not {len(expected.nonce)}")
    return expected.nonce


@dataclass(slots=True, kw_only=True)
class _Findings:
    """Findings so far.

    Attributes:
        checks: of the document, and of machines that are not genuine.
    """

    checks: list[Check]
    failures: list[AttestError]
    items: list[VerifiedItem]

    def add(self, checks: tuple[Check, ...], failure: AttestError | None) -> None:
        """Add checks of the document, with the refusal that they led to."""
        self.checks += checks
        self.failures += [] if failure is None else [failure]

    def add_verified(self, machine: StatedMachine, judged: JudgedMachine, verify_machine: VerifyMachine) -> None:
        """Verify the evidence of one machine, and its second report where it has one, which becomes no item."""
        verified = self._attempt(machine.evidence, f"{machine.name}/", verify_machine)
        if machine.witness is not None:
            prefix = f"{machine.name}/witness/"
            witness = self._attempt(machine.witness, prefix, verify_machine)
            self.checks += [] if witness is None else _placed(witness.checks, prefix)
        if verified is None:
            return
        self.checks += _placed(verified.composite_checks, f"{machine.name}/")
        for item in verified.items:
            bound: Mapping[str, JsonValue] = judged.claims if isinstance(item.format, CpuFormat) else {}
            name = f"{machine.name}/{item.name}"
            self.items.append(item._replace(name=name, machine=machine.name, role=machine.role, bound=bound))

    def _attempt(self, evidence: Evidence, prefix: str, verify_machine: VerifyMachine) -> VerifiedEvidence | None:
        try:
            return verify_machine(evidence)
        except AttestError as failure:
            self.failures.append(failure)
            self.checks += _placed(failure.checks, prefix)
            return None

    def judge_freshness(self, nonce: bytes | None) -> Freshness:
        """Say whether every machine answers the client's nonce."""
        outcomes = {check.outcome for check in self.checks if check.id == "provider.nonce"}
        if nonce is None:
            outcome, freshness = Outcome.NOT_EVALUATED, Freshness.NOT_EVALUATED
        elif outcomes == {Outcome.PASS}:
            outcome, freshness = Outcome.PASS, Freshness.MATCHED
        else:
            outcome, freshness = Outcome.FAIL, Freshness.MISMATCHED
        self.checks.append(
            Check(
                id="freshness",
                outcome=outcome,
                expected="a nonce to compare with" if nonce is None else f"{nonce.hex()} in every machine",
                got="none was given" if nonce is None else str(freshness),
                clause=_CLAUSE,
            )
        )
        return freshness

    def refusal(self) -> AttestError:
        """Return the refusal to raise, with every check that was made."""
        genuine = [replace(check, item=item.name) for item in self.items for check in item.verified.checks]
        worst = min(self.failures, key=lambda failure: failure.exit_code)
        worst.checks = (*self.checks, *genuine)
        return worst


def _placed(checks: tuple[Check, ...], prefix: str) -> list[Check]:
    """Return the checks of one machine under the names of the document."""
    return [
        replace(check, item=prefix + check.item if check.item is not None else prefix.rstrip("/"))
        for check in checks
        if check.id not in _REPLACED
    ]
