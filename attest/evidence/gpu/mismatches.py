"""Refusal of measurements that differ: the component, where the found value is known to be good, and remedies.

Spec: specs/nvidia-gpu.md, sections 9.2 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from attest.endorsements.rims import RimDocument
from attest.errors import AttestError, VerificationError
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementResult
from attest.evidence.gpu.references import Given
from attest.evidence.gpu.rim import ParsedRim, find_signers, read_rim

MAX_OTHER_RIMS = 64
"""Maximum of available RIMs that are searched for a measured value; each takes some milliseconds."""

_FIELD_REPORTS = {
    7: "7 is known to differ after developer tools were enabled",
    9: "9 is known to differ after a driver update if the VBIOS RIM is an old issue: fetch the current one",
    35: "35 is known to differ after developer tools were enabled",
    52: "52 is known to differ after confidential computing was switched off and on without a reboot of the host",
}
"""Known field reports (specs/nvidia-gpu.md, section 10)."""
_REMEDIES = {
    "driver": "fetch the current issue of the driver's RIM; if the measurement differs from that, too, install the "
    "driver again and reset the GPU",
    "vbios": "fetch the current issue of the RIM of the VBIOS or BIOS; if the measurement differs from that, too, the "
    "firmware is not the one that the report states: install it again",
}
_WAIVER = "if you know the reason for a difference, name it in a policy (waived_measurements)"
_NUMBER_ALONE = re.compile(r"(?:Mixed|Hashed)?Measurement_\d+")
"""Name of a record that names no component, as opposed to ``HashedMeasurement_36_GSP``."""


def require_no_mismatch(comparison: MeasurementComparison, given: Given) -> None:
    """Require every measurement to be one of its reference values, but for what is waived.

    Raises:
        VerificationError: ``gpu-measurement-mismatch``.
    """
    mismatches = comparison.mismatches
    if not mismatches:
        return
    known = _known_elsewhere(mismatches, given)
    first = mismatches[0]
    others = "" if len(mismatches) == 1 else f"; so do {', '.join(map(_place, mismatches[1:]))}"
    raise VerificationError(
        f"measurement {_place(first)} differs from the {first.source} RIM: expected {_alternatives(first)}, "
        f"got {_got(first)}{others}",
        code="gpu-measurement-mismatch",
        field=f"measurements[{first.index}]",
        expected="; ".join(f"{_place(m, m.source)}: {_alternatives(m)}" for m in mismatches),
        got="; ".join(f"{m.index}: {_got(m)}" for m in mismatches),
        hint="; ".join(_hints(mismatches, known)),
    )


def _place(mismatch: MeasurementResult, *more: str) -> str:
    """Return the index, with NVIDIA's name of the measurement where the RIM gives more than a number."""
    named = () if _NUMBER_ALONE.fullmatch(mismatch.name) else (mismatch.name,)
    remarks = ", ".join((*more, *named))
    return f"{mismatch.index} ({remarks})" if remarks else str(mismatch.index)


def _alternatives(mismatch: MeasurementResult) -> str:
    return " or ".join(value.hex() for value in mismatch.expected)


def _got(mismatch: MeasurementResult) -> str:
    return "nothing, the report has no such index" if mismatch.got is None else mismatch.got.hex()


def _hints(mismatches: tuple[MeasurementResult, ...], known: dict[int, str]) -> Iterator[str]:
    yield from (f"the value of {index} is valid for {versions}" for index, versions in known.items())
    yield from dict.fromkeys(_FIELD_REPORTS[m.index] for m in mismatches if m.index in _FIELD_REPORTS)
    yield from dict.fromkeys(_REMEDIES[m.source] for m in mismatches)
    yield _WAIVER


# -- the same value in other RIMs


def _known_elsewhere(mismatches: tuple[MeasurementResult, ...], given: Given) -> dict[int, str]:
    """Name the versions whose RIMs have the values that were found, by index; NVIDIA signed each of these RIMs."""
    rims = tuple(_signed(given.pool.rims, given))
    found: dict[int, str] = {}
    for mismatch in mismatches:
        versions = dict.fromkeys(
            f"{rim.product} {rim.version}"
            for rim in rims
            if mismatch.got in rim.reference_values.get(mismatch.index, ())
        )
        if versions:
            found[mismatch.index] = ", ".join(versions)
    return found


def _signed(documents: Iterable[RimDocument], given: Given) -> Iterator[ParsedRim]:
    """Yield RIMs whose signers lead to a pinned root; dates do not matter here.

    ``read_rim`` gives no values of a RIM whose signature does not hold.
    """
    for document in islice(documents, MAX_OTHER_RIMS):
        try:
            rim = read_rim(document)
            find_signers(rim, given.anchors)
        except AttestError:
            continue
        if given.model is not None and rim.product == given.model.product:
            yield rim
