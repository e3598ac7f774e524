"""The comparison of a report's measurements with reference values (specs/nvidia-gpu.md, section 10).

Every reference value of every RIM available is compared, and every comparison is listed. A mismatch that is waived, by
NVIDIA's rule about the video decoder or by name, is shown as such and never counts as matched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from attest.evidence.gpu.rim import ParsedRim, verify_rim_signature
from attest.evidence.tolerances import WaivedMeasurement

MeasurementSource: TypeAlias = Literal["driver", "vbios"]
"""The RIM of a reference value; the BIOS of a switch counts as ``vbios``."""

NVDEC_INDEX = 35
NVDEC_DISABLED = 0x55
"""Opaque field 11: the video decoder is off."""
NVDEC_WAIVER = "waived by NVIDIA's rule: NVDEC0 is disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementResult:
    """One comparison.

    Attributes:
        index: RIM index.
        name: NVIDIA's name of the measurement (``HashedMeasurement_36_GSP``).
        waived: why a mismatch does not refuse; None for a match, and for a mismatch that does.
        expected: the alternatives, 48 bytes each.
        got: 48 bytes; None when the report has no such index.
    """

    index: int
    name: str
    source: MeasurementSource
    matched: bool
    waived: str | None
    expected: tuple[bytes, ...]
    got: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementComparison:
    """Every comparison, by RIM (driver first) and index. Its truth value is undefined: ask for ``mismatches``."""

    results: tuple[MeasurementResult, ...]

    @property
    def compared(self) -> int:
        """Number of reference values that were compared."""
        return len(self.results)

    @property
    def matched(self) -> int:
        """Number of reference values that were found."""
        return sum(result.matched for result in self.results)

    @property
    def mismatches(self) -> tuple[MeasurementResult, ...]:
        """Differences that are not waived."""
        return tuple(result for result in self.results if not result.matched and result.waived is None)

    @property
    def waived(self) -> tuple[MeasurementResult, ...]:
        """Differences that are waived, with the reason."""
        return tuple(result for result in self.results if result.waived is not None)

    def __bool__(self) -> NoReturn:
        # An object is true by default, and `if comparison:` would read as "they match".
        raise TypeError("a comparison is not a condition; use .mismatches")


def compare(
    measurements: tuple[bytes, ...],
    *,
    driver: ParsedRim | None,
    vbios: ParsedRim | None,
    nvdec0: int | None,
    waived: tuple[WaivedMeasurement, ...] = (),
) -> MeasurementComparison:
    """Compare measurements with the reference values of the RIMs available; one alone is compared too.

    Measurements at indices that no RIM names are not judged. An index that both name is compared with each;
    ``conflicts`` finds it.

    Args:
        measurements: 48 bytes each; position is the RIM index.
        driver: the driver's RIM, its signature valid; None for a switch, or when it is missing.
        vbios: the VBIOS's or switch BIOS's RIM, its signature valid; None when it is missing.
        nvdec0: opaque field 11 of the report.
        waived: indices whose mismatch is only shown.

    Raises:
        SignatureError: ``rim-signature-invalid``, a RIM whose values are not signed.
        ValueError: no RIM at all, so that nothing would differ.

    Spec: specs/nvidia-gpu.md, section 10.
    """
    if driver is None and vbios is None:
        raise ValueError("without a RIM there is nothing to compare with")
    reasons = {waiver.index: waiver.reason for waiver in waived}
    if nvdec0 == NVDEC_DISABLED:
        # NOTE: NVIDIA does not compare this index then; here it is compared, and only its mismatch is waived.
        reasons[NVDEC_INDEX] = NVDEC_WAIVER
    results = (*_compared(measurements, "driver", driver, reasons), *_compared(measurements, "vbios", vbios, reasons))
    return MeasurementComparison(results=results)


def _compared(
    measurements: tuple[bytes, ...], source: MeasurementSource, rim: ParsedRim | None, reasons: dict[int, str]
) -> Iterator[MeasurementResult]:
    if rim is None:
        return
    verify_rim_signature(rim)
    for index, expected in sorted(rim.reference_values.items()):
        got = measurements[index] if index < len(measurements) else None
        matched = got in expected
        yield MeasurementResult(
            index=index,
            name=rim.names[index],
            source=source,
            matched=matched,
            # An index that the report does not have is no measurement that differs: no waiver is about it.
            waived=None if matched or got is None else reasons.get(index),
            expected=expected,
            got=got,
        )


def conflicts(driver: ParsedRim | None, vbios: ParsedRim | None) -> tuple[int, ...]:
    """Return the indices that are active in both RIMs, which must be none.

    Spec: specs/nvidia-gpu.md, section 10, rule 2.
    """
    if driver is None or vbios is None:
        return ()
    return tuple(sorted(driver.reference_values.keys() & vbios.reference_values.keys()))
