"""The chain of proof of verified evidence: who vouches for whom, from the maker's root key to the evidence."""

from __future__ import annotations

from typing import NamedTuple

from attest.endorsements.anchors import Anchor
from attest.endorsements.x509 import Certificate

_SHOWN_BYTES = 8


class ProofLink(NamedTuple):
    """One link, which the link before it signed.

    Attributes:
        name: of a key, a certificate or a piece of evidence (``SEV-Milan``).
        detail: what it is, for people.
    """

    name: str
    detail: str


def root_link(anchor: Anchor) -> ProofLink:
    """Return the pinned root with which a chain begins."""
    whose = "the simulator's root" if anchor.simulated else "root key of the maker, pinned"
    return ProofLink(anchor.name, f"{whose}, SHA-256 {anchor.spki_sha256.hex()}")


def issuer_link(certificate: Certificate) -> ProofLink:
    """Return a certificate between the root and the key of a machine."""
    return ProofLink(certificate.name, "intermediate certificate")


def shown(value: bytes) -> str:
    """Return the beginning of a long identity in hex."""
    return f"{value[:_SHOWN_BYTES].hex()}…"
