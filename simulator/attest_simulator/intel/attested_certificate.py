"""Certificates that carry a quote, in the forms of RA-TLS, TCG DICE and dstack.

The key is derived from a public label, like every key of the simulator, and the certificate is signed with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256, sha512
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import cbor_bytes
from attest.endorsements.anchors import intel_name
from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.intel.certificates import IntelCertificateTemplate
from attest_simulator.intel.keys import p256_key, spki_of

CertificateForm = Literal["dice", "ra-tls", "dstack"]
OIDS: Final[dict[CertificateForm, str]] = {
    "dice": "2.23.133.5.4.9",
    "ra-tls": "1.2.840.113741.1337.6",
    "dstack": "1.3.6.1.4.1.62397.1.1",
}
_QUOTE_TAG = bytes.fromhex("d9ea60")
"""CBOR tag 60000."""
_SHA256 = 1
_REPORT_DATA_BYTES = 64

Quote = Callable[[bytes], bytes]
"""Makes a quote over report data."""


def tls_key() -> ec.EllipticCurvePrivateKey:
    """Return the key of simulated TLS endpoints."""
    return p256_key("TLS endpoint")


def dice_claims(spki: bytes, *, nonce: bytes | None = None) -> bytes:
    """Return the claims of TCG DICE evidence: the key's digest, and perhaps a nonce."""
    digest = cbor_bytes((_SHA256, sha256(spki).digest()))
    return cbor_bytes({"pubkey-hash": digest} if nonce is None else {"pubkey-hash": digest, "nonce": nonce})


def evidence_extension(form: CertificateForm, quote: Quote, *, spki: bytes, nonce: bytes | None = None) -> Extension:
    """Return the extension of a form, with a quote that commits to a key."""
    if form == "dice":
        claims = dice_claims(spki, nonce=nonce)
        value = _QUOTE_TAG + cbor_bytes((quote(_padded(sha256(claims).digest())), claims))
    elif form == "ra-tls":
        value = quote(_padded(sha256(spki).digest()))
    else:
        value = der.octet_string(quote(sha512(b"ratls-cert:" + spki).digest()))
    return Extension(oid=OIDS[form], critical=False, value=value)


def attested_certificate(*extensions: Extension, key: ec.EllipticCurvePrivateKey | None = None) -> bytes:
    """Return a self-signed certificate with these extensions, DER."""
    own = key or tls_key()
    name = intel_name("RATLS", organisation="SIMULATION")
    template = IntelCertificateTemplate(
        serial=1,
        issuer=name,
        subject=name,
        not_before=datetime(2001, 1, 1, tzinfo=UTC),
        not_after=datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC),
        spki=spki_of(own),
        extensions=extensions,
    )
    return template.issue(own)


def certificate_with_quote(form: CertificateForm, quote: Quote) -> bytes:
    """Return a certificate of a form; ``quote`` makes the quote over report data."""
    return attested_certificate(evidence_extension(form, quote, spki=spki_of(tls_key())))


def _padded(digest: bytes) -> bytes:
    return digest.ljust(_REPORT_DATA_BYTES, b"\0")
