"""Steps on a device's measurements: select its RIMs, verify them, and compare the measurements with them.

Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
"""

from __future__ import annotations

from typing import NamedTuple

from attest.checks import Outcome, Unchecked
from attest.errors import BindingError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.gpu.certificates import DeviceModel
from attest.evidence.gpu.chain import common_window
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementSource, conflicts
from attest.evidence.gpu.mismatches import require_no_mismatch
from attest.evidence.gpu.references import (
    Given,
    JudgedRim,
    Status,
    WantedRim,
    choose_rim,
    sources_of,
    status_facts,
    wanted_rim,
)
from attest.evidence.gpu.rim import ParsedRim, VerifiedRim
from attest.evidence.gpu.structure import ParsedGpuReport
from attest.evidence.procedure import Procedure, Step, reasons, tolerated


class RimSteps(NamedTuple):
    """The steps of one RIM."""

    rim: Step
    signature: Step
    chain: Step
    revocation: Step


class JudgedReference(NamedTuple):
    """Findings of the steps of one RIM; without a refusal the wanted RIM is known."""

    wanted: WantedRim | None
    judged: JudgedRim | None
    used: tuple[Unchecked, ...]

    @property
    def comparable(self) -> ParsedRim | None:
        """The RIM whose values are compared: NVIDIA's, be it stale."""
        rim = None if self.judged is None else self.judged.comparable
        return None if rim is None else rim.parsed

    @property
    def is_put_aside(self) -> bool:
        """True if it is stale or may be revoked, and ``rim`` left that unchecked."""
        return any(decision.check == "rim" for decision in self.used)

    @property
    def usable(self) -> ParsedRim | None:
        """The RIM whose values are relied on."""
        return None if self.is_put_aside else self.comparable

    @property
    def verified(self) -> VerifiedRim | None:
        """The RIM that is relied on, with its signers."""
        return None if self.judged is None or self.is_put_aside else self.judged.verified

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Revocation status of its signers."""
        return () if self.judged is None else self.judged.statuses


def judge_rim(procedure: Procedure, steps: RimSteps, source: MeasurementSource, given: Given) -> JudgedReference:
    """Take the steps of one RIM."""
    wanted: WantedRim | None = None
    judged: JudgedRim | None = None
    used: tuple[Unchecked, ...] = ()
    has_rim = given.model is None or source in sources_of(given.model)
    missing = "there is no such RIM" if has_rim else "a switch has no driver"
    with procedure.attempt(steps.rim):
        device = procedure.need(given.model, "the device is not known")
        procedure.need(has_rim or None, missing)
        wanted = _require_wanted(given.report, device, source)
        judged = choose_rim(wanted, given)
        if judged is None:
            used = tolerated(_no_rim(wanted), given.unchecked, "rim")
            procedure.record(wanted.text, reasons(used), Outcome.NOT_EVALUATED)
        else:
            procedure.record(wanted.text, ("SHA-256 {}", judged.parsed.document.sha256))
    with procedure.attempt(steps.signature):
        rim = procedure.need(judged, missing)
        if rim.signature is not None:
            raise rim.signature
        signer = rim.parsed.certificates[0]
        procedure.record(
            "an XML signature over the whole document",
            ("verifies with {}, serial {:#x}", signer.name, signer.serial),
        )
    with procedure.attempt(steps.chain):
        rim = procedure.need(judged, missing)
        expected = "signers that lead to a pinned NVIDIA CoRIM signing Root CA, all valid"
        if rim.chain is None:
            names = " < ".join(certificate.name for certificate in rim.parsed.certificates)
            procedure.record(expected, ("{}, {} to {}", names, *common_window(rim.parsed.certificates)))
        else:
            used = tolerated(rim.chain, given.unchecked, "rim")
            procedure.record(expected, reasons(used), Outcome.NOT_EVALUATED)
    with procedure.attempt(steps.revocation):
        rim = procedure.need(judged, missing)
        procedure.need(rim.verified, "its signature or its chain does not hold")
        decisions = () if rim.revocation is None else tolerated(rim.revocation, given.unchecked, "revocation", "rim")
        used = (*used, *decisions)
        hold = given.tolerances.held_rim_signers
        procedure.record(*status_facts(rim.parsed.certificates[:3], rim.statuses, decisions, hold=hold))
    return JudgedReference(wanted, judged, used)


def judge_measurements(
    procedure: Procedure, steps: tuple[Step, Step], driver: JudgedReference, vbios: JudgedReference, given: Given
) -> MeasurementComparison | None:
    """Compare with NVIDIA's values, even stale ones; rely only on current ones."""
    relied_on: MeasurementComparison | None = None
    conflict, measurements = steps
    with procedure.attempt(conflict):
        missing = "there are no two RIMs to compare"
        _require_no_conflict(procedure.need(driver.comparable, missing), procedure.need(vbios.comparable, missing))
        procedure.record("no index in both RIMs", "none")
    with procedure.attempt(measurements):
        left_out = tuple(u for u in (*driver.used, *vbios.used) if u.check == "rim")
        missing = reasons(dict.fromkeys(left_out)) if left_out else "there is no RIM to compare with"
        require_no_mismatch(procedure.need(given.compare(driver.comparable, vbios.comparable), missing), given)
        relied_on = given.compare(driver.usable, vbios.usable)
        procedure.record(*_comparison_facts(relied_on, missing))
    return relied_on


# -- what the steps require


def _require_wanted(report: ParsedGpuReport, model: DeviceModel, source: MeasurementSource) -> WantedRim:
    """Name the RIM that the report calls for, whose version is written as such a device writes it."""
    try:
        return wanted_rim(report, model, source)
    except EvidenceError as exc:  # the report is well formed, and not of what its certificate says
        raise BindingError(
            f"the report does not write its version as an {model.kind} does",
            code="gpu-kind-mismatch",
            field=exc.field,
            expected=exc.expected,
            got=exc.got,
        ) from exc


def _no_rim(wanted: WantedRim) -> EndorsementError:
    return EndorsementError(
        f"{wanted.text} is not available",
        code="gpu-rim-missing",
        expected=wanted.text,
        got="none",
        hint="fetch it with 'attest endorsements fetch', or skip the comparison with --unchecked rim=REASON",
        retryable=True,
    )


def _require_no_conflict(driver: ParsedRim, vbios: ParsedRim) -> None:
    both = conflicts(driver, vbios)
    if both:
        indices = ", ".join(map(str, both))
        raise VerificationError(
            f"both RIMs have reference values for the same measurements: {indices}",
            code="gpu-rim-conflict",
            expected="no index in both RIMs",
            got=indices,
        )


def _comparison_facts(comparison: MeasurementComparison | None, left_out: str) -> tuple[str, str, Outcome]:
    if comparison is None:
        return "every measurement one of its reference values", left_out, Outcome.NOT_EVALUATED
    got = f"{comparison.matched} of {comparison.compared} match"
    expected = f"{comparison.compared} measurements, each one of its reference values"
    if comparison.waived:
        waived = "; ".join(f"{result.index} ({result.source}): {result.waived}" for result in comparison.waived)
        return expected, f"{got}; waived: {waived}", Outcome.WARNING
    return expected, got, Outcome.PASS
