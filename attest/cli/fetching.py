"""Fetch what evidence needs, with the cache on disk and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from attest.cli.clock import now
from attest.cli.options import Display
from attest.cli.text import visible
from attest.errors import UnsupportedError
from attest.evidence.envelope import Evidence
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import (
    KDS_URL,
    EndorsementCache,
    Gathered,
    KdsClient,
    Timing,
    default_cache_directory,
    gather_for,
)

__all__ = ["fetch_missing", "snp_evidence"]


def snp_evidence(evidence: Evidence) -> ParsedSnpEvidence:
    """Read the SEV-SNP item of evidence; the first one, since verification refuses a second.

    Raises:
        EvidenceError: it is malformed.
        UnsupportedError: ``evidence-unsupported``, there is none.
    """
    for item in evidence.items:
        if item.essence in SNP_PARSERS:
            return SNP_PARSERS[item.essence](item.value)
    types = ", ".join(item.media_type for item in evidence.items)
    raise UnsupportedError(
        f"this evidence has no SEV-SNP report ({types})",
        code="evidence-unsupported",
        expected="a SEV-SNP report",
        got=types,
    )


def fetch_missing(
    evidence: Evidence,
    *,
    at: datetime,
    cache: str | None,
    kds: str | None,
    product: str | None,
    display: Display,
) -> Gathered:
    """Ask cache and service for everything that the evidence needs and does not carry.

    Raises:
        ConfigurationError: the cache cannot be used, or the service's address is none.
        EvidenceError: as ``snp_evidence``.
    """
    directory = Path(cache) if cache is not None else default_cache_directory(os.environ)
    parsed = snp_evidence(evidence)
    with KdsClient(timing=Timing(now=now), base_url=kds or KDS_URL) as client:
        return gather_for(
            parsed,
            at=at,
            source=client,
            cache=EndorsementCache(directory),
            product=None if product is None else SnpProduct(product),
            progress=_progress(display),
        )


def _progress(display: Display) -> Callable[[str], None]:
    """Lines on standard error where somebody watches, or asked for them."""
    if display.quiet or not (display.verbose or sys.stderr.isatty()):
        return lambda _: None
    return lambda line: click.echo(visible(line), err=True)
