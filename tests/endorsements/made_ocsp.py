"""OCSP answers made byte by byte, so that each rule can be broken alone. Keys are P-384."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Certificate, Extension, Issuer, parse_certificate
from attest_simulator import der
from tests.endorsements import made

AT = datetime(2026, 7, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)

ISSUER = Issuer(name="Made Root", subject=made.ROOT_NAME, spki=made.spki(made.ROOT_KEY))
SUBJECT = parse_certificate(made.certificate(serial=77))
RESPONDER_KEY = ec.derive_private_key(1003, ec.SECP384R1())
OCSP_SIGNING = Extension(oid="2.5.29.37", critical=True, value=der.sequence(der.object_identifier("1.3.6.1.5.5.7.3.9")))
_HASHES = {
    "sha1": "1.3.14.3.2.26",
    "sha256": "2.16.840.1.101.3.4.2.1",
    "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
}
HOLD = 6


def responder(*, extensions: tuple[Extension, ...] = (OCSP_SIGNING,), **arguments: object) -> bytes:
    arguments = {"key": RESPONDER_KEY, "serial": 99, **arguments}
    return made.certificate(extensions=extensions, **arguments)  # type: ignore[arg-type]  # the test's keywords


def generalized(moment: datetime) -> bytes:
    return bytes([0x18, 15]) + moment.strftime("%Y%m%d%H%M%SZ").encode()


def nonce_extension(nonce: bytes, *, critical: bool = False) -> bytes:
    found = Extension(oid="1.3.6.1.5.5.7.48.1.2", critical=critical, value=der.octet_string(nonce))
    return made.extension(found)


def tagged(tag: int, *content: bytes) -> bytes:
    """Put another tag on what a SEQUENCE would hold."""
    return bytes([tag]) + der.sequence(*content)[1:]


def digests(issuer: Issuer, name: str) -> tuple[bytes, bytes]:
    """Digests of name and key, the key cut out of a P-384 SubjectPublicKeyInfo by hand."""
    return hashlib.new(name, issuer.subject).digest(), hashlib.new(name, issuer.spki[-97:]).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An answer to be; ``der()`` signs it."""

    serial: int = SUBJECT.serial
    issuer: Issuer = ISSUER
    hash_algorithm: str = "sha384"
    name_hash: bytes | None = None
    key_hash: bytes | None = None
    status: str = "good"
    reason: int | None = None
    this_update: datetime = AT - DAY
    next_update: datetime | None = AT + DAY
    nonce: bytes | None = None
    extensions: tuple[bytes, ...] = ()
    single_extensions: tuple[bytes, ...] = ()
    copies: int = 1
    certificates: tuple[bytes, ...] = field(default_factory=lambda: (responder(),))
    key: ec.EllipticCurvePrivateKey = RESPONDER_KEY
    algorithm: bytes = made.ECDSA_SHA384
    unused_bits: int = 0

    def _status(self) -> bytes:
        if self.status == "revoked":
            reason = () if self.reason is None else (tagged(0xA0, bytes([0x0A, 1, self.reason])),)
            return tagged(0xA1, generalized(AT - 30 * DAY), *reason)
        return b"\x80\x00" if self.status == "good" else b"\x82\x00"

    def _single(self) -> bytes:
        name, key = digests(self.issuer, self.hash_algorithm)
        named = der.sequence(
            der.sequence(der.object_identifier(_HASHES[self.hash_algorithm])),
            der.octet_string(name if self.name_hash is None else self.name_hash),
            der.octet_string(key if self.key_hash is None else self.key_hash),
            der.integer(self.serial),
        )
        ends = () if self.next_update is None else (der.context(0, generalized(self.next_update)),)
        more = (der.context(1, der.sequence(*self.single_extensions)),) if self.single_extensions else ()
        return der.sequence(named, self._status(), generalized(self.this_update), *ends, *more)

    def tbs(self) -> bytes:
        extensions = (*(() if self.nonce is None else (nonce_extension(self.nonce),)), *self.extensions)
        return der.sequence(
            der.context(2, der.octet_string(bytes(20))),
            generalized(self.this_update),
            der.sequence(*[self._single()] * self.copies),
            *((der.context(1, der.sequence(*extensions)),) if extensions else ()),
        )

    def basic(self) -> bytes:
        tbs = self.tbs()
        digest = hashes.SHA256() if self.algorithm == made.ECDSA_SHA256 else hashes.SHA384()
        signature = self.key.sign(tbs, ec.ECDSA(digest, deterministic_signing=True))
        inside = (der.context(0, der.sequence(*self.certificates)),) if self.certificates else ()
        return der.sequence(tbs, self.algorithm, der.bit_string(signature, unused_bits=self.unused_bits), *inside)

    def der(self) -> bytes:
        return response(self.basic())


def response(basic: bytes, *, status: int = 0, kind: str = "1.3.6.1.5.5.7.48.1.1") -> bytes:
    whole = der.sequence(der.object_identifier(kind), der.octet_string(basic))
    return der.sequence(bytes([0x0A, 1, status]), der.context(0, whole))


def refusal(status: int) -> bytes:
    return der.sequence(bytes([0x0A, 1, status]))


def subject(**arguments: object) -> Certificate:
    return parse_certificate(made.certificate(**arguments))  # type: ignore[arg-type]  # the test's keywords
