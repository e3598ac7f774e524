"""The OCSP responder of the software NVIDIA: answers about every certificate of the simulated chains.

A delegated responder of the issuing CA signs the answers, which include its certificate. The same
request gives the same bytes.

Spec: RFC 6960, sections 4.1, 4.2 and 4.4; RFC 8954; specs/nvidia-gpu.md, section 8.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha1, sha256, sha384
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import OCSPNonce, ocsp
from cryptography.x509.extensions import ExtensionNotFound

from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.nvidia.authorities import Authority, issuing_authorities
from attest_simulator.nvidia.certificates import (
    COMMON_NAME,
    ECDSA_SHA384,
    ORGANISATION,
    SIMULATED_NVIDIA,
    NvidiaCertificateTemplate,
    authority_key_id,
    generalized_time,
    key_usage,
    name,
    subject_key_id,
)
from attest_simulator.nvidia.keys import derived_bytes, key_id, p384_key, public_point, sign_der, spki_of
from attest_simulator.nvidia.products import PRODUCTS
from attest_simulator.nvidia.rims import rim_signer_template, signed_in

_BASIC = der.object_identifier("1.3.6.1.5.5.7.48.1.1")
_NONCE = "1.3.6.1.5.5.7.48.1.2"
_NO_CHECK = "1.3.6.1.5.5.7.48.1.5"
_OCSP_SIGNING = der.object_identifier("1.3.6.1.5.5.7.3.9")
_SIGNS_DATA = der.bit_string(b"\x80", unused_bits=7)
_SERIAL_BYTES = 16
_MALFORMED, _UNAUTHORISED = 1, 6
DAYS: Final = 7
"""Default currency of an answer."""

_Digest = Callable[[bytes], bytes]
_DIGESTS: Mapping[str, tuple[str, _Digest]] = {
    "sha1": ("1.3.14.3.2.26", lambda data: sha1(data, usedforsecurity=False).digest()),
    "sha256": ("2.16.840.1.101.3.4.2.1", lambda data: sha256(data).digest()),
    "sha384": ("2.16.840.1.101.3.4.2.2", lambda data: sha384(data).digest()),
}


class Reason(enum.IntEnum):
    """Reasons of revocation; numbers of RFC 5280, section 5.3.1."""

    KEY_COMPROMISE = 1
    SUPERSEDED = 4
    CESSATION = 5
    HOLD = 6


# -- the responder


def responder_key(authority: Authority) -> ec.EllipticCurvePrivateKey:
    """Return the key that signs answers about an authority's certificates; not secret."""
    return p384_key("OCSP responder", authority.common_name)


def responder_template(authority: Authority) -> NvidiaCertificateTemplate:
    """Return the unsigned certificate of the responder."""
    key = responder_key(authority)
    serial = derived_bytes(_SERIAL_BYTES, "OCSP responder serial", authority.common_name)
    return NvidiaCertificateTemplate(
        serial=int.from_bytes(serial, "big") >> 1,
        issuer=authority.subject,
        subject=name((COMMON_NAME, f"{authority.common_name} OCSP"), (ORGANISATION, SIMULATED_NVIDIA)),
        not_before=authority.template.not_before,
        not_after=authority.template.not_after,
        spki=spki_of(key),
        extensions=(
            key_usage(_SIGNS_DATA),
            Extension(oid="2.5.29.37", critical=False, value=der.sequence(_OCSP_SIGNING)),
            Extension(oid=_NO_CHECK, critical=False, value=der.NULL),
            subject_key_id(key),
            authority_key_id(authority.key),
        ),
    )


# -- one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class OcspTemplate:
    """An answer without its signature; ``dataclasses.replace`` makes invalid ones.

    Attributes:
        issuer: of the certificate.
        serial: of the certificate.
        status: ``good``, ``unknown``, or the reason of revocation.
        this_update: start of its currency; also the moment of production and of any
            revocation.
        next_update: end of its currency; None omits it.
        nonce: of the request; None omits it.
        digest: of the CertID: ``sha1``, ``sha256`` or ``sha384``.
        key: for the signature.
        responder: DER of the included certificates, the responder's first.
    """

    issuer: Authority
    serial: int
    status: str | Reason
    this_update: datetime
    next_update: datetime | None
    nonce: bytes | None
    digest: str
    key: ec.EllipticCurvePrivateKey
    responder: tuple[bytes, ...]

    def to_be_signed(self) -> bytes:
        """Return the DER of ``ResponseData``."""
        until = () if self.next_update is None else (der.context(0, generalized_time(self.next_update)),)
        single = der.sequence(self._cert_id(), self._status(), generalized_time(self.this_update), *until)
        nonce = () if self.nonce is None else (der.context(1, der.sequence(_nonce_extension(self.nonce))),)
        return der.sequence(
            der.context(2, der.octet_string(key_id(self.key))),
            generalized_time(self.this_update),
            der.sequence(single),
            *nonce,
        )

    def issue(self) -> bytes:
        """Return the DER of the signed OCSPResponse."""
        signed = self.to_be_signed()
        certificates = (der.context(0, der.sequence(*self.responder)),) if self.responder else ()
        basic = der.sequence(signed, ECDSA_SHA384, der.bit_string(sign_der(self.key, signed)), *certificates)
        return der.sequence(_enumerated(0), der.context(0, der.sequence(_BASIC, der.octet_string(basic))))

    def _cert_id(self) -> bytes:
        oid, digest = _DIGESTS[self.digest]
        return der.sequence(
            der.sequence(der.object_identifier(oid), der.NULL),
            der.octet_string(digest(self.issuer.subject)),
            der.octet_string(digest(public_point(self.issuer.key))),
            der.integer(self.serial),
        )

    def _status(self) -> bytes:
        if isinstance(self.status, Reason):
            return der.context(1, generalized_time(self.this_update), der.context(0, _enumerated(self.status)))
        return {"good": b"\x80\x00", "unknown": b"\x82\x00"}[self.status]


