"""Is this report genuine, and of a device that runs what NVIDIA published? Sections 5 to 12 of specs/nvidia-gpu.md.

``PROCEDURE`` is the list of checks. Every check that can run is run: a missing file must hide no forged one. What
cannot run, because what it needs was not found, is not evaluated. Of several failures the one with the lowest exit
code speaks, the first of them in the order of the procedure, and carries all checks.

Nonce, topology and whether several devices belong together are judged elsewhere (``attest.verification``,
``attest.evidence.gpu.topology``): one report alone cannot answer them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, ConfigurationError
from attest.evidence.gpu.attempt import Attempt, Step, Told, there
from attest.evidence.gpu.certificates import Architecture, DeviceKind
from attest.evidence.gpu.chain import DeviceChain
from attest.evidence.gpu.device_checks import DEVICE_STEPS
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import MeasurementComparison
from attest.evidence.gpu.reference_checks import REFERENCE_STEPS
from attest.evidence.gpu.references import Status
from attest.evidence.gpu.rim import VerifiedRim
from attest.evidence.gpu.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances, GpuTolerances

__all__ = ["PROCEDURE", "VerifiedGpu", "verify_gpu_evidence"]

PROCEDURE: tuple[Step, ...] = (*DEVICE_STEPS, *REFERENCE_STEPS)
"""What ``verify_gpu_evidence`` does, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedGpu:
    """A report that an NVIDIA device signed, with everything that vouches for it.

    Built by ``verify_gpu_evidence`` only.

    Attributes:
        evidence: what was presented; the fields of its report may be relied on, its hints and settings may not.
        chain: the device's certificates up to the pinned root.
        driver_rim: the driver's RIM; None for a switch, and when RIMs were left unchecked and none was good.
        vbios_rim: the RIM of the VBIOS or of a switch's BIOS; None likewise.
        measurements: the comparison with these RIMs, without any mismatch that was not waived; None without a RIM.
        fwid_matched: the report's firmware id equals the certificate's; None when the report states none.
        driver_version: as the report states it; None for a switch.
        vbios_version: likewise; of a switch, its BIOS.
        device_statuses: what shows that L4, L3 and L2 are not revoked; empty when that was left unchecked.
        driver_statuses: likewise for the signers of the driver's RIM.
        vbios_statuses: likewise for the signers of the VBIOS's or BIOS's RIM.
        at: the moment for which all this holds.
        unchecked: the relaxations that this verification made use of.
        tolerances: what the Verifier Owner lets pass by name in a device of this kind.
    """

    evidence: ParsedGpuEvidence
    chain: DeviceChain
    driver_rim: VerifiedRim | None
    vbios_rim: VerifiedRim | None
    measurements: MeasurementComparison | None
    fwid_matched: bool | None
    driver_version: str | None
    vbios_version: str | None
    device_statuses: tuple[Status, ...]
    driver_statuses: tuple[Status, ...]
    vbios_statuses: tuple[Status, ...]
    at: datetime
    unchecked: tuple[Unchecked, ...]
    tolerances: GpuTolerances
    _attempt: Attempt = field(repr=False, compare=False)

    @property
    def kind(self) -> DeviceKind:
        """GPU or NVSwitch."""
        return self.chain.kind

    @property
    def architecture(self) -> Architecture:
        """Of the device, by its certificate."""
        return self.chain.architecture

    @property
    def nonce(self) -> bytes:
        """The challenge that the device answered, 32 bytes."""
        return self.evidence.report.nonce

    @property
    def simulated(self) -> bool:
        """Whether any of this rests on a root of the simulator and says nothing about hardware."""
        rims = (self.driver_rim, self.vbios_rim)
        return self.chain.anchor.simulated or any(rim is not None and rim.anchor.simulated for rim in rims)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return tuple(_render(self._attempt, {}))


