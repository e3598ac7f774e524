"""Selection and checks of the RIMs for a device's driver and for its VBIOS or BIOS.

Edition, product and version decide; names and order of files say nothing. Several issues of one id can be at hand:
each is judged and compared as a whole, and values of two issues are never mixed.

Spec: specs/nvidia-gpu.md, sections 9.2 to 9.4, 10 and 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal, TypeAlias

from attest.checks import Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.ocsp import require_not_revoked
from attest.endorsements.ocsp_answers import OcspAnswer, OcspStatus
from attest.endorsements.pool import Endorsements
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import AttestError, EndorsementError, EvidenceError
from attest.evidence.gpu.certificates import DeviceModel
from attest.evidence.gpu.measurements import MeasurementSource, compare
from attest.evidence.gpu.rim import (
    ParsedRim,
    VerifiedRim,
    find_signers,
    read_rim,
    require_window,
    rim_window,
    verify_rim_signature,
)
from attest.evidence.gpu.structure import ParsedGpuReport
from attest.evidence.procedure import reasons
from attest.evidence.tolerances import GpuTolerances

__all__ = [
    "MAX_ISSUES",
    "JudgedRim",
    "Status",
    "WantedRim",
    "choose_rim",
    "fitting_rims",
    "sources_of",
    "statuses_of",
    "told_statuses",
    "wanted_rim",
]

MAX_ISSUES = 16
"""Issues of one id that are looked at: NVIDIA signs anew about every two years."""
Status: TypeAlias = OcspAnswer | Crl
"""Evidence that a certificate is not revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRim:
    """Properties that a RIM needs in order to apply to a part of a device.

    Attributes:
        source: driver, or VBIOS (of a switch: its BIOS).
        edition: ``GPU`` for driver and VBIOS alike, ``SWITCH``.
        product: of the device's certificate (``GH100``).
        version: that the report states; None fits no RIM.
    """

    source: MeasurementSource
    edition: Literal["GPU", "SWITCH"]
    product: str
    version: str | None

    @property
    def text(self) -> str:
        """Description of the wanted RIM."""
        what = "BIOS" if self.edition == "SWITCH" else "driver" if self.source == "driver" else "VBIOS"
        return f"the RIM of {self.product}, {what} {self.version or 'of no stated version'}"

    def fits(self, rim: ParsedRim) -> bool:
        """Say whether a RIM claims to be the wanted one; versions are compared without case."""
        return (
            self.version is not None
            and (rim.edition, rim.product) == (self.edition, self.product)
            and rim.version.lower() == self.version.lower()
        )


def sources_of(model: DeviceModel) -> tuple[MeasurementSource, ...]:
    """Return what has a RIM of its own: driver and VBIOS of a GPU, the BIOS of a switch."""
    return ("vbios",) if model.kind == "nvidia-switch" else ("driver", "vbios")


def wanted_rim(report: ParsedGpuReport, model: DeviceModel, source: MeasurementSource) -> WantedRim:
    """Name the RIM that a report calls for.

    Raises:
        EvidenceError: ``gpu-report-malformed``, the version is not written as a device of this kind writes it.
    """
    opaque = report.opaque
    if model.kind == "nvidia-switch":
        return WantedRim(source=source, edition="SWITCH", product=model.product, version=opaque.switch_bios_version())
    version = opaque.driver_version if source == "driver" else opaque.gpu_vbios_version()
    return WantedRim(source=source, edition="GPU", product=model.product, version=version)


def fitting_rims(wanted: WantedRim, documents: Iterable[RimDocument]) -> Iterator[ParsedRim]:
    """Yield the RIMs that claim to be the wanted one; what cannot be read is passed over, and then missing."""
    if wanted.version is None:
        return
    needle = wanted.version.lower().encode()
    for document in documents:
        # A RIM states its version in plain text, and reading all RIMs of a folder for each device would be slow.
        if needle not in document.xml.lower():
            continue
        try:
            rim = read_rim(document)
        except EvidenceError:
            continue
        if wanted.fits(rim):
            yield rim


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRim:
    """One RIM and what is to be said of it.

    Attributes:
        wanted: the part that it applies to.
        parsed: its contents.
        verified: the RIM with its signers, if its signature holds and they lead to a pinned root; perhaps outside
            its window.
        signature: why the XML signature does not hold.
        chain: why the chain does not, or that the moment is outside the window.
        revocation: why it is not shown that no signer is revoked; None also when ``verified`` is.
        statuses: revocation status of L4, L3 and L2; empty without any.
    """

    wanted: WantedRim
    parsed: ParsedRim
    verified: VerifiedRim | None
    signature: AttestError | None
    chain: AttestError | None
    revocation: AttestError | None
    statuses: tuple[Status, ...]

    @property
    def failures(self) -> tuple[AttestError, ...]:
        """Everything that is wrong with it."""
        return tuple(failure for failure in (self.signature, self.chain, self.revocation) if failure is not None)

    @property
    def comparable(self) -> VerifiedRim | None:
        """The RIM, if NVIDIA said this and did not take it back, be it out of date.

        A measurement that differs from a stale RIM is a finding all the same; one that equals it proves nothing,
        because being stale is a failure of its own.
        """
        stale = all(isinstance(failure, EndorsementError) for failure in self.failures)
        return self.verified if stale else None

    def severity(self, *, revocation_tolerated: bool) -> int:
        """Return 0 for a good RIM, or the lowest exit code among its failures."""
        failures = [
            failure
            for failure in self.failures
            if not (revocation_tolerated and failure is self.revocation and isinstance(failure, EndorsementError))
        ]
        return min((failure.exit_code for failure in failures), default=0)


