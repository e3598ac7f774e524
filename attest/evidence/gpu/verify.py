"""Verification of NVIDIA devices: a genuine report, and published firmware. Sections 5 to 12 of specs/nvidia-gpu.md.

``GpuSteps`` is the list of checks. Every check that can run is run: a missing file must hide no forged one. What
cannot run, because what it needs was not found, is not evaluated. Of several failures the one with the lowest exit
code speaks, the first of them in the order of the procedure, and carries all checks.

Nonce, topology and whether several devices belong together are judged elsewhere (``attest.verification``,
``attest.evidence.gpu.topology``): one report alone cannot answer them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.chains import PinnedRoot
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Issuer
from attest.errors import AttestError, EndorsementError
from attest.evidence.gpu.certificates import Architecture, DeviceIdentity, DeviceKind, GpuLeaf, read_identity
from attest.evidence.gpu.chain import (
    PATH_LENGTH,
    DeviceChain,
    DevicePath,
    common_window,
    find_path,
    find_root,
    require_path_valid,
)
from attest.evidence.gpu.device_checks import (
    arch_facts,
    device_chain,
    require_arch,
    require_device_key,
    require_fwid,
    require_leaf,
    require_root,
    require_signature,
    require_stated_nonce,
    stated_model,
)
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import MeasurementComparison
from attest.evidence.gpu.reference_checks import RimSteps, judge_measurements, judge_rim
from attest.evidence.gpu.references import Given, Status, status_facts, statuses_of
from attest.evidence.gpu.rim import VerifiedRim
from attest.evidence.gpu.structure import ParsedGpuReport
from attest.evidence.procedure import Findings, Procedure, Step, tolerated
from attest.evidence.tolerances import (
    NO_DEVICE_TOLERANCES,
    AcceptedValue,
    DeviceTolerances,
    GpuTolerances,
    require_named,
)


class GpuSteps(NamedTuple):
    """Every check of a device, in order."""

    format: Step = Step("nvidia.format", "DMTF DSP0274, MEASUREMENTS; NVIDIA nvtrust, opaque data")
    chain: Step = Step("nvidia.chain", "NVIDIA nvtrust, device certificates; RFC 5280, 6.1")
    arch: Step = Step("nvidia.arch", "NVIDIA nvtrust, device certificates and architecture")
    stated_nonce: Step = Step("nvidia.stated_nonce", "NVIDIA nvtrust, evidence as JSON")
    chain_validity: Step = Step("nvidia.chain_validity", "RFC 5280, 4.1.2.5")
    signature: Step = Step("nvidia.signature", "DMTF DSP0274, signature of MEASUREMENTS")
    fwid: Step = Step("nvidia.fwid", "TCG DICE Attestation Architecture, TcbInfo")
    leaf_binding: Step = Step("nvidia.leaf_binding", "TCG DICE Attestation Architecture, TcbInfo")
    revocation: Step = Step("nvidia.revocation", "RFC 6960")
    driver_rim: Step = Step("nvidia.driver_rim", "TCG Reference Integrity Manifest; NVIDIA nvtrust, version checks")
    driver_rim_signature: Step = Step("nvidia.driver_rim_signature", "W3C XML Signature")
    driver_rim_chain: Step = Step("nvidia.driver_rim_chain", "NVIDIA nvtrust, RIM certificates; RFC 5280, 6.1")
    driver_rim_revocation: Step = Step("nvidia.driver_rim_revocation", "RFC 6960")
    vbios_rim: Step = Step("nvidia.vbios_rim", "TCG Reference Integrity Manifest; NVIDIA nvtrust, version checks")
    vbios_rim_signature: Step = Step("nvidia.vbios_rim_signature", "W3C XML Signature")
    vbios_rim_chain: Step = Step("nvidia.vbios_rim_chain", "NVIDIA nvtrust, RIM certificates; RFC 5280, 6.1")
    vbios_rim_revocation: Step = Step("nvidia.vbios_rim_revocation", "RFC 6960")
    rim_conflict: Step = Step(
        "nvidia.rim_conflict", "TCG Reference Integrity Manifest; NVIDIA nvtrust, comparison of measurements"
    )
    measurements: Step = Step(
        "nvidia.measurements", "TCG Reference Integrity Manifest; NVIDIA nvtrust, comparison of measurements"
    )


_STEPS = GpuSteps()
_DRIVER_STEPS = RimSteps(
    rim=_STEPS.driver_rim,
    signature=_STEPS.driver_rim_signature,
    chain=_STEPS.driver_rim_chain,
    revocation=_STEPS.driver_rim_revocation,
)
_VBIOS_STEPS = RimSteps(
    rim=_STEPS.vbios_rim,
    signature=_STEPS.vbios_rim_signature,
    chain=_STEPS.vbios_rim_chain,
    revocation=_STEPS.vbios_rim_revocation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticGpu:
    """A report that an NVIDIA device signed, and which is NOT verified yet: dates, revocation and RIMs are open.

    It is judged with the other devices of its machine, and nothing may be granted on it.

    Attributes:
        evidence: the evidence as presented; the fields of its report are signed, its hints and settings are not.
        driver_version: as the report states it; None for a switch.
    """

    evidence: ParsedGpuEvidence
    chain: DeviceChain
    driver_version: str | None

    @property
    def kind(self) -> DeviceKind:
        """GPU or NVSwitch."""
        return self.chain.kind

    @property
    def architecture(self) -> Architecture:
        """Architecture of the device, by its certificate."""
        return self.chain.architecture

    @property
    def nonce(self) -> bytes:
        """The challenge that the device answered, 32 bytes."""
        return self.evidence.report.nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedGpu(AuthenticGpu):
    """A report that an NVIDIA device signed, with everything that authenticates it.

    Built by ``verify_gpu_evidence`` only.

    Attributes:
        driver_rim: the driver's RIM; None for a switch, and when RIMs were left unchecked and none was good.
        vbios_rim: the RIM of the VBIOS or of a switch's BIOS; None as above.
        measurements: the comparison with these RIMs, without any mismatch that was not waived; None without a RIM.
        fwid_matched: the report's firmware id equals the certificate's; None when the report states none.
        vbios_version: as the report states it; of a switch, its BIOS.
        device_statuses: revocation status of L4, L3 and L2; empty when left unchecked.
        driver_statuses: as above for the signers of the driver's RIM.
        vbios_statuses: as above for the signers of the VBIOS's or BIOS's RIM.
        unchecked: the relaxations that this verification made use of.
        accepted: values that are not understood, and were accepted by name.
    """

    driver_rim: VerifiedRim | None
    vbios_rim: VerifiedRim | None
    measurements: MeasurementComparison | None
    fwid_matched: bool | None
    vbios_version: str | None
    device_statuses: tuple[Status, ...]
    driver_statuses: tuple[Status, ...]
    vbios_statuses: tuple[Status, ...]
    at: datetime
    unchecked: tuple[Unchecked, ...]
    tolerances: GpuTolerances
    accepted: tuple[AcceptedValue, ...]
    findings: Findings = field(repr=False)

    @property
    def simulated(self) -> bool:
        """True if any part rests on a root of the simulator and proves nothing about hardware."""
        rims = (self.driver_rim, self.vbios_rim)
        return self.chain.anchor.simulated or any(rim is not None and rim.anchor.simulated for rim in rims)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure with what it demanded and what it found."""
        return self.findings.checks


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
        unchecked: ``revocation`` tolerates that no current answer about a certificate is available, ``rim`` that no
            current RIM is available. An available negative answer is still refused.
        tolerances: measurements that may differ, values that need not be understood, and whether RIM signers may be
            on hold, for GPUs and for switches.

    Raises:
        EvidenceError: the VBIOS version is not written as a device of this kind writes it (3).
        UnsupportedError: ``gpu-device-unsupported``, a device of no known kind, or ``gpu-opaque-unsupported``, a value
            that is not understood and not named (3).
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
    path = _find_path(parsed, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
    model = stated_model(path)
    is_switch = model is not None and model.kind == "nvidia-switch"
    given = Given(
        report=parsed.report,
        model=model,
        pool=endorsements,
        anchors=anchors,
        at=at,
        unchecked=unchecked,
        tolerances=tolerances.switches if is_switch else tolerances.gpus,
    )
    return _verify(parsed, path, given)


def authenticate_gpu(
    parsed: ParsedGpuEvidence,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> AuthenticGpu | None:
    """Return the device that signed a report, whatever else is wrong; None when signature or chain do not hold."""
    path = _find_path(parsed, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
    try:
        leaf, root = require_leaf(path), require_root(path, anchors=anchors)
        require_signature(parsed.report, leaf.certificate)
        chain = device_chain(path, leaf, root, read_identity(path.certificates[1]))
    except AttestError:
        return None
    return AuthenticGpu(evidence=parsed, chain=chain, driver_version=_driver_version(parsed, chain))


def _driver_version(parsed: ParsedGpuEvidence, chain: DeviceChain) -> str | None:
    return None if chain.kind == "nvidia-switch" else parsed.report.opaque.driver_version


def _find_path(
    parsed: ParsedGpuEvidence,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
) -> DevicePath:
    rooted = partial(find_root, anchors=anchors)
    return find_path(
        parsed,
        endorsements,
        rooted,
        lambda each: require_path_valid(each, rooted(each), at=at),
        lambda each: _device_statuses(each, rooted(each).issuer, pool=endorsements, at=at, unchecked=unchecked),
    )


def _verify(evidence: ParsedGpuEvidence, path: DevicePath, given: Given) -> VerifiedGpu:
    procedure = Procedure(_STEPS, independent=True)
    report = evidence.report
    accepted: tuple[AcceptedValue, ...] = ()
    with procedure.attempt(_STEPS.format):
        accepted = require_named(report.unknown_values, given.tolerances.accepted_opaque)
        procedure.record(*_format_facts(report, accepted))
    device = _judge_device(procedure, evidence, path, given)
    driver = judge_rim(procedure, _DRIVER_STEPS, "driver", given)
    vbios = judge_rim(procedure, _VBIOS_STEPS, "vbios", given)
    comparison = judge_measurements(procedure, (_STEPS.rim_conflict, _STEPS.measurements), driver, vbios, given)
    chain, wanted = procedure.require(device.chain), procedure.require(vbios.wanted)
    return VerifiedGpu(
        evidence=evidence,
        chain=chain,
        driver_rim=driver.verified,
        vbios_rim=vbios.verified,
        measurements=comparison,
        fwid_matched=None if report.opaque.fwid is None else True,
        driver_version=_driver_version(evidence, chain),
        vbios_version=wanted.version,
        device_statuses=device.statuses,
        driver_statuses=driver.statuses,
        vbios_statuses=vbios.statuses,
        at=given.at,
        unchecked=tuple(dict.fromkeys((*device.used, *driver.used, *vbios.used))),
        tolerances=given.tolerances,
        accepted=accepted,
        findings=procedure.finish(),
    )


def _format_facts(report: ParsedGpuReport, accepted: tuple[AcceptedValue, ...]) -> tuple[str, str, Outcome]:
    expected = "SPDM 1.1 request and response, every fixed field as specified, nothing left over"
    unknown = ", ".join(map(str, report.opaque.unknown)) or "none"
    got = f"{len(report.measurements)} measurements; opaque data types without a known meaning: {unknown}"
    if not accepted:
        return expected, got, Outcome.PASS
    return expected, f"{got}; not understood, and accepted: {'; '.join(map(str, accepted))}", Outcome.WARNING


# -- the device


class _Device(NamedTuple):
    """Findings of the steps of the device; without a refusal the chain is there."""

    chain: DeviceChain | None
    statuses: tuple[Status, ...]
    used: tuple[Unchecked, ...]


def _judge_device(procedure: Procedure, evidence: ParsedGpuEvidence, path: DevicePath, given: Given) -> _Device:
    leaf: GpuLeaf | None = None
    root: PinnedRoot | None = None
    identity: DeviceIdentity | None = None
    chain: DeviceChain | None = None
    broken = "the certificate chain does not hold"
    with procedure.attempt(_STEPS.chain):
        leaf = require_leaf(path)
        root = require_root(path, anchors=given.anchors)
        identity = read_identity(path.certificates[1])
        names = " < ".join((*(certificate.name for certificate in path.certificates), root.anchor.name))
        procedure.record(
            "four certificates that lead to a pinned NVIDIA root", ("{}, key {}", names, root.anchor.spki_sha256)
        )
    with procedure.attempt(_STEPS.arch):
        chain = device_chain(
            path, procedure.need(leaf, broken), procedure.need(root, broken), procedure.need(identity, broken)
        )
        require_arch(chain, evidence.arch)
        procedure.record(*arch_facts(chain, evidence.arch))
    with procedure.attempt(_STEPS.stated_nonce):
        stated = procedure.need(evidence.stated_nonce, "the evidence states no nonce beside the report")
        require_stated_nonce(evidence.report, stated)
        procedure.record("the nonce of the report", stated)
    with procedure.attempt(_STEPS.chain_validity):
        dated = procedure.need(path.certificates or None, "there is no certificate")
        require_path_valid(path, root, at=given.at)
        procedure.record(given.at, ("all are valid from {} to {}", *common_window(dated)))
    _judge_report(procedure, evidence.report, path, leaf)
    statuses: tuple[Status, ...] = ()
    used: tuple[Unchecked, ...] = ()
    with procedure.attempt(_STEPS.revocation):
        issuer = procedure.need(root, broken).issuer
        statuses, used = _device_statuses(path, issuer, pool=given.pool, at=given.at, unchecked=given.unchecked)
        procedure.record(*status_facts(path.certificates[1:], statuses, used))
    return _Device(chain, statuses, used)


def _judge_report(procedure: Procedure, report: ParsedGpuReport, path: DevicePath, leaf: GpuLeaf | None) -> None:
    """Take the steps that compare the report with the certificate of its key."""
    with procedure.attempt(_STEPS.signature):
        signer = procedure.need(path.leaf, "there is no certificate of an attestation key")
        require_signature(report, signer)
        procedure.record(
            f"ECDSA P-384 with SHA-384 over {len(report.signed_bytes)} bytes",
            ("verifies with {}, serial {:#x}", signer.name, signer.serial),
        )
    with procedure.attempt(_STEPS.fwid):
        certified = procedure.need(leaf, "there is no certificate with a firmware id").fwid
        stated = procedure.need(report.opaque.fwid, "the report states no firmware id")
        require_fwid(certified, stated)
        procedure.record("the firmware id in the certificate of the key", stated)
    with procedure.attempt(_STEPS.leaf_binding):
        missing = "there are no certificates of key and device"
        child, device = procedure.need(leaf, missing), procedure.need(path.device, missing)
        device_key = procedure.need(child.device_key, "the certificate's firmware id carries no device key")
        require_device_key(child.certificate, device, device_key)
        procedure.record("the key of the device that issued it", "the same key")


def _device_statuses(
    path: DevicePath, root: Issuer, *, pool: Endorsements, at: datetime, unchecked: tuple[Unchecked, ...]
) -> tuple[tuple[Status, ...], tuple[Unchecked, ...]]:
    """Return what shows that L4, L3 and L2 are not revoked: the device itself makes L5, which cannot be."""
    try:
        return statuses_of(path.certificates[1 - PATH_LENGTH :], root, pool=pool, at=at), ()
    except EndorsementError as exc:
        return (), tolerated(exc, unchecked, "revocation")
