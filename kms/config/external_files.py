"""Resources outside the database: anchors, endorsement files, the vendors' services, witnesses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from attest import Endorsements, TrustAnchors, read_endorsements
from attest.clock import Clock
from attest.endorsements import (
    MAX_ENTRIES,
    NO_ENDORSEMENTS,
    BundleKeys,
    BundleTrust,
    UnsignedBundles,
    build_bundle,
    read_anchor_file,
    read_bundle_key,
)
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import (
    EndorsementCache,
    FetchClocks,
    KdsClient,
    OcspClient,
    PcsClient,
    RimServiceClient,
    VendorServices,
)
from attest.named_files import read_named
from kms.config.settings import Settings
from kms.domain.kek import RandomBytes
from kms.log.witness_client import ASK_SECONDS, Witness, WitnessPanel, poster, read_witnesses
from kms.release.endorsement_provider import EndorsementProvider, FetchService
from kms.release.vendor_cache import NotedCache, SharedSource

_PATIENCE_SECONDS: Final = 2.0


def open_endorsements(
    settings: Settings, *, clock: Clock, random: RandomBytes, report: Callable[[str], None]
) -> EndorsementProvider:
    """Read the endorsement files, and create the clients of the vendors' services without sending a request.

    Raises:
        ConfigurationError: ``endorsements-unreadable``, ``bundle-key-invalid``, ``file-unreadable``,
            ``endorsement-cache-unusable``, or an unusable address.
    """
    provider = EndorsementProvider(
        settings.endorsements,
        bundle_trust=_bundle_trust(settings),
        service=_fetch_service(settings, clock, random),
        report=report,
    )
    provider.reload(at=clock())
    return provider


def read_anchors(settings: Settings) -> TrustAnchors:
    """Return the accepted roots.

    Raises:
        ConfigurationError: ``anchor-file-invalid``, ``anchor-unknown`` or ``file-unreadable``.
    """
    anchors = TrustAnchors.vendors()
    if settings.anchors_file is not None:
        anchors = read_anchor_file(read_named(settings.anchors_file, "anchors_file"), base=anchors)
    return anchors.with_anchors(TrustAnchors.simulation().anchors) if settings.allow_simulated else anchors


def read_panel(settings: Settings) -> tuple[Witness, ...]:
    """Return the witnesses in the file of the settings; none without a file.

    Raises:
        ConfigurationError: ``witnesses-invalid``, ``verifier-key-invalid`` or ``file-unreadable``.
    """
    if settings.witnesses_file is None:
        return ()
    return read_witnesses(read_named(settings.witnesses_file, "witnesses_file"))


def open_panel(settings: Settings, *, clock: Clock, report: Callable[[str], None]) -> WitnessPanel | None:
    """Return the client of the witnesses; None without witnesses.

    Raises:
        ConfigurationError: as ``read_panel``.
    """
    witnesses = read_panel(settings)
    if not witnesses:
        return None
    import httpx  # noqa: PLC0415  slow to load, and few commands send anything

    return WitnessPanel(witnesses, clock=clock, report=report, post=poster(httpx.Client(timeout=ASK_SECONDS)))


def _bundle_trust(settings: Settings) -> BundleTrust:
    """Return the policy for bundles: in production, a signature by a named key is required."""
    if not settings.bundle_keys and not settings.is_production:
        return UnsignedBundles.ACCEPTED
    return BundleKeys(keys=tuple(read_bundle_key(read_named(path, "bundle_keys")) for path in settings.bundle_keys))


def _fetch_service(settings: Settings, clock: Clock, random: RandomBytes) -> FetchService | None:
    if not settings.fetch:
        return None
    if settings.cache_directory is not None:
        require_usable_cache(settings.cache_directory)
    cache = NotedCache(settings.cache_directory, clock=clock)
    amd, intel, rims, ocsp = (
        FetchClocks(now=clock, sleep=partial(_wait_briefly, f"{service}-throttled"))
        for service in ("kds", "pcs", "rim", "ocsp")
    )
    vendors = VendorServices(
        amd=SharedSource(KdsClient(timing=amd)),
        intel=SharedSource(PcsClient(timing=intel, base_url=settings.pcs_url)),
        rims=SharedSource(RimServiceClient(timing=rims, base_url=settings.rim_url)),
        ocsp=SharedSource(OcspClient(timing=ocsp, random=random, base_url=settings.ocsp_url)),
    )
    return FetchService(vendors=vendors, cache=cache)


def require_usable_cache(directory: Path) -> None:
    """Refuse an unusable cache directory; a missing one is created with the first response.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable``.
    """
    there = next(one for one in (directory, *directory.absolute().parents) if one.exists())
    if not there.is_dir():
        problem = f"{there} is not a directory"
    elif not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        problem = f"the service's user cannot write to {there}"
    else:
        return
    raise ConfigurationError(
        f"cache_directory: {directory} cannot be used: {problem}",
        code="endorsement-cache-unusable",
        field="cache_directory",
        got=problem,
        hint="name a directory of the user that runs the service, or remove the setting to use memory instead",
    )


def _wait_briefly(code: str, seconds: float) -> None:
    """Wait for a limited time; a longer wait is refused as retryable."""
    if seconds > _PATIENCE_SECONDS:
        raise EndorsementError(f"the vendor's service requires a wait of {seconds:.0f} s", code=code, retryable=True)
    time.sleep(seconds)


def read_cached(settings: Settings, *, at: datetime) -> Endorsements:
    """Return the content of the cache directory, for any machine; nothing without a directory.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable``.
    """
    if settings.cache_directory is None:
        return NO_ENDORSEMENTS
    kept = tuple(EndorsementCache(settings.cache_directory).entries())[:MAX_ENTRIES]
    if not kept:
        return NO_ENDORSEMENTS
    bundle = build_bundle(kept, created=at, expires=at + timedelta(days=1))  # a bundle can hold all kinds
    return read_endorsements([("cache", bundle.to_bytes())], at=at).endorsements
