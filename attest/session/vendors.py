"""Endorsements of the service's machine, fetched from the vendors if they are missing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime

from attest.clock import system_clock
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.evidence.envelope import Evidence
from attest.fetch import (
    KDS_URL,
    OCSP_URL,
    PCS_URL,
    RIM_URL,
    EndorsementCache,
    FetchClocks,
    KdsClient,
    OcspClient,
    PcsClient,
    RimServiceClient,
    VendorServices,
    can_be_fetched,
    default_cache_directory,
    gather_for_evidence,
)


def fetch_from_vendors(
    evidence: Evidence, *, at: datetime, pool: Endorsements, environ: Mapping[str, str]
) -> Endorsements:
    """Fetch the endorsements that evidence needs and does not contain, from cache and vendors.

    Raises:
        ConfigurationError: the cache cannot be used.
        EvidenceError: an item is malformed.
        ChainError: the names in a quote's PCK certificate are not Intel's.
    """
    if not can_be_fetched(evidence):
        return NO_ENDORSEMENTS
    timing = FetchClocks(now=system_clock)
    with (
        KdsClient(timing=timing, base_url=KDS_URL) as amd,
        PcsClient(timing=timing, base_url=PCS_URL) as intel,
        RimServiceClient(timing=timing, base_url=RIM_URL) as rims,
        OcspClient(timing=timing, random=secrets.token_bytes, base_url=OCSP_URL) as ocsp,
    ):
        return gather_for_evidence(
            evidence,
            at=at,
            services=VendorServices(amd=amd, intel=intel, rims=rims, ocsp=ocsp),
            cache=EndorsementCache(default_cache_directory(environ)),
            pool=pool,
        ).endorsements
