"""Endorsements from vendors' services and from the cache on disk: the one part of this library that uses a network.

Hosts are configured, never taken from evidence, a certificate or a token. What comes back is only a candidate:
verification judges it like anything else, so a service, a proxy or a cache can withhold but not forge.
"""

from __future__ import annotations

from attest.fetch.cache import EndorsementCache, default_cache_directory
from attest.fetch.fetcher import (
    EndorsementSource,
    Gathered,
    fetch_endorsements,
    fetch_for,
    gather_endorsements,
    gather_for,
)
from attest.fetch.kds import KDS_URL, KdsClient, Timing

__all__ = [
    "KDS_URL",
    "EndorsementCache",
    "EndorsementSource",
    "Gathered",
    "KdsClient",
    "Timing",
    "default_cache_directory",
    "fetch_endorsements",
    "fetch_for",
    "gather_endorsements",
    "gather_for",
]
