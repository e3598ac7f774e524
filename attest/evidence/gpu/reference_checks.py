"""The checks of a device's measurements: which RIMs speak for it, whether they may, and whether they agree with it.

Spec: specs/nvidia-gpu.md, sections 8 to 10 and 12.
"""

from __future__ import annotations

from attest.checks import Outcome
from attest.encoding import rfc3339_text
from attest.errors import BindingError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.gpu.attempt import Attempt, Step, Told, tell_statuses, there
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementSource, Mismatch, compare, conflicts
from attest.evidence.gpu.references import WantedRim, choose_rim, wanted_rim
from attest.evidence.gpu.rim import ParsedRim

__all__ = ["REFERENCE_STEPS"]


def _find_rim(attempt: Attempt, source: MeasurementSource) -> None:
    model = there(attempt.model)
    try:
        wanted = wanted_rim(attempt.report, model, source)
    except EvidenceError as exc:  # the report is well formed, and not of what its certificate says
        raise BindingError(
            f"the report does not write its version as an {model.kind} does",
            code="gpu-kind-mismatch",
            field=exc.field,
            expected=exc.expected,
            got=exc.got,
        ) from exc
    attempt.wanted[source] = wanted
    judged = choose_rim(
        wanted,
        attempt.report,
        pool=attempt.pool,
        anchors=attempt.anchors,
        at=attempt.at,
        tolerances=attempt.tolerances,
        revocation_tolerated=bool(attempt.allows("revocation")),
    )
    if judged is not None:
        attempt.rims[source] = judged
    else:
        attempt.tolerate(_no_rim(wanted), "rim")


def _no_rim(wanted: WantedRim) -> EndorsementError:
    return EndorsementError(
        f"{wanted.text} is not at hand",
        code="gpu-rim-missing",
        expected=wanted.text,
        got="none",
        hint="fetch it with 'attest endorsements fetch', or leave the comparison out with --unchecked rim=REASON",
        retryable=True,
    )


def _lacks_model(attempt: Attempt, source: MeasurementSource) -> str | None:
    if attempt.model is None:
        return "it is not known what device this is"
    return _no_driver(attempt, source)


def _no_driver(attempt: Attempt, source: MeasurementSource) -> str | None:
    is_switch = attempt.model is not None and attempt.model.kind == "nvidia-switch"
    return "a switch has no driver" if is_switch and source == "driver" else None


def _tell_rim(attempt: Attempt, source: MeasurementSource) -> Told:
    wanted, judged = attempt.wanted[source], attempt.rims.get(source)
    if judged is None:
        return wanted.text, attempt.reasons("rim"), Outcome.NOT_EVALUATED
    return wanted.text, f"SHA-256 {judged.parsed.sha256.hex()}"


def _lacks_rim(attempt: Attempt, source: MeasurementSource) -> str | None:
    return _no_driver(attempt, source) or (None if source in attempt.rims else "there is no such RIM")


def _rim_signature(attempt: Attempt, source: MeasurementSource) -> None:
    failure = attempt.rims[source].signature
    if failure is not None:
        raise failure


def _tell_rim_signature(attempt: Attempt, source: MeasurementSource) -> Told:
    signer = attempt.rims[source].parsed.certificates[0]
    return "an XML signature over the whole document", f"verifies with {signer.name}, serial {signer.serial:#x}"


def _rim_chain(attempt: Attempt, source: MeasurementSource) -> None:
    failure = attempt.rims[source].chain
    if failure is not None:
        attempt.tolerate(failure, "rim")
        attempt.put_aside.add(source)


def _tell_rim_chain(attempt: Attempt, source: MeasurementSource) -> Told:
    judged = attempt.rims[source]
    expected = "signers that lead to a pinned NVIDIA CoRIM signing Root CA, all valid"
    if judged.chain is not None:
        return expected, attempt.reasons("rim"), Outcome.NOT_EVALUATED
    certificates = judged.parsed.certificates
    first, last = max(c.not_before for c in certificates), min(c.not_after for c in certificates)
    return expected, f"{' < '.join(c.name for c in certificates)}, {rfc3339_text(first)} to {rfc3339_text(last)}"


def _lacks_signers(attempt: Attempt, source: MeasurementSource) -> str | None:
    missing = _lacks_rim(attempt, source)
    if missing is not None or attempt.rims[source].verified is not None:
        return missing
    return "its signature or its chain does not hold"


def _rim_revocation(attempt: Attempt, source: MeasurementSource) -> None:
    failure = attempt.rims[source].revocation
    if failure is not None and attempt.tolerate(failure, "revocation", "rim") == "rim":
        attempt.put_aside.add(source)


def _tell_rim_revocation(attempt: Attempt, source: MeasurementSource) -> Told:
    judged = attempt.rims[source]
    name = "revocation" if attempt.allows("revocation") else "rim"
    return tell_statuses(attempt, judged.parsed.certificates[:3], judged.statuses, name)


def _rim_conflict(attempt: Attempt) -> None:
    both = conflicts(attempt.comparable("driver"), attempt.comparable("vbios"))
    if both:
        indices = ", ".join(map(str, both))
        raise VerificationError(
            f"both RIMs have reference values for the same measurements: {indices}",
            code="gpu-rim-conflict",
            expected="no index in both RIMs",
            got=indices,
        )


def _lacks_two_rims(attempt: Attempt) -> str | None:
    both = attempt.comparable("driver") is not None and attempt.comparable("vbios") is not None
    return None if both else "there are not two RIMs that could contradict each other"


