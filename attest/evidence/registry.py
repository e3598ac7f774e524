"""The evidence formats that this version verifies: one row for each media type.

There are two tables. ``FORMATS`` has the evidence of CPUs: a row says how an item is read, where its 64 bytes of
report data are, which procedure verifies it, and which claims come of it. ``PERIPHERALS`` has the evidence of the
devices beside the CPU, which answer under a nonce of their own. A new format adds its row here;
``attest.verification`` knows no format by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.azure.claims import AZURE_SNP_CLAIMS, AZURE_TDX_CLAIMS
from attest.evidence.azure.forms import AZURE_PARSERS, ParsedAzureEvidence
from attest.evidence.azure.structure import HclReportType
from attest.evidence.azure.verify import VerifiedAzureEvidence, verify_azure_evidence
from attest.evidence.claims import Claim
from attest.evidence.envelope import MEDIA_INTEL_QUOTE
from attest.evidence.eventlog.kinds import CCEL, TCG2_SHA256, LogKind
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS
from attest.evidence.gpu.evidence import NVIDIA_PARSERS, ParsedGpuEvidence
from attest.evidence.gpu.tolerances import DeviceTolerances
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence

__all__ = [
    "FORMATS",
    "KINDS",
    "PERIPHERALS",
    "CpuFormat",
    "DeviceFormat",
    "MeasuredRegisters",
    "MediaFormat",
    "PeripheralFormat",
    "VerifiedDevice",
    "VerifyDevice",
    "VerifyPeripheral",
]


class VerifiedDevice(Protocol):
    """What every format's procedure returns."""

    @property
    def simulated(self) -> bool:
        """Whether it rests on a root of the simulator."""
        ...

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure."""
        ...


class VerifyDevice(Protocol):
    """A format's procedure: pure, and raising for everything that does not hold."""

    def __call__(
        self,
        parsed: Any,  # noqa: ANN401  what the same row's parse returned
        /,
        *,
        endorsements: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
    ) -> VerifiedDevice:
        """Verify one device."""
        ...


