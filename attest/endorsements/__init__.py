"""Endorsements: anchors, certificates, revocation lists, and typed requests for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.endorsements.anchors import TrustAnchors, read_anchor_file
    from attest.endorsements.bundle import build_bundle, read_bundle_key
    from attest.endorsements.bundle_records import MAX_ENTRIES, BundleKeys, BundleTrust, UnsignedBundles
    from attest.endorsements.intel import IntelDocument
    from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
    from attest.endorsements.requests import EndorsementRequest, NvidiaOcspRequest

__all__ = [
    "MAX_ENTRIES",
    "NO_ENDORSEMENTS",
    "BundleKeys",
    "BundleTrust",
    "EndorsementRequest",
    "Endorsements",
    "IntelDocument",
    "NvidiaOcspRequest",
    "TrustAnchors",
    "UnsignedBundles",
    "build_bundle",
    "read_anchor_file",
    "read_bundle_key",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.endorsements.anchors": ("TrustAnchors", "read_anchor_file"),
        "attest.endorsements.bundle": ("build_bundle", "read_bundle_key"),
        "attest.endorsements.bundle_records": ("BundleKeys", "BundleTrust", "MAX_ENTRIES", "UnsignedBundles"),
        "attest.endorsements.intel": ("IntelDocument",),
        "attest.endorsements.pool": ("Endorsements", "NO_ENDORSEMENTS"),
        "attest.endorsements.requests": ("EndorsementRequest", "NvidiaOcspRequest"),
    },
)
