"""Fetch what evidence needs, with the cache on disk and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from attest.cli.clock import now
from attest.cli.options import Display, Network
from attest.cli.text import visible
from attest.errors import UnsupportedError
from attest.evidence.envelope import Evidence
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import (
    KDS_URL,
    PCS_URL,
    EndorsementCache,
    Gathered,
    KdsClient,
    PcsClient,
    Timing,
    VendorServices,
    can_be_fetched,
    default_cache_directory,
    gather_for_evidence,
)

__all__ = ["fetch_missing"]


def fetch_missing(evidence: Evidence, *, at: datetime, network: Network, display: Display) -> Gathered:
    """Ask cache and services for everything that the evidence needs and does not carry.

    Raises:
        ConfigurationError: the cache cannot be used, or a service's address is none.
        EvidenceError: an item is malformed.
        ChainError: the names in a quote's PCK certificate are not Intel's.
        UnsupportedError: ``evidence-unsupported``, nothing in the evidence has a vendor that can be asked.
    """
    if not can_be_fetched(evidence):
        raise _nothing_known(evidence)
    directory = Path(network.cache) if network.cache is not None else default_cache_directory(os.environ)
    timing = Timing(now=now)
    with (
        KdsClient(timing=timing, base_url=network.kds or KDS_URL) as kds,
        PcsClient(timing=timing, base_url=network.pcs or PCS_URL, update=network.pcs_update) as pcs,
    ):
        return gather_for_evidence(
            evidence,
            at=at,
            services=VendorServices(amd=kds, intel=pcs),
            cache=EndorsementCache(directory),
            product=None if network.product is None else SnpProduct(network.product),
            progress=_progress(display),
        )


def _nothing_known(evidence: Evidence) -> UnsupportedError:
    types = ", ".join(item.media_type for item in evidence.items)
    return UnsupportedError(
        f"this evidence has neither a SEV-SNP report nor a TDX or SGX quote ({types})",
        code="evidence-unsupported",
        expected="a SEV-SNP report, or a TDX or SGX quote",
        got=types,
    )


def _progress(display: Display) -> Callable[[str], None]:
    """Lines on standard error where somebody watches, or asked for them."""
    if display.quiet or not (display.verbose or sys.stderr.isatty()):
        return lambda _: None
    return lambda line: click.echo(visible(line), err=True)
