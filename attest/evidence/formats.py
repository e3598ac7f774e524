"""The evidence formats that this version verifies: one row for each media type.

A row says how an item is read, where its 64 bytes of report data are, which procedure verifies it, and which claims
come of it. A new format adds its row here; ``attest.verification`` knows no format by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.claims import Claim
from attest.evidence.envelope import MEDIA_INTEL_QUOTE
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence

__all__ = ["FORMATS", "KINDS", "DeviceFormat", "MediaFormat", "VerifiedDevice", "VerifyDevice"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFormat:
    """One kind of CPU evidence.

    Attributes:
        kind: its name in results (``sev-snp``).
        report_data: the 64 bytes that the guest chose, of what was parsed.
        verify: the procedure.
        claims: what verified evidence states.
        registers: runtime measurement registers to which an event log can replay; None for a kind without any.
    """

    kind: str
    report_data: Callable[[Any], bytes]  # Any: each row is about the parsed and verified types of its own package
    verify: VerifyDevice
    claims: tuple[Claim, ...]
    registers: Callable[[Any], tuple[bytes, bytes, bytes, bytes]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFormat:
    """How an item of one media type is read, and of which kind it turns out to be.

    Attributes:
        parse: reads the item; raises ``EvidenceError``.
        kind_of: the row for what was read.
    """

    parse: Callable[[bytes], Any]
    kind_of: Callable[[Any], DeviceFormat]


def _snp_report_data(parsed: ParsedSnpEvidence) -> bytes:
    return parsed.report.report_data


def _quote_report_data(quote: ParsedQuote) -> bytes:
    return quote.body.report_data


def _registers(quote: ParsedQuote) -> tuple[bytes, bytes, bytes, bytes]:
    body: Any = quote.body  # the row below is for TDX quotes, whose bodies have registers
    registers: tuple[bytes, bytes, bytes, bytes] = body.rtmrs
    return registers


_VERIFY_SNP: Callable[..., VerifiedSnpReport] = verify_snp_evidence
_VERIFY_QUOTE: Callable[..., VerifiedIntelQuote] = verify_intel_quote

SNP = DeviceFormat(kind="sev-snp", report_data=_snp_report_data, verify=_VERIFY_SNP, claims=SNP_CLAIMS)
TDX = DeviceFormat(
    kind="tdx", report_data=_quote_report_data, verify=_VERIFY_QUOTE, claims=TDX_CLAIMS, registers=_registers
)
SGX = DeviceFormat(kind="sgx", report_data=_quote_report_data, verify=_VERIFY_QUOTE, claims=SGX_CLAIMS)

KINDS = (SNP, TDX, SGX)
"""The kinds that this version verifies."""

FORMATS: Mapping[str, MediaFormat] = {
    **{media_type: MediaFormat(parse=parse, kind_of=lambda _: SNP) for media_type, parse in SNP_PARSERS.items()},
    MEDIA_INTEL_QUOTE: MediaFormat(parse=parse_quote, kind_of=lambda quote: TDX if quote.tee == "tdx" else SGX),
}
"""By media type, in lower case and without parameters."""
