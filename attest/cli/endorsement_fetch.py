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
    MAX_SERVICE_KEY_BYTES,
    ApiKey,
    EndorsementCache,
    FetchClocks,
    Gathered,
    can_be_fetched,
    default_cache_directory,
    gather_for_evidence,
    read_service_key,
)
from attest.fetch.devices import vendor_services
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

    ``pool`` has the endorsements available, for example the certificates of a GPU's raw report.

    Raises:
        ConfigurationError: the cache or the service key cannot be used, a service's address is invalid, or the extra
            for GPUs is not installed.
        EvidenceError: an item is malformed.
        ChainError: the names in a quote's PCK certificate are not Intel's.
        UnsupportedError: ``evidence-unsupported``, no item's vendor has a known service.
    """
    if not can_be_fetched(evidence):
        raise _nothing_known(evidence)
    directory = Path(network.cache) if network.cache is not None else default_cache_directory(os.environ)
    with vendor_services(
        FetchClocks(now=this_second),
        random=secrets.token_bytes,
        kds=network.kds or None,
        pcs=network.pcs or None,
        pcs_update=network.pcs_update,
        rims=network.rim_url or None,
        ocsp=network.ocsp_url or None,
        service_key=service_key(network),
    ) as services:
        return gather_for_evidence(
            evidence,
            at=at,
            services=services,
            cache=EndorsementCache(directory),
            product=None if network.product is None else SnpProduct(network.product),
            pool=pool,
            progress=_progress(display),
        )


def fetched_endorsements(
    evidence: Evidence, *, at: datetime, network: Network, display: Display, pool: Endorsements
) -> Endorsements:
    """Fetch what is missing, and warn of each failure; arguments and errors as ``fetch_missing``."""
    gathered = fetch_missing(evidence, at=at, network=network, display=display, pool=pool)
    for failure in gathered.failures:
        display.warn(failure.message)
    return gathered.endorsements


def _nothing_known(evidence: Evidence) -> UnsupportedError:
    types = ", ".join(item.media_type for item in evidence.items)
    return UnsupportedError(
        f"this evidence has no SEV-SNP report, no TDX or SGX quote and no report of an NVIDIA device ({types})",
        code="evidence-unsupported",
        expected="a SEV-SNP report, a TDX or SGX quote, or a report of an NVIDIA device",
        got=types,
    )


def service_key(network: Network) -> ApiKey | None:
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
