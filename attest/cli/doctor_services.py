"""Reachability of the vendors' services: one short request to each that this machine's evidence needs."""

from __future__ import annotations

from collections.abc import Iterator

from attest.cli.options import Network
from attest.collect.detect import Detected
from attest.collect.findings import DoctorFinding
from attest.fetch import KDS_URL, OCSP_URL, PCS_URL, RIM_URL

__all__ = ["reach_services"]

CONNECT_SECONDS = 5.0


def reach_services(detected: Detected, network: Network) -> Iterator[DoctorFinding]:
    """Ask each service; on a machine without TEE and GPUs all of them, since it may verify other machines' evidence.

    Any answer counts, a refusal too: most services do not have the requested object.
    """
    cpu_unknown = detected.tee is None
    services = (
        ("service.amd", network.kds or KDS_URL, cpu_unknown or detected.tee == "sev-snp"),
        ("service.intel", network.pcs or PCS_URL, cpu_unknown or detected.tee == "tdx"),
        ("service.nvidia-rim", network.rim_url or RIM_URL, cpu_unknown or detected.gpus),
        ("service.nvidia-ocsp", network.ocsp_url or OCSP_URL, cpu_unknown or detected.gpus),
    )
    for name, url, needed in services:
        if needed:
            yield _reach(name, url)


def _reach(name: str, url: str) -> DoctorFinding:
    import httpx

    try:
        answer = httpx.head(url, timeout=CONNECT_SECONDS, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as exc:
        return DoctorFinding(
            id=name,
            outcome="fail",
            found=f"{url} cannot be reached: {str(exc) or type(exc).__name__}",
            fix="let this machine out to it, name a mirror, or use an endorsement bundle: attest endorsements fetch",
        )
    return DoctorFinding(id=name, outcome="pass", found=f"{url} answers (status {answer.status_code})")
