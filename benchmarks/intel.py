"""TDX verification against dcap-qvl, a verifier in Rust: same quote, same collateral, one run.

Warm: collateral and PCK chain were seen before; quote, dates, lists and anchors are checked again on each call. The
peer gets its collateral parsed as well, and has no cache. Cold: all caches are cleared before
each call, and both begin with the bytes of quote and collateral.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import dcap_qvl  # type: ignore[import-untyped]  # its stubs are not marked as such

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from benchmarks.measure import Figure, interleaved_ratio

__all__ = ["NoVectorsError", "cold", "remembering_tables", "warm"]

_REMEMBERING_PACKAGES = ("attest.evidence.", "attest.endorsements.")


class NoVectorsError(Exception):
    """The recorded quote is not at hand, and no other will do: the peer knows Intel's root only."""


class _Sample:
    """A recorded quote of version 4 with its collateral, for both sides."""

    def __init__(self) -> None:
        vectors = Path(os.environ.get("ATTEST_VECTORS", "../shared/vectors"))
        try:
            self.quote = (vectors / "tdx/v4-b0c06f000000-uptodate/quote.bin").read_bytes()
            self.collateral = (vectors / "collateral/tdx-b0c06f000000-2025-06.json").read_bytes()
        except FileNotFoundError as exc:
            raise NoVectorsError from exc
        self.at, self.anchors = datetime(2025, 6, 20, tzinfo=UTC), TrustAnchors.vendors()
        self.endorsements = self.pool()
        self.peers_text = self.collateral.decode()
        self.peers_collateral = dcap_qvl.QuoteCollateralV3.from_json(self.peers_text)
        self.peers_at = int(self.at.timestamp())

    def pool(self) -> Endorsements:
        """Read the collateral."""
        return read_endorsements([("collateral.json", self.collateral)], at=self.at).endorsements

    def verify(self, endorsements: Endorsements) -> VerifiedIntelQuote:
        """Read the quote and verify it in full."""
        return verify_intel_quote(parse_quote(self.quote), endorsements=endorsements, anchors=self.anchors, at=self.at)

    def peer(self) -> object:
        """Run the peer on parsed collateral."""
        return dcap_qvl.verify(self.quote, self.peers_collateral, self.peers_at)

    def peer_from_bytes(self) -> object:
        """Run the peer on the bytes of the collateral."""
        collateral = dcap_qvl.QuoteCollateralV3.from_json(self.peers_text)
        return dcap_qvl.verify(self.quote, collateral, self.peers_at)


def remembering_tables() -> tuple[Callable[[], None], ...]:
    """Find every table in which parsing and verification remember something; each result empties one."""
    found: dict[int, Callable[[], None]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_REMEMBERING_PACKAGES):
            tables = (value for value in vars(module).values() if hasattr(value, "cache_clear"))
            found |= {id(table): table.cache_clear for table in tables}
    return tuple(found.values())


def warm() -> Figure:
    """Measure verification with collateral and PCK chain seen before."""
    sample = _Sample()
    ratio, peer, ours = interleaved_ratio(sample.peer, lambda: sample.verify(sample.endorsements))
    detail = f"a recorded TDX quote: dcap-qvl {peer * 1e6:.0f} us, with collateral and chain seen {ours * 1e6:.0f} us"
    return Figure(id="tdx-vs-dcap-qvl-warm", value=ratio, bar=3, better="higher", detail=detail)


def cold() -> Figure:
    """Measure verification without caches: quote, chain and collateral from their bytes."""
    sample, tables = _Sample(), remembering_tables()

    def forgetful() -> None:
        for clear in tables:
            clear()
        sample.verify(sample.pool())

    ratio, peer, ours = interleaved_ratio(sample.peer_from_bytes, forgetful)
    detail = f"a recorded TDX quote: dcap-qvl {peer * 1e6:.0f} us, everything from bytes {ours * 1e6:.0f} us"
    return Figure(id="tdx-vs-dcap-qvl-cold", value=ratio, bar=0.5, better="higher", detail=detail)
