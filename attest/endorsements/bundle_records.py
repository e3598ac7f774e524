"""Parts of an endorsement bundle, its limits, and the error for malformed ones."""

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
"""Forms of entries: one DER certificate, PEM certificates, one DER revocation list; an answer of Intel's with its
issuer chain (``intel_answers.py``); an answer of NVIDIA's RIM service; or one OCSP answer."""

FETCH_AGAIN = "make a new one with 'attest endorsements fetch'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntry:
    """One answer of a vendor, as received.

    Attributes:
        kind: form of ``data``.
        source: its origin, for people; never used for fetching.
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
    """A parsed bundle, untrusted until ``verify_bundle``.

    Attributes:
        created: moment of creation, UTC.
        expires: end of its use, UTC, excluded.
        signatures: in the order of their key ids, without repetition; empty for an unsigned bundle.
        inner: the signed part, as received.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    signatures: tuple[BundleSignature, ...]
    inner: bytes
    endorsements: Endorsements = field(compare=False, repr=False)

    def to_bytes(self) -> bytes:
        """Encode again; equal to the input of ``parse_bundle``."""
        if not self.signatures:
            return self.inner
        signatures: list[CborValue] = [
            {"algorithm": "Ed25519", "key_id": made.key_id, "signature": made.signature} for made in self.signatures
        ]
        return cbor_bytes({"bundle": self.inner, "signatures": signatures})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBundle:
    """A bundle with valid dates and, if required, a valid signature. Built by ``verify_bundle`` only.

    Its certificates and lists are still candidates: verification of evidence checks each of them.

    Attributes:
        signed_by: ids of the trusted keys with valid signatures; empty without a required signature.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    endorsements: Endorsements = field(compare=False, repr=False)
    signed_by: tuple[bytes, ...]
    at: datetime


class UnsignedBundles(enum.Enum):
    """Acceptance of unsigned bundles: the vendors' signatures and the dates suffice."""

    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleKeys:
    """Accepted signers of bundles: one valid signature suffices. The empty set accepts nothing."""

    keys: tuple[Ed25519PublicKey, ...]


BundleTrust: TypeAlias = BundleKeys | Literal[UnsignedBundles.ACCEPTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSigner:
    """An external signing key: a token, a service, or a key ceremony.

    Attributes:
        sign: takes the message, returns 64 bytes.
    """

    public_key: Ed25519PublicKey
    sign: Callable[[bytes], bytes]


def malformed(path: str, expected: str, got: str) -> EndorsementError:
    """Return the error for a malformed bundle, with the path of the defect."""
    return EndorsementError(
        f"endorsement bundle: {path}: expected {expected}, got {got}",
        code="bundle-malformed",
        field=path,
        expected=expected,
        got=got,
        hint=FETCH_AGAIN,
    )
