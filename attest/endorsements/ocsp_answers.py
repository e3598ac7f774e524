"""Parser for OCSP answers about one certificate (RFC 6960); ``ocsp.py`` has the checks.

Spec: specs/nvidia-gpu.md, section 8.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import SignatureAlgorithmOID

from attest.endorsements.asn1 import tlv
from attest.endorsements.x509 import Certificate, Issuer, parse_certificate
from attest.errors import ChainError, EvidenceError

MAX_OCSP_BYTES = 16 * 1024
"""An answer has a certificate or two and some hundred bytes of its own."""
MAX_CERTIFICATES = 4
"""Maximum of certificates in one answer: the responder's, and perhaps its issuers. Each takes one or two checks."""
MAX_AGE = timedelta(hours=24)
"""Life of an answer without nextUpdate. RFC 6960, section 4.2.2.1, only states that such a responder always has
newer ones. A day suits a working day's cache or bundle, and equals NVIDIA's longest delay of a revocation."""

_REMEMBERED = 256
"""Answers of at most 16 KiB; eight GPUs with their RIMs need some fifty."""
_HOLD = x509.ReasonFlags.certificate_hold.value
_BASIC_RESPONSE = bytes.fromhex("06092b0601050507300101")
_ALGORITHMS: Mapping[x509.ObjectIdentifier, bytes] = {
    SignatureAlgorithmOID.ECDSA_WITH_SHA256: bytes.fromhex("300a06082a8648ce3d040302"),
    SignatureAlgorithmOID.ECDSA_WITH_SHA384: bytes.fromhex("300a06082a8648ce3d040303"),
}
_HASHES = frozenset({"sha1", "sha256", "sha384"})
"""Digests of issuers in answers. SHA-1 protects nothing here: the signature is checked with the issuer's own key."""
_UNREADABLE = (
    ValueError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
_REFUSAL_HEAD = bytes.fromhex("30030a01")
_REFUSALS: Mapping[int, str] = {
    1: "malformedRequest",
    2: "internalError",
    3: "tryLater",
    5: "sigRequired",
    6: "unauthorized",
}


class OcspStatus(enum.StrEnum):
    """Status of the certificate in an answer."""

    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OcspAnswer:
    """One answer about one certificate as presented, untrusted until its signature is verified.

    Attributes:
        der: the OCSPResponse as received.
        tbs: its signed part as received.
        algorithm: DER AlgorithmIdentifier of the signature.
        signature: content of the BIT STRING.
        certificates: those inside, one of them possibly the responder's.
        hash_algorithm: of the two digests below (``sha1``, ``sha256``, ``sha384``).
        issuer_name_hash: digest of the issuer's DER Name.
        issuer_key_hash: digest of the issuer's public key, the content of its BIT STRING.
        serial: number of the certificate.
        revocation_reason: in RFC 5280's terms (``certificateHold``), if revoked and stated.
        revocation_time: start of a revocation.
        this_update: start of its currency, included.
        next_update: end of its currency, excluded; None if not stated.
        nonce: the request's nonce, if the answer has one.
    """

    der: bytes
    tbs: bytes = field(repr=False)
    algorithm: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    certificates: tuple[Certificate, ...] = field(repr=False)
    hash_algorithm: str
    issuer_name_hash: bytes
    issuer_key_hash: bytes
    serial: int
    status: OcspStatus
    revocation_reason: str | None
    revocation_time: datetime | None
    this_update: datetime
    next_update: datetime | None
    nonce: bytes | None

    @property
    def ends(self) -> datetime:
        """End of its currency, excluded: nextUpdate, or ``MAX_AGE`` after thisUpdate."""
        return self.this_update + MAX_AGE if self.next_update is None else self.next_update

    @property
    def is_on_hold(self) -> bool:
        """True if the issuer suspended the certificate and may still release it."""
        return self.status is OcspStatus.REVOKED and self.revocation_reason == _HOLD

    def is_current(self, at: datetime) -> bool:
        """Return True if ``this_update <= at < ends``."""
        return self.this_update <= at < self.ends

    def concerns(self, serial: int, issuer: Issuer) -> bool:
        """Return True if all three fields of the answer's CertID match this certificate of this issuer.

        Raises:
            ChainError: ``public-key-invalid``, the issuer's.
        """
        named = (self.issuer_name_hash, self.issuer_key_hash)
        return self.serial == serial and named == cert_id(issuer, self.hash_algorithm)


# -- reading


@asn1.sequence
class _SubjectPublicKeyInfo:
    """SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7)."""

    algorithm: asn1.TLV
    key: asn1.BitString


@lru_cache(maxsize=_REMEMBERED)
def cert_id(issuer: Issuer, hash_algorithm: str) -> tuple[bytes, bytes]:
    """Return OCSP's identification of an issuer: digests of its DER Name and of its key's BIT STRING content.

    The hash algorithm is ``sha1``, ``sha256`` or ``sha384``.

    Raises:
        ChainError: ``public-key-invalid``.
    """
    try:
        key = asn1.decode_der(_SubjectPublicKeyInfo, issuer.spki).key.as_bytes()
    except ValueError as exc:
        raise ChainError(f"the public key of {issuer.name} cannot be read: {exc}", code="public-key-invalid") from exc
    return _digest(hash_algorithm, issuer.subject), _digest(hash_algorithm, key)


def _digest(algorithm: str, data: bytes) -> bytes:
    return hashlib.new(algorithm, data, usedforsecurity=False).digest()


def looks_like_ocsp(data: bytes) -> bool:
    """Return True if this begins as an OCSPResponse does: a SEQUENCE that starts with a one-byte ENUMERATED."""
    head = 2 + (data[1] - 0x80 if len(data) > 1 and data[1] > 0x80 else 0)
    return data[:1] == b"\x30" and data[head : head + 2] == b"\x0a\x01"


def refusal_of(der: bytes) -> str | None:
    """Return a responder's refusal in RFC 6960's terms (``tryLater``); None for anything else."""
    if len(der) != len(_REFUSAL_HEAD) + 1 or not der.startswith(_REFUSAL_HEAD):
        return None
    return _REFUSALS.get(der[-1])


@lru_cache(maxsize=_REMEMBERED)
def parse_ocsp(der: bytes) -> OcspAnswer:
    """Parse one answer, at most ``MAX_OCSP_BYTES``: a basic response about exactly one certificate.

    Accepted input encodes to the same bytes again.

    Raises:
        EvidenceError: ``ocsp-malformed``, among others a responder's refusal (``unauthorized``, ``tryLater``), an
            answer about several certificates, or a critical extension that is not the nonce (RFC 6960, section 4.2.1).
    """
    if len(der) > MAX_OCSP_BYTES:
        raise _malformed(f"{len(der)} bytes, more than {MAX_OCSP_BYTES}")
    refusal = refusal_of(der)
    if refusal is not None:
        raise _malformed(f"the responder refused: {refusal}")
    try:
        return _read(der, ocsp.load_der_ocsp_response(der))
    except EvidenceError as exc:
        raise _malformed(exc.message) from exc
    except _UNREADABLE as exc:
        raise _malformed(exc) from exc


def _malformed(problem: object) -> EvidenceError:
    return EvidenceError(
        f"ocsp answer cannot be read: {problem}", code="ocsp-malformed", field="ocsp", clause="RFC 6960, section 4.2.1"
    )


def _read(der: bytes, response: ocsp.OCSPResponse) -> OcspAnswer:
    if response.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
        raise ValueError(f"status {response.response_status.name}")
    if (count := len(tuple(response.responses))) != 1:
        raise ValueError(f"it is about {count} certificates, expected one")
    algorithm = _ALGORITHMS.get(response.signature_algorithm_oid, b"")
    certificates = _certificates(response)
    _require_same_again(der, response, algorithm, certificates)
    if response.hash_algorithm.name not in _HASHES:
        raise ValueError(f"certificate named with {response.hash_algorithm.name}")
    reason = response.revocation_reason
    return OcspAnswer(
        der=der,
        tbs=response.tbs_response_bytes,
        algorithm=algorithm,
        signature=response.signature,
        certificates=certificates,
        hash_algorithm=response.hash_algorithm.name,
        issuer_name_hash=response.issuer_name_hash,
        issuer_key_hash=response.issuer_key_hash,
        serial=response.serial_number,
        status=OcspStatus[response.certificate_status.name],
        revocation_reason=None if reason is None else reason.value,
        revocation_time=response.revocation_time_utc,
        this_update=response.this_update_utc,
        next_update=response.next_update_utc,
        nonce=_nonce(response),
    )


def _certificates(response: ocsp.OCSPResponse) -> tuple[Certificate, ...]:
    inside = response.certificates
    if len(inside) > MAX_CERTIFICATES:
        raise ValueError(f"{len(inside)} certificates, more than {MAX_CERTIFICATES}")
    return tuple(parse_certificate(certificate.public_bytes(Encoding.DER)) for certificate in inside)


def _require_same_again(
    der: bytes, response: ocsp.OCSPResponse, algorithm: bytes, certificates: tuple[Certificate, ...]
) -> None:
    """Require that the parsed answer encodes to the received bytes, so that nothing was skipped."""
    inside = (tlv(0xA0, tlv(0x30, *(certificate.der for certificate in certificates))),) if certificates else ()
    basic = tlv(0x30, response.tbs_response_bytes, algorithm, tlv(0x03, b"\0", response.signature), *inside)
    again = tlv(0x30, b"\x0a\x01\x00", tlv(0xA0, tlv(0x30, _BASIC_RESPONSE, tlv(0x04, basic))))
    if again != der:
        raise ValueError("not a plain basic response signed with ECDSA and SHA-256 or SHA-384")


def _nonce(response: ocsp.OCSPResponse) -> bytes | None:
    """Return the nonce of an answer, and refuse other critical extensions."""
    nonce: bytes | None = None
    for extension in (*response.extensions, *response.single_extensions):
        if isinstance(extension.value, x509.OCSPNonce):
            nonce = extension.value.nonce
        elif extension.critical:
            raise ValueError(f"critical extension {extension.oid.dotted_string} is not understood")
    return nonce
