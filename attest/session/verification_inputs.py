"""User-given inputs of verification: anchors and endorsements in files, and vendors for missing ones."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from attest.clock import system_clock
from attest.endorsements.anchors import TrustAnchors, read_anchor_file
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import Evidence
from attest.fetch import EndorsementCache, FetchClocks, can_be_fetched, default_cache_directory, gather_for_evidence
from attest.fetch.devices import vendor_services
from attest.named_files import read_named

MAX_ANCHOR_BYTES: Final = 1024 * 1024


def anchors_given(file: Path | None, *, allow_simulated: bool) -> TrustAnchors:
    """Return the vendors' anchors, as modified by a file, with the simulator's if those are allowed.

    Raises:
        ConfigurationError: ``file-unreadable``, or as ``read_anchor_file``.
    """
    anchors = TrustAnchors.vendors()
    if file is not None:
        anchors = read_anchor_file(read_named(file, "anchors", limit=MAX_ANCHOR_BYTES), base=anchors)
    return anchors.with_anchors(TrustAnchors.simulation().anchors) if allow_simulated else anchors


def endorsements_given(paths: tuple[Path, ...], *, at: datetime) -> Endorsements:
    """Return endorsements from files and from all files below directories.

    Raises:
        ConfigurationError: ``file-unreadable``.
        AttestError: as ``read_endorsements``.
    """
    files = ((str(file), read_named(file, "endorsements", limit=MAX_BUNDLE_BYTES)) for file in _files(paths))
    return read_endorsements(files, at=at).endorsements


def asking_vendors(pool: Endorsements) -> Callable[[Evidence, datetime], Endorsements]:
    """Return the function that fetches endorsements missing in a pool, from cache and vendors.

    It raises ConfigurationError for a cache that cannot be used, EvidenceError for a malformed item, and ChainError for
    names in a quote's PCK certificate that are not Intel's.
    """
    return partial(_fetched, pool)


def _fetched(pool: Endorsements, evidence: Evidence, at: datetime) -> Endorsements:
    if not can_be_fetched(evidence):
        return NO_ENDORSEMENTS
    with vendor_services(FetchClocks(now=system_clock), random=secrets.token_bytes) as services:
        cache = EndorsementCache(default_cache_directory(os.environ))
        return gather_for_evidence(evidence, at=at, services=services, cache=cache, pool=pool).endorsements


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.rglob("*") if one.is_file())
        else:
            yield path
