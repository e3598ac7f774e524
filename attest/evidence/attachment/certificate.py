"""A certificate that carries a quote: the quote, and the key that REPORTDATA commits to.

=====================================  ===================================  ==========================================
Extension                              Content                              REPORTDATA
=====================================  ===================================  ==========================================
2.23.133.5.4.9, TCG DICE               CBOR tag 60000: [quote, claims];     SHA-256(claims), then zeros; the claims
                                       claims are CBOR {"pubkey-hash":      state the digest of the
                                       CBOR [algorithm, digest], …}         SubjectPublicKeyInfo
1.2.840.113741.1337.6, RA-TLS          quote                                SHA-256(SubjectPublicKeyInfo), then zeros
1.3.6.1.4.1.62397.1.1, dstack          OCTET STRING of the quote            SHA-512("ratls-cert:" ‖
                                                                            SubjectPublicKeyInfo)
=====================================  ===================================  ==========================================

The first extension of this table counts, and the others are ignored. Only the key is bound. The rest of the certificate
is unauthenticated: anyone can make names, dates, other extensions and the signature, with that key or with another. A
TLS handshake proves that the peer holds the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cryptography.hazmat import asn1

from attest.encoding import JsonValue
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.malformed import malformed
from attest.endorsements.tagged_cbor import Tagged, TaggedKey, TaggedValue, read_tagged
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.attachment.record import AttachmentFormat, Attested, VerifiedAttachment
from attest.evidence.freshness import REPORT_DATA_BYTES
from attest.evidence.procedure import Procedure, Step, require_equal

DICE_EVIDENCE = "2.23.133.5.4.9"
RA_TLS_QUOTE = "1.2.840.113741.1337.6"
DSTACK_QUOTE = "1.3.6.1.4.1.62397.1.1"
_UNSUPPORTED = {
    "1.2.840.113556.10.1.1": "Open Enclave certificate",
    "1.2.840.113556.10.1.2": "Open Enclave certificate",
    "1.3.6.1.4.1.311.105.1": "Open Enclave certificate",
    "1.3.6.1.4.1.311.105.2": "Open Enclave certificate",
    "1.3.6.1.5.5.7.1.35": "certificate with a conceptual message wrapper",
}
"""Extensions with evidence in a form that this version does not read."""
_INTEL_QUOTE_TAG = 60000
_PUBLIC_KEY_HASH = "pubkey-hash"
_HASHES: Mapping[int, Callable[[bytes], Any]] = {  # Any: hashlib's own type of a digest has no public name
    1: hashlib.sha256,
    7: hashlib.sha384,
    8: hashlib.sha512,
}
"""Hash algorithms by their number in IANA's registry of named information."""
_DSTACK_TAG = b"ratls-cert:"
_CLAUSE = "TCG DICE Attestation Architecture 1.1, 6.1; docs/forms.md"
_KEY = Step("certificate.key", _CLAUSE)
_NO_CLAIMS: Mapping[str, JsonValue] = {}


class CarriedQuote(NamedTuple):
    """A quote in a certificate, and what its report data must be.

    Attributes:
        oid: of the extension.
        form: its name, for people.
        report_data: the 64 bytes that commit to the certificate's key.
        stated_digest: of the key, as the claims state it to which these commit, and the digest that the key has; None
            where they commit to the key itself.
        claims: other statements to which they commit.
    """

    oid: str
    form: str
    quote: bytes
    report_data: bytes
    stated_digest: tuple[bytes, bytes] | None = None
    claims: Mapping[str, JsonValue] = _NO_CLAIMS


def carries_evidence(certificate: Certificate) -> bool:
    """Return True if a certificate has an extension for evidence, of a form that is read or not."""
    return any(extension.oid in _READERS or extension.oid in _UNSUPPORTED for extension in certificate.extensions)


def carried_quote(certificate: Certificate) -> CarriedQuote:
    """Return the quote in a certificate.

    Raises:
        EvidenceError: ``certificate-evidence-malformed`` or ``cbor-invalid``.
        UnsupportedError: ``evidence-unsupported``, evidence in another form, or none.
    """
    for oid, read in _READERS.items():
        extension = certificate.extension(oid)
        if extension is not None:
            return read(certificate, extension.value)
    names = [_UNSUPPORTED[e.oid] for e in certificate.extensions if e.oid in _UNSUPPORTED]
    raise _unsupported(names[0] if names else "certificate without evidence")


def _ra_tls(certificate: Certificate, value: bytes) -> CarriedQuote:
    return CarriedQuote(RA_TLS_QUOTE, "RA-TLS", value, _padded(hashlib.sha256(certificate.spki).digest()))


