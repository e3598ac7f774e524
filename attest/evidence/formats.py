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
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence

__all__ = ["FORMATS", "DeviceFormat", "VerifiedDevice", "VerifyDevice"]


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
    """One format of CPU evidence.

    Attributes:
        kind: its name in results (``sev-snp``).
        parse: reads an item; raises ``EvidenceError``.
        report_data: the 64 bytes that the guest chose, of what ``parse`` returned.
        verify: the procedure.
        claims: what verified evidence states.
    """

    kind: str
    parse: Callable[[bytes], Any]  # Any: each row is about one parsed and one verified type of its own package
    report_data: Callable[[Any], bytes]
    verify: VerifyDevice
    claims: tuple[Claim, ...]


def _snp_report_data(parsed: ParsedSnpEvidence) -> bytes:
    return parsed.report.report_data


_VERIFY_SNP: Callable[..., VerifiedSnpReport] = verify_snp_evidence

FORMATS: Mapping[str, DeviceFormat] = {
    media_type: DeviceFormat(
        kind="sev-snp", parse=parse, report_data=_snp_report_data, verify=_VERIFY_SNP, claims=SNP_CLAIMS
    )
    for media_type, parse in SNP_PARSERS.items()
}
"""By media type, in lower case and without parameters."""