def _enumerated(value: int) -> bytes:
    return der.tlv(0x0A, bytes([value]))


def _nonce_extension(nonce: bytes) -> bytes:
    return der.extension(Extension(oid=_NONCE, critical=False, value=der.octet_string(nonce)))


# -- the service


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedOcsp:
    """The responder at one moment. Make one with ``SimulatedOcsp.of``.

    Attributes:
        this_update: start of its answers' currency, included.
        next_update: end of their currency, excluded; None omits it in answers.
        revoked: serial numbers with reasons.
        known: further known serial numbers of RIM signers, besides those of adjacent years.
        digest: of the CertID in answers without a request.
    """

    this_update: datetime
    next_update: datetime | None
    revoked: Mapping[int, Reason] = field(default_factory=dict[int, Reason])
    known: frozenset[int] = frozenset()
    digest: str = "sha384"

    @staticmethod
    def of(at: datetime, *, days: int = DAYS, revoked: Mapping[int, Reason] | None = None) -> SimulatedOcsp:
        """Return the responder of a day, with answers current from its midnight (UTC) for a number of days.

        Args:
            at: aware.
            days: currency of answers.
            revoked: serial numbers with reasons.
        """
        day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return SimulatedOcsp(this_update=day, next_update=day + timedelta(days=days), revoked=dict(revoked or {}))

    def template(self, issuer: Authority, serial: int, *, nonce: bytes | None = None) -> OcspTemplate:
        """Return the unsigned answer about one certificate."""
        return OcspTemplate(
            issuer=issuer,
            serial=serial,
            status=self._status(issuer, serial),
            this_update=self.this_update,
            next_update=self.next_update,
            nonce=nonce,
            digest=self.digest,
            key=responder_key(issuer),
            responder=(responder_template(issuer).issue(issuer.key),),
        )

    def respond(self, request: bytes) -> bytes:
        """Answer an OCSPRequest about one certificate, with the request's CertID digest and nonce.

        Returns:
            A signed answer; ``unauthorized`` for an unknown issuer; ``malformedRequest`` for anything else.
        """
        try:
            asked = ocsp.load_der_ocsp_request(request)
            digest = asked.hash_algorithm.name
            found = _issuer(digest, asked.issuer_name_hash, asked.issuer_key_hash)
            nonce = _nonce(asked)
            serial = asked.serial_number
        except (ValueError, NotImplementedError):  # NotImplementedError: several requests in one
            return der.sequence(_enumerated(_MALFORMED))
        if found is None:
            return der.sequence(_enumerated(_UNAUTHORISED))
        return replace(self, digest=digest).template(found, serial, nonce=nonce).issue()

    def _status(self, issuer: Authority, serial: int) -> str | Reason:
        """Return the status; a serial never issued is good under the device root and unknown under the other."""
        if serial in self.revoked:
            return self.revoked[serial]
        if issuer.answers_unknown and serial not in self.known and serial not in self._reference_serials():
            return "unknown"
        return "good"

    def _reference_serials(self) -> frozenset[int]:
        """Return the serial numbers below the RIM root: of authorities, and of signers of adjacent years."""
        authorities = (authority.template.serial for authority in issuing_authorities())
        return frozenset((*authorities, *self._signer_serials()))

    def _signer_serials(self) -> Iterator[int]:
        for year in range(self.this_update.year - 2, self.this_update.year + 2):
            issued = signed_in(datetime(year, 1, 1, tzinfo=UTC))
            yield from (rim_signer_template(product, issued).serial for product in PRODUCTS.values())


def _nonce(request: ocsp.OCSPRequest) -> bytes | None:
    try:
        return request.extensions.get_extension_for_class(OCSPNonce).value.nonce
    except ExtensionNotFound:
        return None


def _issuer(digest: str, name_hash: bytes, key_hash: bytes) -> Authority | None:
    """Return the authority of a CertID.

    Raises:
        ValueError: an unsupported digest.
    """
    if digest not in _DIGESTS:
        raise ValueError(f"digest {digest}")
    _, make = _DIGESTS[digest]
    for authority in issuing_authorities():
        if (make(authority.subject), make(public_point(authority.key))) == (name_hash, key_hash):
            return authority
    return None
