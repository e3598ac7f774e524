"""Selection and checks of the RIMs for a device's driver and for its VBIOS or BIOS.

Edition, product and version decide; names and order of files say nothing. Several issues of one id can be available:
each is judged and compared as a whole, and values of two issues are never mixed.

Spec: specs/nvidia-gpu.md, sections 9.2 to 9.4, 10 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias, TypeVar

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
from attest.evidence.gpu.chain import DeviceChain
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementSource, compare
from attest.evidence.gpu.opaque import OpaqueData
from attest.evidence.gpu.rim import (
    ParsedRim,
    VerifiedRim,
    driver_rim_id,
    find_signers,
    read_rim,
    require_window,
    rim_window,
    switch_bios_rim_id,
    vbios_rim_id,
    verify_rim_signature,
)
from attest.evidence.gpu.structure import ParsedGpuReport
from attest.evidence.procedure import reasons
from attest.evidence.tolerances import GpuTolerances

_T = TypeVar("_T")

MAX_ISSUES = 32
"""Maximum of examined issues and copies of one id: NVIDIA renews signatures about every two years."""
_BLACKWELL_CHIP = "GB100"
"""Chip of a Blackwell GPU that does not state it."""
Status: TypeAlias = OcspAnswer | Crl
"""Evidence that a certificate is not revoked."""


class Given(NamedTuple):
    """Input of the steps of one device."""

    report: ParsedGpuReport
    model: DeviceModel | None
    pool: Endorsements
    anchors: TrustAnchors
    at: datetime
    unchecked: tuple[Unchecked, ...]
    tolerances: GpuTolerances

    def compare(self, driver: ParsedRim | None, vbios: ParsedRim | None) -> MeasurementComparison | None:
        """Compare the measurements with the RIMs that there are; None without any."""
        if driver is None and vbios is None:
            return None
        return compare(
            self.report.measurements,
            driver=driver,
            vbios=vbios,
            nvdec0=self.report.opaque.nvdec0,
            waived=self.tolerances.waived_measurements,
        )


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
        return f"the RIM of {self.product}, {what} {self.version or 'without a stated version'}"

    def fits(self, rim: ParsedRim) -> bool:
        """Return whether a RIM claims to be the wanted one; versions are compared without case."""
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


def served_id(opaque: OpaqueData, device: DeviceModel | DeviceChain, source: MeasurementSource) -> str | None:
    """Return the id under which NVIDIA serves a RIM of a device.

    None when the report does not state a part of the id, writes its version as no such device does, or states a text
    that cannot be part of an id.
    """
    try:
        return _served_id(opaque, device, source)
    except EvidenceError:
        return None


def _served_id(opaque: OpaqueData, device: DeviceModel | DeviceChain, source: MeasurementSource) -> str | None:
    if device.kind == "nvidia-switch":
        bios = opaque.switch_bios_version()
        return None if bios is None else switch_bios_rim_id(bios)
    if source == "driver":
        chip = device.product if device.architecture == "hopper" else opaque.chip_info or _BLACKWELL_CHIP
        return None if opaque.driver_version is None else driver_rim_id(chip, opaque.driver_version)
    project, project_sku, chip_sku, vbios = (
        opaque.project,
        opaque.project_sku,
        opaque.chip_sku,
        opaque.gpu_vbios_version(),
    )
    if project is None or project_sku is None or chip_sku is None or vbios is None:
        return None
    return vbios_rim_id(project, project_sku, chip_sku, vbios)


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
    """One RIM and the findings about it.

    Attributes:
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
        """The RIM, if NVIDIA signed it and did not revoke it, even if it is out of date.

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


def choose_rim(wanted: WantedRim, given: Given) -> JudgedRim | None:
    """Verify every RIM that claims to be the wanted one and return the best; None if there is none.

    One good issue without a mismatch suffices. If none is good, one that is false is returned before one that is
    stale, so that a missing endorsement hides nothing.
    """
    judged = [_judge(wanted, rim, given) for rim in islice(fitting_rims(wanted, given.pool.rims), MAX_ISSUES)]
    if len(judged) < 2:
        return judged[0] if judged else None
    tolerated = any(decision.check == "revocation" for decision in given.unchecked)

    def rank(rim: JudgedRim) -> tuple[int, bool]:
        return rim.severity(revocation_tolerated=tolerated), rim.comparable is not None and _differs(rim, given)

    return min(judged, key=rank)


def _judge(wanted: WantedRim, rim: ParsedRim, given: Given) -> JudgedRim:
    _, signature = _caught(partial(verify_rim_signature, rim))
    found, chain = _caught(partial(find_signers, rim, given.anchors))
    verified: VerifiedRim | None = None
    statuses: tuple[Status, ...] | None = None
    revocation: AttestError | None = None
    if found is not None:
        signers, anchor = found
        _, chain = _caught(partial(require_window, rim, signers=signers, anchor=anchor, at=given.at))
        if signature is None:
            begin, end = rim_window(rim, signers, anchor)
            verified = VerifiedRim(parsed=rim, signers=signers, anchor=anchor, not_before=begin, not_after=end)
            # The root as a signer: the held key, or the embedded certificate whose key ``find_signers`` compared.
            root = anchor.held_issuer() or rim.certificates[-1].as_issuer()
            hold = given.tolerances.held_rim_signers
            statuses, revocation = _caught(partial(statuses_of, signers, root, pool=given.pool, at=given.at, hold=hold))
    return JudgedRim(
        wanted=wanted,
        parsed=rim,
        verified=verified,
        signature=signature,
        chain=chain,
        revocation=revocation,
        statuses=statuses or (),
    )


def _caught(check: Callable[[], _T]) -> tuple[_T, None] | tuple[None, AttestError]:
    try:
        return check(), None
    except AttestError as exc:
        return None, exc


def _differs(rim: JudgedRim, given: Given) -> bool:
    is_driver = rim.wanted.source == "driver"
    comparison = given.compare(rim.parsed if is_driver else None, None if is_driver else rim.parsed)
    return comparison is not None and bool(comparison.mismatches)


def statuses_of(
    certificates: tuple[Certificate, ...],
    root: Issuer,
    *,
    pool: Endorsements,
    at: datetime,
    hold: str | None = None,
) -> tuple[Status, ...]:
    """Return what shows that none of L4, L3 and L2, or of those that follow each other up to the root, is revoked.

    All are looked at, so that a missing answer about one hides no revocation of another.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: as ``require_not_revoked``.
        EndorsementError: as ``require_not_revoked``.

    Spec: specs/nvidia-gpu.md, section 8.
    """
    issuers = (*(certificate.as_issuer() for certificate in certificates[1:]), root)
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


def status_facts(
    certificates: tuple[Certificate, ...],
    statuses: tuple[Status, ...],
    used: tuple[Unchecked, ...],
    *,
    hold: str | None = None,
) -> tuple[str, str, Outcome]:
    """Return the evidence that certificates are not revoked, or the decision that left it unchecked."""
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
