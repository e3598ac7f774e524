"""From NVIDIA's evidence to its endorsements, in two rounds: who signed a RIM is known only once the RIM is there.

Several devices are asked for together: eight GPUs of one machine share their RIMs and most of their issuers.
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

__all__ = ["REFETCH_AFTER", "gather_for_gpu", "gather_for_gpus"]

REFETCH_AFTER = timedelta(hours=1)
"""A RIM that does not fit is fetched again when it is older: a device that fits no RIM at all must not make us ask the
service for each of its reports."""


def gather_for_gpu(
    parsed: ParsedGpuEvidence,
    *,
    rims: EndorsementSource,
    ocsp: EndorsementSource,
    pool: Endorsements = NO_ENDORSEMENTS,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather what the report of one device needs; as ``gather_for_gpus``."""
    return gather_for_gpus((parsed,), rims=rims, ocsp=ocsp, pool=pool, **asking)


def gather_for_gpus(
    devices: Sequence[ParsedGpuEvidence],
    *,
    rims: EndorsementSource,
    ocsp: EndorsementSource,
    pool: Endorsements = NO_ENDORSEMENTS,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather RIMs, then what the responder says of the devices' certificates and the RIMs' signers.

    A RIM from the cache that does not fit a report is fetched again: NVIDIA issues the same id anew, sometimes
    with other reference values.

    Args:
        devices: reports with what came along.
        rims: the RIM service, such as ``RimServiceClient``.
        ocsp: the responder, such as ``OcspClient``.
        pool: what is at hand already; a raw report's chain may be there.
        asking: see ``FetchOptions``.

    Returns:
        What could be had. What cannot even be named, as of a report without its chain, is missing without a failure.

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
    """Say whether a RIM that is kept does not fit a report; verification judges it in earnest."""
    try:
        results = [
            compare(device.report.measurements, driver=read_rim(rim), vbios=None, nvdec0=device.report.opaque.nvdec0)
            for rim in answer.rims
        ]
    except SignatureError:  # its signature does not hold
        return True
    return any(result.mismatches for result in results)