def _measurements(attempt: Attempt) -> None:
    """Compare with what NVIDIA said, be it stale; rely only on what is current."""
    driver, vbios = attempt.comparable("driver"), attempt.comparable("vbios")
    comparison = _compare(attempt, driver, vbios)
    if comparison.mismatches:
        raise _mismatch(comparison.mismatches)
    usable_driver, usable_vbios = attempt.usable("driver"), attempt.usable("vbios")
    if (usable_driver, usable_vbios) == (driver, vbios):
        attempt.comparison = comparison
    elif usable_driver is not None or usable_vbios is not None:
        attempt.comparison = _compare(attempt, usable_driver, usable_vbios)


def _compare(attempt: Attempt, driver: ParsedRim | None, vbios: ParsedRim | None) -> MeasurementComparison:
    return compare(
        attempt.report.measurements,
        driver=driver,
        vbios=vbios,
        nvdec0=attempt.report.opaque.nvdec0,
        waived=attempt.tolerances.waived_measurements,
    )


_HINTS = {
    7: "7 has been seen to differ after developer tools were enabled",
    9: "9 has been seen to differ after a driver update where the VBIOS RIM is an old issue: fetch the present one",
    35: "35 has been seen to differ after developer tools were enabled",
    52: "52 has been seen to differ after confidential computing was switched off and on without a reboot of the host",
}
"""Known field reports (specs/nvidia-gpu.md, section 10)."""


def _mismatch(mismatches: tuple[Mismatch, ...]) -> VerificationError:
    first = mismatches[0]
    others = "" if len(mismatches) == 1 else f"; so do {', '.join(str(m.index) for m in mismatches[1:])}"
    hints = dict.fromkeys(_HINTS[m.index] for m in mismatches if m.index in _HINTS)
    return VerificationError(
        f"measurement {first.index} differs from the {first.source} RIM: expected {_alternatives(first)}, "
        f"got {_got(first)}{others}",
        code="gpu-measurement-mismatch",
        field=f"measurements[{first.index}]",
        expected="; ".join(f"{m.index} ({m.source}): {_alternatives(m)}" for m in mismatches),
        got="; ".join(f"{m.index}: {_got(m)}" for m in mismatches),
        hint="; ".join(hints) or None,
    )


def _alternatives(mismatch: Mismatch) -> str:
    return " or ".join(value.hex() for value in mismatch.expected)


def _got(mismatch: Mismatch) -> str:
    return "nothing, the report has no such index" if mismatch.got is None else mismatch.got.hex()


def _lacks_any_rim(attempt: Attempt) -> str | None:
    if attempt.comparable("driver") is not None or attempt.comparable("vbios") is not None:
        return None
    return attempt.reasons("rim") if "rim" in attempt.used else "there is no RIM that could be compared"


def _tell_measurements(attempt: Attempt) -> Told:
    comparison = attempt.comparison
    if comparison is None:
        return "every measurement one of its reference values", attempt.reasons("rim"), Outcome.NOT_EVALUATED
    got = f"{comparison.matched} of {comparison.compared} match"
    expected = f"{comparison.compared} measurements, each one of its reference values"
    if comparison.waived:
        waived = "; ".join(f"{result.index} ({result.source}): {result.waived}" for result in comparison.waived)
        return expected, f"{got}; waived: {waived}", Outcome.WARNING
    return expected, got


def _rim_steps(source: MeasurementSource) -> tuple[Step, ...]:
    """Return the four checks of one RIM."""
    return (
        Step(
            id=f"nvidia.{source}_rim",
            clause="nvidia-gpu.md 9.2, 12",
            lacks=lambda a: _lacks_model(a, source),
            run=lambda a: _find_rim(a, source),
            tell=lambda a: _tell_rim(a, source),
        ),
        Step(
            id=f"nvidia.{source}_rim_signature",
            clause="W3C XML Signature; nvidia-gpu.md 9.3",
            lacks=lambda a: _lacks_rim(a, source),
            run=lambda a: _rim_signature(a, source),
            tell=lambda a: _tell_rim_signature(a, source),
        ),
        Step(
            id=f"nvidia.{source}_rim_chain",
            clause="nvidia-gpu.md 9.4",
            lacks=lambda a: _lacks_rim(a, source),
            run=lambda a: _rim_chain(a, source),
            tell=lambda a: _tell_rim_chain(a, source),
        ),
        Step(
            id=f"nvidia.{source}_rim_revocation",
            clause="RFC 6960; nvidia-gpu.md 8",
            lacks=lambda a: _lacks_signers(a, source),
            run=lambda a: _rim_revocation(a, source),
            tell=lambda a: _tell_rim_revocation(a, source),
        ),
    )


REFERENCE_STEPS: tuple[Step, ...] = (
    *_rim_steps("driver"),
    *_rim_steps("vbios"),
    Step(
        id="nvidia.rim_conflict",
        clause="nvidia-gpu.md 10",
        lacks=_lacks_two_rims,
        run=_rim_conflict,
        tell=lambda _: ("no index in both RIMs", "none"),
    ),
    Step(
        id="nvidia.measurements",
        clause="nvidia-gpu.md 10",
        lacks=_lacks_any_rim,
        run=_measurements,
        tell=_tell_measurements,
    ),
)
"""Whether the device measured what NVIDIA published, in order."""
