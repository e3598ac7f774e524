"""Endorsements from vendors' services and from the cache on disk: the only part of this library with network access.

Hosts are configured, never taken from evidence, a certificate or a token. Answers are only candidates for
verification, so a service, a proxy or a cache can withhold but not forge.
"""

from __future__ import annotations

from attest.fetch.answers import CheckedAnswer, describe
from attest.fetch.cache import EndorsementCache, default_cache_directory
from attest.fetch.client import FetchClocks, Progress
from attest.fetch.devices import VendorServices, can_be_fetched, gather_for_evidence, gather_for_quote
from attest.fetch.fetch_session import EndorsementSource, FetchOptions, Gathered
from attest.fetch.fetcher import gather_endorsements, gather_for, refresh_endorsement
from attest.fetch.gpus import gather_for_gpus
from attest.fetch.kds import KDS_URL, KdsClient
from attest.fetch.ocsp import OCSP_URL, OcspClient
from attest.fetch.pcs import PCS_URL, PcsClient, PcsUpdate
from attest.fetch.rims import RIM_URL, RimServiceClient
from attest.fetch.service import MAX_SERVICE_KEY_BYTES, ApiKey, read_service_key

__all__ = [
    "KDS_URL",
    "MAX_SERVICE_KEY_BYTES",
    "OCSP_URL",
    "PCS_URL",
    "RIM_URL",
    "ApiKey",
    "CheckedAnswer",
    "EndorsementCache",
    "EndorsementSource",
    "FetchClocks",
    "FetchOptions",
    "Gathered",
    "KdsClient",
    "OcspClient",
    "PcsClient",
    "PcsUpdate",
    "Progress",
    "RimServiceClient",
    "VendorServices",
    "can_be_fetched",
    "default_cache_directory",
    "describe",
    "gather_endorsements",
    "gather_for",
    "gather_for_evidence",
    "gather_for_gpus",
    "gather_for_quote",
    "read_service_key",
    "refresh_endorsement",
]