def _dstack(certificate: Certificate, value: bytes) -> CarriedQuote:
    quote = _octets(value)
    return CarriedQuote(DSTACK_QUOTE, "dstack", quote, hashlib.sha512(_DSTACK_TAG + certificate.spki).digest())


def _octets(value: bytes) -> bytes:
    """Return the content of the one OCTET STRING that these bytes are."""
    try:
        content: bytes = asn1.decode_der(bytes, value)
    except ValueError as exc:
        raise _malformed("dstack quote", "one OCTET STRING", "other bytes") from exc
    return content


def _dice(certificate: Certificate, value: bytes) -> CarriedQuote:
    content = read_tagged(value, what="TCG DICE evidence")
    if not isinstance(content, Tagged) or content.tag != _INTEL_QUOTE_TAG:
        tag = f"tag {content.tag}" if isinstance(content, Tagged) else "no tag"
        raise _unsupported(f"certificate with TCG DICE evidence of another kind ({tag})")
    match content.value:
        case (bytes(quote), bytes(claims)):
            stated = _claims(claims)
        case _:
            raise _malformed("TCG DICE evidence", "[quote, claims], two byte strings", "another value")
    digests = _key_digests(certificate, stated.pop(_PUBLIC_KEY_HASH, None))
    shown = {str(name): _shown(entry) for name, entry in stated.items()}
    return CarriedQuote(DICE_EVIDENCE, "TCG DICE", quote, _padded(hashlib.sha256(claims).digest()), digests, shown)


def _claims(data: bytes) -> dict[TaggedKey, TaggedValue]:
    claims = read_tagged(data, what="claims of the TCG DICE evidence")
    if not isinstance(claims, Mapping):
        raise _malformed("claims", "a map", "another value")
    return dict(claims)


def _key_digests(certificate: Certificate, stated: TaggedValue) -> tuple[bytes, bytes]:
    """Return the digest that the claims state, and the one that the certificate's key has."""
    entry = read_tagged(stated, what=_PUBLIC_KEY_HASH) if isinstance(stated, bytes) else stated
    match entry:
        case (int(algorithm), bytes(digest)) if algorithm in _HASHES and not isinstance(algorithm, bool):
            return digest, _HASHES[algorithm](certificate.spki).digest()
        case _:
            pass
    known = ", ".join(map(str, _HASHES))
    raise _malformed(f"claims.{_PUBLIC_KEY_HASH}", f"[algorithm, digest], an algorithm of {known}", "another value")


def _shown(value: TaggedValue) -> JsonValue:
    match value:
        case bytes():
            return value.hex()
        case str():
            return value
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            return "another value"


def _padded(digest: bytes) -> bytes:
    return digest.ljust(REPORT_DATA_BYTES, b"\0")


_READERS: Mapping[str, Callable[[Certificate, bytes], CarriedQuote]] = {
    DICE_EVIDENCE: _dice,
    RA_TLS_QUOTE: _ra_tls,
    DSTACK_QUOTE: _dstack,
}


def verify_certificate(certificate: Certificate, attested: Attested, _anchors: TrustAnchors) -> VerifiedAttachment:
    """Require that the report data of a quote commits to the certificate's key.

    Raises:
        BindingError: ``certificate-key-mismatch``.
        EvidenceError: as ``carried_quote``.
    """
    procedure = Procedure((_KEY,))
    with procedure.step(_KEY):
        carried = carried_quote(certificate)
        if carried.stated_digest is not None:
            stated, found = carried.stated_digest
            problem = "the evidence in the certificate names another public key than the certificate has"
            require_equal(stated, found, problem, code="certificate-key-mismatch", field=_PUBLIC_KEY_HASH)
        problem = "the quote's report data does not commit to the certificate's public key"
        wanted = carried.report_data
        require_equal(wanted, attested.report_data, problem, code="certificate-key-mismatch", field="REPORT_DATA")
        procedure.record(("a commitment to the key in the form of {}", carried.form), wanted)
    facts: dict[str, JsonValue] = {"form": carried.form, "spki_sha256": certificate.spki_sha256.hex()}
    if carried.claims:
        facts["claims"] = dict(carried.claims)
    return VerifiedAttachment(claims=facts, findings=procedure.finish())


ATTESTED_CERTIFICATE = AttachmentFormat(name="certificate", parse=parse_certificate, verify=verify_certificate)


def _malformed(field: str, expected: str, got: str) -> EvidenceError:
    return malformed(field, expected, got, code="certificate-evidence-malformed", clause=_CLAUSE)


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}, which this version does not verify",
        code="evidence-unsupported",
        expected="a quote in the form of TCG DICE, RA-TLS or dstack",
        got=what,
        clause=_CLAUSE,
    )