def choose_rim(
    wanted: WantedRim,
    report: ParsedGpuReport,
    *,
    pool: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    tolerances: GpuTolerances,
    revocation_tolerated: bool,
) -> JudgedRim | None:
    """Judge every RIM that claims to be the wanted one and return the best; None when there is none.

    One good issue without a mismatch suffices. If none is good, one that is false is returned before one that is
    stale, so that a missing endorsement hides nothing.
    """
    fitting = tuple(islice(fitting_rims(wanted, pool.rims), MAX_ISSUES))
    judged = [_judge(wanted, rim, pool=pool, anchors=anchors, at=at, tolerances=tolerances) for rim in fitting]
    if len(judged) < 2:
        return judged[0] if judged else None

    def rank(rim: JudgedRim) -> tuple[int, bool]:
        differs = rim.comparable is not None and _differs(rim.parsed, report, wanted.source, tolerances)
        return rim.severity(revocation_tolerated=revocation_tolerated), differs

    return min(judged, key=rank)


def _judge(
    wanted: WantedRim,
    rim: ParsedRim,
    *,
    pool: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    tolerances: GpuTolerances,
) -> JudgedRim:
    signature: AttestError | None = None
    chain: AttestError | None = None
    revocation: AttestError | None = None
    verified: VerifiedRim | None = None
    statuses: tuple[Status, ...] = ()
    try:
        verify_rim_signature(rim)
    except AttestError as exc:
        signature = exc
    try:
        signers, anchor = find_signers(rim, anchors)
        if signature is None:
            not_before, not_after = rim_window(rim, signers, anchor)
            verified = VerifiedRim(
                parsed=rim, signers=signers, anchor=anchor, not_before=not_before, not_after=not_after
            )
        require_window(rim, signers=signers, anchor=anchor, at=at)
    except AttestError as exc:
        chain = exc
    if verified is not None:
        root = _root_of(verified)
        try:
            statuses = statuses_of(verified.signers, root, pool=pool, at=at, hold=tolerances.held_rim_signers)
        except AttestError as exc:
            revocation = exc
    return JudgedRim(
        wanted=wanted,
        parsed=rim,
        verified=verified,
        signature=signature,
        chain=chain,
        revocation=revocation,
        statuses=statuses,
    )


def _root_of(rim: VerifiedRim) -> Issuer:
    """Return the root as a signer: the held key, or the embedded certificate whose key ``find_signers`` compared."""
    return rim.anchor.held_issuer() or rim.parsed.certificates[-1].as_issuer()


def _differs(rim: ParsedRim, report: ParsedGpuReport, source: MeasurementSource, tolerances: GpuTolerances) -> bool:
    comparison = compare(
        report.measurements,
        driver=rim if source == "driver" else None,
        vbios=rim if source == "vbios" else None,
        nvdec0=report.opaque.nvdec0,
        waived=tolerances.waived_measurements,
    )
    return bool(comparison.mismatches)


def statuses_of(
    certificates: tuple[Certificate, Certificate, Certificate],
    root: Issuer,
    *,
    pool: Endorsements,
    at: datetime,
    hold: str | None = None,
) -> tuple[Status, ...]:
    """Return what shows that none of L4, L3 and L2 is revoked.

    All three are looked at, so that a missing answer about one hides no revocation of another.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: as ``require_not_revoked``.
        EndorsementError: as ``require_not_revoked``.

    Spec: specs/nvidia-gpu.md, section 8.
    """
    issuers = (certificates[1].as_issuer(), certificates[2].as_issuer(), root)
    found: list[Status] = []
    failures: list[AttestError] = []
    for certificate, issuer in zip(certificates, issuers, strict=True):
        try:
            found.append(require_not_revoked(certificate, issuer, answers=pool.ocsp, crls=pool.crls, at=at, hold=hold))
        except AttestError as exc:
            failures.append(exc)
    if failures:
        raise min(failures, key=lambda failure: failure.exit_code)
    return tuple(found)


def told_statuses(
    certificates: tuple[Certificate, ...],
    statuses: tuple[Status, ...],
    used: tuple[Unchecked, ...],
    *,
    hold: str | None = None,
) -> tuple[str, str, Outcome]:
    """Tell what shows that certificates are not revoked, or which decision left it unchecked."""
    expected = f"not revoked: {', '.join(certificate.name for certificate in certificates)}"
    if not statuses:
        return expected, reasons(used), Outcome.NOT_EVALUATED
    got = "; ".join(_status_text(status) for status in statuses)
    if any(isinstance(status, OcspAnswer) and status.status is not OcspStatus.GOOD for status in statuses):
        return expected, f"{got}; a hold is tolerated: {hold}", Outcome.WARNING
    return expected, got, Outcome.PASS


def _status_text(status: Status) -> str:
    moment = rfc3339_text(status.this_update)
    if isinstance(status, OcspAnswer):
        return f"{status.status} by OCSP of {moment}"
    return f"not listed by CRL of {moment}"
