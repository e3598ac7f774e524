"""Endorsements of NVIDIA devices, in two rounds: a RIM's signers are known only from the RIM.

Several devices are handled together: eight GPUs of one machine share their RIMs and most of their issuers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Unpack

from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.requests import EndorsementRequest
from attest.errors import SignatureError
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.measurements import compare
from attest.evidence.gpu.needs import needed_rims, needed_statuses
from attest.evidence.gpu.rim import read_rim
from attest.fetch.answers import CheckedAnswer
from attest.fetch.fetch_session import EndorsementSource, FetchOptions, FetchSession, Gathered
from attest.fetch.fetcher import merged

REFETCH_AFTER = timedelta(hours=1)
"""An older RIM that does not match is fetched again: a device without any matching RIM must not cause
a request for each of its reports."""


def gather_for_gpus(
    devices: Sequence[ParsedGpuEvidence],
    *,
    rims: EndorsementSource,
    ocsp: EndorsementSource,
    pool: Endorsements = NO_ENDORSEMENTS,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather RIMs, then the revocation status of the devices' certificates and the RIMs' signers.

    A cached RIM that does not match a report is fetched again: NVIDIA may issue the same id again with
    other reference values.

    ``pool`` has the available endorsements, possibly with a raw report's chain.

    Returns:
        The results. A need that cannot be named, as for a report without its chain, is missing without a failure.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable``, ``network-settings-invalid`` or ``rim-library-missing``.
        ValueError: ``at`` has no time zone.
    """
    first, second = FetchSession(source=rims, **asking), FetchSession(source=ocsp, **asking)
    for device in devices:
        for request in needed_rims(device, pool):
            first.obtain(request)
            _mend(first, request, device, at=asking["at"])
    found = first.gathered()
    documents = (*pool.rims, *found.endorsements.rims)
    for device in devices:
        for status in needed_statuses(device, pool, documents):
            second.obtain(status)
    return merged(found, second.gathered())


def _mend(session: FetchSession, request: EndorsementRequest, device: ParsedGpuEvidence, *, at: datetime) -> None:
    answer = session.answered(request)
    if answer is None or not answer.cached or answer.received is None or at < answer.received + REFETCH_AFTER:
        return
    if _differs(answer, device):
        session.refetch(request)


def _differs(answer: CheckedAnswer, device: ParsedGpuEvidence) -> bool:
    """Return whether a cached RIM mismatches a report, as a hint; verification decides."""
    try:
        results = [
            compare(device.report.measurements, driver=read_rim(rim), vbios=None, nvdec0=device.report.opaque.nvdec0)
            for rim in answer.rims
        ]
    except SignatureError:  # an invalid signature
        return True
    return any(result.mismatches for result in results)
