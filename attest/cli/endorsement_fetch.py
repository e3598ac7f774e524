"""Fetch what evidence needs, with the cache on disk and progress on a terminal."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from attest.cli.options import Network
from attest.clock import this_second
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import UnsupportedError
from attest.evidence.envelope import Evidence
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import (
    KDS_URL,
    MAX_SERVICE_KEY_BYTES,
    OCSP_URL,
    PCS_URL,
    RIM_URL,
    ApiKey,
    EndorsementCache,
    FetchClocks,
    Gathered,
    KdsClient,
    OcspClient,
    PcsClient,
    RimServiceClient,
    VendorServices,
    can_be_fetched,
    default_cache_directory,
    gather_for_evidence,
    read_service_key,
)
from attest.named_files import read_named
from attest.terminal.display import Display
from attest.terminal.visible_text import visible


def fetch_missing(
    evidence: Evidence,
    *,
    at: datetime,
    network: Network,
    display: Display,
    pool: Endorsements = NO_ENDORSEMENTS,
) -> Gathered:
    """Fetch from cache and services everything that the evidence needs and does not carry.

    ``pool`` has the endorsements at hand, for example the certificates of a GPU's raw report.

    Raises:
        ConfigurationError: the cache or the service key cannot be used, a service's address is none, or the extra for
            GPUs is not installed.
        EvidenceError: an item is malformed.
        ChainError: the names in a quote's PCK certificate are not Intel's.
        UnsupportedError: ``evidence-unsupported``, no item's vendor has a known service.
    """
    if not can_be_fetched(evidence):
        raise _nothing_known(evidence)
    directory = Path(network.cache) if network.cache is not None else default_cache_directory(os.environ)
    timing, key = FetchClocks(now=this_second), _service_key(network)
    with (
        KdsClient(timing=timing, base_url=network.kds or KDS_URL) as kds,
        PcsClient(timing=timing, base_url=network.pcs or PCS_URL, update=network.pcs_update) as pcs,
        RimServiceClient(timing=timing, base_url=network.rim_url or RIM_URL, service_key=key) as rims,
        OcspClient(
            timing=timing, random=secrets.token_bytes, base_url=network.ocsp_url or OCSP_URL, service_key=key
        ) as ocsp,
    ):
        return gather_for_evidence(
            evidence,
            at=at,
            services=VendorServices(amd=kds, intel=pcs, rims=rims, ocsp=ocsp),
            cache=EndorsementCache(directory),
            product=None if network.product is None else SnpProduct(network.product),
            pool=pool,
            progress=_progress(display),
        )


def _nothing_known(evidence: Evidence) -> UnsupportedError:
    types = ", ".join(item.media_type for item in evidence.items)
    return UnsupportedError(
        f"this evidence has no SEV-SNP report, no TDX or SGX quote and no report of an NVIDIA device ({types})",
        code="evidence-unsupported",
        expected="a SEV-SNP report, a TDX or SGX quote, or a report of an NVIDIA device",
        got=types,
    )


def _service_key(network: Network) -> ApiKey | None:
    """Read the key of NVIDIA's services from its file; arguments and environment are seen by others."""
    if network.nvidia_service_key is None:
        return None
    file = Path(network.nvidia_service_key)
    return read_service_key(read_named(file, "--nvidia-service-key", limit=MAX_SERVICE_KEY_BYTES + 63))


def _progress(display: Display) -> Callable[[str], None]:
    """Return a reporter of lines on standard error, for a terminal or with ``--verbose``."""
    if display.quiet or not (display.verbose or sys.stderr.isatty()):
        return lambda _: None
    return lambda line: click.echo(visible(line), err=True)