def verify_gpu_evidence(
    parsed: ParsedGpuEvidence,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
) -> VerifiedGpu:
    """Check that a device of NVIDIA signed this report, and that it measured what NVIDIA's RIMs say.

    Args:
        parsed: a report, and perhaps the chain that came with it; nothing of it is trusted yet.
        endorsements: certificates, RIMs, OCSP answers and CRLs; not trusted either.
        anchors: the NVIDIA roots that the Verifier Owner accepts, for devices and for RIMs; an empty set accepts
            nothing.
        at: moment of appraisal, aware; both ends of a certificate's validity are included.
        unchecked: ``revocation`` tolerates that no current answer about a certificate is at hand, ``rim`` that no
            current RIM is. What is at hand and negative refuses all the same.
        tolerances: measurements that may differ, and whether RIM signers may be on hold, for GPUs and for switches.

    Raises:
        EvidenceError: the VBIOS version is not written as a device of this kind writes it (3).
        UnsupportedError: ``gpu-device-unsupported``, a device of no known kind (3).
        SignatureError: ``gpu-signature-invalid``, or ``rim-signature-invalid`` (4).
        ChainError: a chain that does not hold, of the device or of a RIM's signers (4).
        RevokedError: a genuine answer or list revokes a certificate (4).
        BindingError: ``gpu-arch-mismatch``, ``gpu-stated-nonce-mismatch``, ``gpu-fwid-mismatch`` or
            ``gpu-leaf-binding-mismatch`` (4).
        VerificationError: ``gpu-rim-conflict`` or ``gpu-measurement-mismatch`` (4).
        EndorsementError: a certificate of a raw report's chain, a RIM or an OCSP answer is missing or stale (5).
        ConfigurationError: ``rim-library-missing``, the software that reads RIMs is not installed (2).

    Spec: specs/nvidia-gpu.md, sections 5 to 12 and 21.
    """
    attempt = Attempt(parsed, pool=endorsements, anchors=anchors, at=at, unchecked=unchecked, tolerances=tolerances)
    failures = _run(attempt)
    if failures:
        worst = min(failures.values(), key=_severity)
        worst.checks = tuple(_render(attempt, failures))
        raise worst
    return _verified(attempt)


def _run(attempt: Attempt) -> dict[str, AttestError]:
    """Take every step that can be taken, and return what failed by the step's id."""
    failures: dict[str, AttestError] = {}
    for step in PROCEDURE:
        lacking = step.lacks(attempt)
        if lacking is not None:
            attempt.skipped[step.id] = lacking
            continue
        try:
            step.run(attempt)
        except AttestError as exc:
            exc.check, exc.clause = step.id, exc.clause or step.clause
            failures[step.id] = exc
    return failures


def _severity(failure: AttestError) -> tuple[bool, int]:
    """Order failures: 3 before 4 before 5. What the operator has to set up hides nothing of the evidence."""
    return isinstance(failure, ConfigurationError), failure.exit_code


def _verified(attempt: Attempt) -> VerifiedGpu:
    evidence, model, root = attempt.evidence, there(attempt.model), there(attempt.root)
    _, device, l3, l2 = attempt.path.certificates
    is_switch = model.kind == "nvidia-switch"
    driver, vbios = attempt.rims.get("driver"), attempt.rims.get("vbios")
    return VerifiedGpu(
        evidence=evidence,
        chain=DeviceChain(
            leaf=there(attempt.leaf),
            device=device,
            issuers=(l3, l2),
            identity=there(attempt.identity),
            kind=model.kind,
            architecture=model.architecture,
            product=model.product,
            anchor=root.anchor,
            root=root.issuer,
        ),
        driver_rim=driver.verified if driver is not None and "driver" not in attempt.put_aside else None,
        vbios_rim=vbios.verified if vbios is not None and "vbios" not in attempt.put_aside else None,
        measurements=attempt.comparison,
        fwid_matched=None if evidence.report.opaque.fwid is None else True,
        driver_version=None if is_switch else evidence.report.opaque.driver_version,
        vbios_version=attempt.wanted["vbios"].version,
        device_statuses=attempt.statuses,
        driver_statuses=() if driver is None else driver.statuses,
        vbios_statuses=() if vbios is None else vbios.statuses,
        at=attempt.at,
        unchecked=tuple(decision for decisions in attempt.used.values() for decision in decisions),
        tolerances=attempt.tolerances,
        _attempt=attempt,
    )


# -- how it is told


def _render(attempt: Attempt, failures: Mapping[str, AttestError]) -> Iterator[Check]:
    """Tell every step: it passed, it failed, or something was lacking."""
    report = attempt.report
    unknown = ", ".join(map(str, report.opaque.unknown)) or "none"
    yield Check(
        id="nvidia.format",
        outcome=Outcome.PASS,
        expected="SPDM 1.1 request and response, every fixed field as specified, nothing left over",
        got=f"{len(report.measurements)} measurements; opaque data types of no known meaning: {unknown}",
        clause="nvidia-gpu.md 2 to 4",
    )
    for step in PROCEDURE:
        failure, lacking = failures.get(step.id), attempt.skipped.get(step.id)
        told: Told
        if failure is not None:
            told = failure.expected or "", failure.got or failure.message, Outcome.FAIL
        elif lacking is not None:
            told = "", lacking, Outcome.NOT_EVALUATED
        else:
            told = step.tell(attempt)
        expected, got, *outcome = told
        yield Check(
            id=step.id,
            outcome=outcome[0] if outcome else Outcome.PASS,
            expected=expected,
            got=got,
            clause=step.clause,
        )
