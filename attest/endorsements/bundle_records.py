"""What an endorsement bundle is made of, its limits, and how one that is malformed is refused."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.encoding import CborValue, cbor_bytes
from attest.endorsements.pool import Endorsements
from attest.errors import EndorsementError

__all__ = [
    "BUNDLE_FORMAT",
    "FETCH_AGAIN",
    "MAX_BUNDLE_BYTES",
    "MAX_CHAIN_CERTIFICATES",
    "MAX_ENTRIES",
    "MAX_SIGNATURES",
    "MAX_SOURCE_CHARACTERS",
    "BundleEntry",
    "BundleKeys",
    "BundleSignature",
    "BundleSigner",
    "BundleTrust",
    "EntryKind",
    "ParsedBundle",
    "UnsignedBundles",
    "VerifiedBundle",
    "malformed",
]

BUNDLE_FORMAT = "attest.endorsements/1"
MAX_BUNDLE_BYTES = 16 * 1024 * 1024
"""A VCEK has 1.4 KiB and a chain 5 KiB: room for some 8,000 chips."""
MAX_ENTRIES = 8192
MAX_SIGNATURES = 16
MAX_SOURCE_CHARACTERS = 2048
MAX_CHAIN_CERTIFICATES = 8

EntryKind = Literal[
    "amd-vcek",
    "amd-chain",
    "amd-crl",
    "intel-tcb-info",
    "intel-qe-identity",
    "intel-crl",
    "nvidia-rim",
    "nvidia-ocsp",
]
"""What an entry holds: one DER certificate, PEM certificates, one DER revocation list; an answer of Intel's with its
issuer chain (``intel_answers.py``); an answer of NVIDIA's RIM service; or one OCSP answer."""

FETCH_AGAIN = "make a new one with 'attest endorsements fetch'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntry:
    """One answer of a vendor, as received.

    Attributes:
        kind: what ``data`` holds.
        source: where it came from, for people; nothing is ever fetched from here.
        data: DER for ``amd-vcek``, ``amd-crl`` and ``nvidia-ocsp``, PEM for ``amd-chain``, CBOR of body and issuer
            chain for Intel's, JSON for ``nvidia-rim``.
    """

    kind: EntryKind
    source: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSignature:
    """One signature beside a bundle, not verified.

    Attributes:
        key_id: SHA-256 of the signer's SubjectPublicKeyInfo, 32 bytes.
        signature: 64 bytes, Ed25519.
    """

    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBundle:
    """A readable bundle: a stranger's word until ``verify_bundle`` has judged its signature and its dates.

    Attributes:
        created: when it was put together, UTC.
        expires: end of its use, UTC, excluded.
        entries: the vendors' answers.
        signatures: in the order of their key ids, no key twice; empty for an unsigned bundle.
        inner: the bundle without its signatures, as received: what is signed.
        endorsements: what all entries hold.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    signatures: tuple[BundleSignature, ...]
    inner: bytes
    endorsements: Endorsements = field(compare=False, repr=False)

    def to_bytes(self) -> bytes:
        """Encode again; equal to what ``parse_bundle`` accepted."""
        if not self.signatures:
            return self.inner
        signatures: list[CborValue] = [
            {"algorithm": "Ed25519", "key_id": made.key_id, "signature": made.signature} for made in self.signatures
        ]
        return cbor_bytes({"bundle": self.inner, "signatures": signatures})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBundle:
    """A bundle whose dates and, where demanded, signature hold. Built by ``verify_bundle`` only.

    Its certificates and lists are still only candidates: verification of evidence judges each of them.

    Attributes:
        signed_by: ids of the trusted keys whose signatures verified; empty when no signature was demanded.
        at: the moment for which this holds.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    endorsements: Endorsements = field(compare=False, repr=False)
    signed_by: tuple[bytes, ...]
    at: datetime


class UnsignedBundles(enum.Enum):
    """The decision that no signature is demanded of a bundle: the vendors' signatures and the dates suffice."""

    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleKeys:
    """Who may sign bundles: one good signature of any of these is enough. The empty set accepts nobody."""

    keys: tuple[Ed25519PublicKey, ...]


BundleTrust: TypeAlias = BundleKeys | Literal[UnsignedBundles.ACCEPTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSigner:
    """A signing key that lives elsewhere: a token, a service, a person with a key ceremony.

    Attributes:
        public_key: the key that others will list.
        sign: takes the message, returns 64 bytes.
    """

    public_key: Ed25519PublicKey
    sign: Callable[[bytes], bytes]


def malformed(path: str, expected: str, got: str) -> EndorsementError:
    """Make the refusal of a bundle that is not what it should be at this path."""
    return EndorsementError(
        f"endorsement bundle: {path}: expected {expected}, got {got}",
        code="bundle-malformed",
        field=path,
        expected=expected,
        got=got,
        hint=FETCH_AGAIN,
    )