class VerifyPeripheral(Protocol):
    """A procedure likewise, for a device that reference manifests of its vendor vouch for."""

    def __call__(
        self,
        parsed: Any,  # noqa: ANN401  what the same row's parse returned
        /,
        *,
        endorsements: Endorsements,
        anchors: TrustAnchors,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
        tolerances: DeviceTolerances,
    ) -> VerifiedDevice:
        """Verify one device."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFormat:
    """One kind of device.

    Attributes:
        kind: its name in results (``sev-snp``).
        claims: what verified evidence states.
    """

    kind: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRegisters:
    """The registers to which the event log of such a machine leads.

    Attributes:
        log: what the indices of such a log mean.
        read: the registers that the evidence states, by name, of what was parsed. They count once it is verified.
    """

    log: LogKind
    read: Callable[[Any], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFormat(DeviceFormat):
    """One kind of CPU evidence.

    Attributes:
        report_data: the 64 bytes that the guest chose, of what was parsed.
        verify: the procedure.
        nonce: the field of its own in which such evidence carries the nonce, of what was parsed; None for a kind that
            carries it in its report data, left-aligned.
        registers: those to which an event log can replay; None for a kind without any.
    """

    report_data: Callable[[Any], bytes]  # Any: each row is about the parsed and verified types of its own package
    verify: VerifyDevice
    nonce: Callable[[Any], bytes] | None = None
    registers: MeasuredRegisters | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFormat:
    """How an item of one media type is read, and of which kind it turns out to be.

    Attributes:
        parse: reads the item; raises ``EvidenceError``.
        kind_of: the row for what was read.
    """

    parse: Callable[[bytes], Any]
    kind_of: Callable[[Any], CpuFormat]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeripheralFormat:
    """How an item of one media type is read and verified, when it is a device beside the CPU.

    Attributes:
        parse: reads the item; raises ``EvidenceError``.
        nonce: the request nonce, 32 bytes, of what was parsed.
        verify: the procedure.
        kind_of: the row for what was verified: only the device's certificates say what it is.
    """

    parse: Callable[[bytes], Any]
    nonce: Callable[[Any], bytes]
    verify: VerifyPeripheral
    kind_of: Callable[[Any], DeviceFormat]


def _snp_report_data(parsed: ParsedSnpEvidence) -> bytes:
    return parsed.report.report_data


def _quote_report_data(quote: ParsedQuote) -> bytes:
    return quote.body.report_data


def _user_data(evidence: ParsedAzureEvidence) -> bytes:
    return evidence.stated_user_data


def _extra_data(evidence: ParsedAzureEvidence) -> bytes:
    return evidence.stated_extra_data


def _rtmrs(quote: ParsedQuote) -> Mapping[str, bytes]:
    body: Any = quote.body  # the row below is for TDX quotes, whose bodies have registers
    registers: tuple[bytes, bytes, bytes, bytes] = body.rtmrs
    return {f"RTMR{number}": value for number, value in enumerate(registers)}


def _pcrs(evidence: ParsedAzureEvidence) -> Mapping[str, bytes]:
    return {f"PCR{index}": value for index, value in evidence.stated_pcrs}


def _device_nonce(parsed: ParsedGpuEvidence) -> bytes:
    return parsed.report.nonce


_VERIFY_GPU: Callable[..., VerifiedGpu] = verify_gpu_evidence
_VERIFY_SNP: Callable[..., VerifiedSnpReport] = verify_snp_evidence
_VERIFY_QUOTE: Callable[..., VerifiedIntelQuote] = verify_intel_quote
_VERIFY_AZURE: Callable[..., VerifiedAzureEvidence] = verify_azure_evidence

SNP = CpuFormat(kind="sev-snp", report_data=_snp_report_data, verify=_VERIFY_SNP, claims=SNP_CLAIMS)
TDX = CpuFormat(
    kind="tdx",
    report_data=_quote_report_data,
    verify=_VERIFY_QUOTE,
    claims=TDX_CLAIMS,
    registers=MeasuredRegisters(log=CCEL, read=_rtmrs),
)
SGX = CpuFormat(kind="sgx", report_data=_quote_report_data, verify=_VERIFY_QUOTE, claims=SGX_CLAIMS)
_PCRS = MeasuredRegisters(log=TCG2_SHA256, read=_pcrs)
AZURE_SNP = CpuFormat(
    kind="azure-snp",
    report_data=_user_data,
    verify=_VERIFY_AZURE,
    claims=AZURE_SNP_CLAIMS,
    nonce=_extra_data,
    registers=_PCRS,
)
AZURE_TDX = replace(AZURE_SNP, kind="azure-tdx", claims=AZURE_TDX_CLAIMS)

GPU = DeviceFormat(kind="nvidia-gpu", claims=GPU_CLAIMS)
SWITCH = DeviceFormat(kind="nvidia-switch", claims=SWITCH_CLAIMS)

KINDS: tuple[DeviceFormat, ...] = (SNP, TDX, SGX, AZURE_SNP, AZURE_TDX, GPU, SWITCH)
"""The kinds that this version verifies."""


def _azure_kind(evidence: ParsedAzureEvidence) -> CpuFormat:
    return AZURE_SNP if evidence.hcl.report_type is HclReportType.SNP else AZURE_TDX


FORMATS: Mapping[str, MediaFormat] = {
    **{media_type: MediaFormat(parse=parse, kind_of=lambda _: SNP) for media_type, parse in SNP_PARSERS.items()},
    MEDIA_INTEL_QUOTE: MediaFormat(parse=parse_quote, kind_of=lambda quote: TDX if quote.tee == "tdx" else SGX),
    **{media_type: MediaFormat(parse=parse, kind_of=_azure_kind) for media_type, parse in AZURE_PARSERS.items()},
}
"""Evidence of CPUs by media type, in lower case and without parameters."""

PERIPHERALS: Mapping[str, PeripheralFormat] = {
    media_type: PeripheralFormat(
        parse=parse,
        nonce=_device_nonce,
        verify=_VERIFY_GPU,
        kind_of=lambda verified: SWITCH if verified.kind == SWITCH.kind else GPU,
    )
    for media_type, parse in NVIDIA_PARSERS.items()
}
"""Evidence of devices beside the CPU, likewise."""
