"""Certificates and revocation lists, as the vendors really issue them.

Vendor certificates break rules that general X.509 code insists on (serial number 0, leaves without
basicConstraints, DEFAULT values written out in PSS parameters). So this module reads their DER through the
declarative ASN.1 decoder of ``cryptography``, keeps the bytes as received, and states every rule itself.

Reading and signature checks are pure functions of bytes; their outcomes are kept in bounded tables so that a chain
seen before costs no public-key operation. Dates, names, revocation and anchors are judged anew on every call.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, TypeVar, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from attest.encoding import base64_bytes, rfc3339_text
from attest.errors import ChainError, EndorsementError, EvidenceError, RevokedError

__all__ = [
    "MAX_CERTIFICATE_BYTES",
    "MAX_CRL_BYTES",
    "Certificate",
    "Crl",
    "Extension",
    "Issuer",
    "SignatureAlgorithm",
    "load_public_key",
    "parse_certificate",
    "parse_crl",
    "pem_blocks",
    "require_ca",
    "require_current_crl",
    "require_issued",
    "require_valid",
    "signature_holds",
]

MAX_CERTIFICATE_BYTES = 16 * 1024
"""AMD's and Intel's certificates have 1 to 2 KiB, NVIDIA's up to 1 KiB; nothing in this field needs more."""
MAX_CRL_BYTES = 1024 * 1024
MAX_EXTENSIONS = 64
_REMEMBERED = 1024

_BASIC_CONSTRAINTS = "2.5.29.19"
_KEY_USAGE = "2.5.29.15"
_COMMON_NAME = "2.5.4.3"
_UNDERSTOOD_CRITICAL = frozenset({_BASIC_CONSTRAINTS, _KEY_USAGE})
_KEY_CERT_SIGN = 5
_CRL_SIGN = 6


# -- the structures of RFC 5280, section 4.1 and 5.1; what is compared or hashed stays undecoded (TLV)


@asn1.sequence
class _Validity:
    not_before: asn1.UTCTime | asn1.GeneralizedTime
    not_after: asn1.UTCTime | asn1.GeneralizedTime


@asn1.sequence
class _Extension:
    oid: x509.ObjectIdentifier
    critical: Annotated[bool, asn1.Default(False)]  # noqa: FBT003  the ASN.1 default
    value: bytes


@asn1.sequence
class _TbsCertificate:
    version: Annotated[int, asn1.Explicit(0)]
    serial: int
    signature: asn1.TLV
    issuer: asn1.TLV
    validity: _Validity
    subject: asn1.TLV
    spki: asn1.TLV
    extensions: Annotated[list[_Extension], asn1.Explicit(3)]


@asn1.sequence
class _Signed:
    tbs: asn1.TLV
    algorithm: asn1.TLV
    signature: asn1.BitString


@asn1.sequence
class _Revoked:
    serial: int
    date: asn1.UTCTime | asn1.GeneralizedTime
    extensions: list[_Extension] | None


@asn1.sequence
class _TbsCrl:
    version: int
    signature: asn1.TLV
    issuer: asn1.TLV
    this_update: asn1.UTCTime | asn1.GeneralizedTime
    next_update: asn1.UTCTime | asn1.GeneralizedTime
    revoked: list[_Revoked] | None
    extensions: Annotated[list[_Extension], asn1.Explicit(0)]


@asn1.sequence
class _Attribute:
    oid: x509.ObjectIdentifier
    value: asn1.TLV


@asn1.sequence
class _NameHolder:
    name: list[asn1.SetOf[_Attribute]]


@asn1.sequence
class _KeyUsageHolder:
    bits: asn1.BitString


@asn1.sequence
class _BasicConstraints:
    ca: Annotated[bool, asn1.Default(False)]  # noqa: FBT003  the ASN.1 default
    path_length: int | None


# -- signature algorithms


def _tlv(tag: int, *content: bytes) -> bytes:
    """Put a DER head of one tag byte before the content."""
    body = b"".join(content)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def _pss_sha384_identifiers() -> Iterator[bytes]:
    """Every DER spelling of RSASSA-PSS with SHA-384, MGF1-SHA-384 and a salt of 48 bytes.

    Hash parameters are NULL or absent, trailerField 1 is written out or left to its default: AMD issues both
    (specs/sev-snp.md, section 8). No other parameter may differ.
    """
    null = _tlv(0x05)
    sha384 = bytes.fromhex("0609608648016503040202")
    mgf1 = bytes.fromhex("06092a864886f70d010108")
    pss = bytes.fromhex("06092a864886f70d01010a")
    salt = _tlv(0xA2, _tlv(0x02, bytes([48])))
    for hash_null in (null, b""):
        for mgf_null in (null, b""):
            for trailer in (b"", _tlv(0xA3, _tlv(0x02, b"\x01"))):
                parameters = _tlv(
                    0x30,
                    _tlv(0xA0, _tlv(0x30, sha384, hash_null)),
                    _tlv(0xA1, _tlv(0x30, mgf1, _tlv(0x30, sha384, mgf_null))),
                    salt,
                    trailer,
                )
                yield _tlv(0x30, pss, parameters)


class SignatureAlgorithm(enum.Enum):
    """The signature algorithms that vendor certificates use; anything else is refused."""

    RSA_PSS_SHA384 = "RSASSA-PSS with SHA-384, MGF1-SHA-384, salt 48"
    ECDSA_SHA256 = "ECDSA with SHA-256"
    ECDSA_SHA384 = "ECDSA with SHA-384"


_ALGORITHMS: dict[bytes, SignatureAlgorithm] = {
    **dict.fromkeys(_pss_sha384_identifiers(), SignatureAlgorithm.RSA_PSS_SHA384),
    bytes.fromhex("300a06082a8648ce3d040302"): SignatureAlgorithm.ECDSA_SHA256,
    bytes.fromhex("300a06082a8648ce3d040303"): SignatureAlgorithm.ECDSA_SHA384,
}

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


@lru_cache(maxsize=_REMEMBERED)
def load_public_key(spki: bytes) -> PublicKey:
    """Load an RSA or elliptic-curve public key from its SubjectPublicKeyInfo.

    Raises:
        ChainError: ``public-key-invalid``, not a key of these kinds, or not a point of its curve.
    """
    try:
        key = serialization.load_der_public_key(spki)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise ChainError(f"public key cannot be read: {exc}", code="public-key-invalid") from exc
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise ChainError(
            f"public key is of kind {type(key).__name__}, expected RSA or elliptic curve", code="public-key-invalid"
        )
    return key


@lru_cache(maxsize=_REMEMBERED)
def signature_holds(signed: bytes, signature: bytes, algorithm: bytes, spki: bytes) -> bool:
    """Say whether ``signature`` over ``signed`` verifies under the key; a pure function of four byte strings.

    Args:
        signed: the bytes as received.
        signature: as it stands in the BIT STRING.
        algorithm: the DER AlgorithmIdentifier; one that is not in the table never verifies.
        spki: the DER SubjectPublicKeyInfo of the supposed signer.
    """
    key = load_public_key(spki)
    try:
        match _ALGORITHMS.get(algorithm), key:
            case SignatureAlgorithm.RSA_PSS_SHA384, rsa.RSAPublicKey():
                scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
                key.verify(signature, signed, scheme, hashes.SHA384())
            case SignatureAlgorithm.ECDSA_SHA256, ec.EllipticCurvePublicKey():
                key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
            case SignatureAlgorithm.ECDSA_SHA384, ec.EllipticCurvePublicKey():
                key.verify(signature, signed, ec.ECDSA(hashes.SHA384()))
            case _:
                return False
    except InvalidSignature:
        return False
    return True


# -- parsed forms


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension: dotted object identifier, criticality, and the bytes inside its OCTET STRING."""

    oid: str
    critical: bool
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate:
    """An X.509 v3 certificate as presented: a stranger's word until its chain is verified.

    Attributes:
        der: the whole certificate as received.
        tbs: the signed part as received.
        algorithm: DER AlgorithmIdentifier; inner and outer one are equal byte by byte.
        issuer: DER Name.
        subject: DER Name.
        common_name: the subject's only CN, or None when there is none.
        not_before: first valid second, UTC.
        not_after: last valid second, UTC, included.
        spki: DER SubjectPublicKeyInfo.
    """

    der: bytes
    tbs: bytes
    signature: bytes
    algorithm: bytes
    serial: int
    issuer: bytes
    subject: bytes
    common_name: str | None
    issuer_common_name: str | None
    not_before: datetime
    not_after: datetime
    spki: bytes
    extensions: tuple[Extension, ...]

    @property
    def spki_sha256(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo: what anchors are pinned by."""
        return sha256(self.spki).digest()

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return self.common_name or f"certificate with serial {self.serial}"

    def extension(self, oid: str) -> Extension | None:
        """Return the extension with this identifier; there is never more than one."""
        return next((extension for extension in self.extensions if extension.oid == oid), None)

    def as_issuer(self) -> Issuer:
        """Name and key of this certificate in the role of a signer."""
        return Issuer(name=self.name, subject=self.subject, spki=self.spki)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Who may have signed: a name and a key. An anchor that is held as a bare key is one too."""

    name: str
    subject: bytes
    spki: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crl:
    """A v2 certificate revocation list as presented.

    Attributes:
        this_update: first moment at which it is current, included.
        next_update: end of its currency, excluded.
        revoked: serial numbers that it lists.
    """

    der: bytes
    tbs: bytes
    signature: bytes
    algorithm: bytes
    issuer: bytes
    issuer_common_name: str | None
    this_update: datetime
    next_update: datetime
    revoked: frozenset[int]

    def is_signed_by(self, issuer: Issuer) -> bool:
        """Say whether the issuer's name and key are those behind this list."""
        return self.issuer == issuer.subject and signature_holds(self.tbs, self.signature, self.algorithm, issuer.spki)

    def is_current(self, at: datetime) -> bool:
        """Say whether ``this_update <= at < next_update``."""
        return self.this_update <= at < self.next_update


# -- parsing


def _malformed(what: str, problem: object) -> EvidenceError:
    return EvidenceError(f"{what} cannot be read: {problem}", code=f"{what}-malformed", field=what)


def _whole(element: asn1.TLV) -> bytes:
    """Put the head back before an element; the decoder takes DER only, so it is the head that was read."""
    return _tlv(element.tag_bytes[0], bytes(element.data))


@lru_cache(maxsize=_REMEMBERED)
def _common_name(name: bytes) -> str | None:
    """Return the CN of a DER Name; None when there is none, two, or one that is no text."""
    holder = asn1.decode_der(_NameHolder, _tlv(0x30, name))
    values = [a.value for rdn in holder.name for a in rdn.as_list() if a.oid.dotted_string == _COMMON_NAME]
    if len(values) != 1:
        return None
    text = bytes(values[0].data)
    return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else None


def _moment(time: asn1.UTCTime | asn1.GeneralizedTime) -> datetime:
    return time.as_datetime()


def _bits(value: asn1.BitString, *, what: str) -> bytes:
    if value.padding_bits():
        msg = f"{what} is not whole bytes"
        raise ValueError(msg)
    return value.as_bytes()


def _extensions(decoded: list[_Extension]) -> tuple[Extension, ...]:
    found = tuple(Extension(oid=e.oid.dotted_string, critical=e.critical, value=e.value) for e in decoded)
    if len(found) > MAX_EXTENSIONS:
        msg = f"{len(found)} extensions, more than {MAX_EXTENSIONS}"
        raise ValueError(msg)
    if len({extension.oid for extension in found}) != len(found):
        msg = "one extension stands twice"
        raise ValueError(msg)
    return found


_T = TypeVar("_T")


def _inside(element: asn1.TLV, cls: type[_T]) -> _T:
    """Decode an element that was kept undecoded."""
    return cast("_T", element.parse(cls))  # pyright: ignore[reportUnknownMemberType]  # its stub states no type


def _signed_parts(der: bytes, *, limit: int) -> _Signed:
    if len(der) > limit:
        msg = f"{len(der)} bytes, more than {limit}"
        raise ValueError(msg)
    return asn1.decode_der(_Signed, der)


@lru_cache(maxsize=_REMEMBERED)
def parse_certificate(der: bytes) -> Certificate:
    """Read one X.509 v3 certificate.

    This is the one place where vendor certificates are read; serial number 0, leaves without basicConstraints and
    spelled-out PSS defaults are as welcome here as the vendors make them.

    Args:
        der: the certificate, nothing before or after it, at most ``MAX_CERTIFICATE_BYTES``.

    Raises:
        EvidenceError: ``certificate-malformed``.

    Spec: RFC 5280, section 4.1.
    """
    try:
        outer = _signed_parts(der, limit=MAX_CERTIFICATE_BYTES)
        tbs = _inside(outer.tbs, _TbsCertificate)
        algorithm = _whole(outer.algorithm)
        if _whole(tbs.signature) != algorithm:  # the outer one is not signed: a flipped byte in it would pass
            msg = "the signature algorithm outside differs from the signed one inside"
            raise ValueError(msg)  # noqa: TRY301  one translation for every defect of the bytes
        if tbs.version != 2:
            msg = f"version {tbs.version + 1}, expected 3"
            raise ValueError(msg)  # noqa: TRY301
        issuer, subject = _whole(tbs.issuer), _whole(tbs.subject)
        return Certificate(
            der=der,
            tbs=_whole(outer.tbs),
            signature=_bits(outer.signature, what="signature"),
            algorithm=algorithm,
            serial=tbs.serial,
            issuer=issuer,
            subject=subject,
            common_name=_common_name(subject),
            issuer_common_name=_common_name(issuer),
            not_before=_moment(tbs.validity.not_before),
            not_after=_moment(tbs.validity.not_after),
            spki=_whole(tbs.spki),
            extensions=_extensions(tbs.extensions),
        )
    except (ValueError, OverflowError) as exc:
        raise _malformed("certificate", exc) from exc


@lru_cache(maxsize=_REMEMBERED)
def parse_crl(der: bytes) -> Crl:
    """Read one X.509 v2 certificate revocation list.

    A list with a critical extension is refused: it would be a delta, an indirect or a partial list, and an entry
    that is not in it would prove nothing.

    Args:
        der: the list, nothing before or after it, at most ``MAX_CRL_BYTES``.

    Raises:
        EvidenceError: ``crl-malformed``.

    Spec: RFC 5280, section 5.1.
    """
    try:
        outer = _signed_parts(der, limit=MAX_CRL_BYTES)
        tbs = _inside(outer.tbs, _TbsCrl)
        algorithm = _whole(outer.algorithm)
        if _whole(tbs.signature) != algorithm:
            msg = "the signature algorithm outside differs from the signed one inside"
            raise ValueError(msg)  # noqa: TRY301  one translation for every defect of the bytes
        entries = tbs.revoked or []
        extensions = [*_extensions(tbs.extensions), *(e for r in entries for e in _extensions(r.extensions or []))]
        if tbs.version != 1 or any(extension.critical for extension in extensions):
            msg = "expected version 2 without critical extensions"
            raise ValueError(msg)  # noqa: TRY301
        issuer = _whole(tbs.issuer)
        return Crl(
            der=der,
            tbs=_whole(outer.tbs),
            signature=_bits(outer.signature, what="signature"),
            algorithm=algorithm,
            issuer=issuer,
            issuer_common_name=_common_name(issuer),
            this_update=_moment(tbs.this_update),
            next_update=_moment(tbs.next_update),
            revoked=frozenset(entry.serial for entry in entries),
        )
    except (ValueError, OverflowError) as exc:
        raise _malformed("crl", exc) from exc


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----\s([A-Za-z0-9+/=\s]*+)-----END \1-----")


def pem_blocks(text: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return label and content of every PEM block, in order; text between blocks is ignored (RFC 7468).

    Raises:
        EvidenceError: ``base64-invalid``, a block whose content is not base64.
    """
    return tuple(
        (match[1].decode(), base64_bytes(b"".join(match[2].split()).decode(), what=f"PEM {match[1].decode()}"))
        for match in _PEM.finditer(text)
    )


# -- rules that every chain shares


@lru_cache(maxsize=_REMEMBERED)
def require_ca(certificate: Certificate) -> None:
    """Require that a certificate may issue others: CA:TRUE and keyCertSign, every critical extension understood.

    NOTE: pathLenConstraint is not compared; each vendor's procedure fixes the length of its chain itself.

    Raises:
        ChainError: ``ca-flags-missing`` or ``critical-extension-unknown``.
    """
    _require_understood(certificate)
    constraints = certificate.extension(_BASIC_CONSTRAINTS)
    usage = certificate.extension(_KEY_USAGE)
    try:
        is_ca = constraints is not None and asn1.decode_der(_BasicConstraints, constraints.value).ca
        may_sign = usage is not None and _has_usage(usage.value, _KEY_CERT_SIGN)
    except ValueError as exc:
        raise ChainError(f"{certificate.name}: CA flags cannot be read: {exc}", code="ca-flags-missing") from exc
    if not (is_ca and may_sign):
        raise ChainError(
            f"{certificate.name} may not issue certificates",
            code="ca-flags-missing",
            expected="basicConstraints CA:TRUE and keyUsage keyCertSign",
            got=f"CA:{is_ca}, keyCertSign:{may_sign}",
            clause="RFC 5280, section 4.2.1.3 and 4.2.1.9",
        )


def _has_usage(value: bytes, bit: int) -> bool:
    octets = asn1.decode_der(_KeyUsageHolder, _tlv(0x30, value)).bits.as_bytes()
    return bool(octets) and bool(octets[0] & 0x80 >> bit)


def _require_understood(certificate: Certificate) -> None:
    unknown = [e.oid for e in certificate.extensions if e.critical and e.oid not in _UNDERSTOOD_CRITICAL]
    if unknown:
        raise ChainError(
            f"{certificate.name} has a critical extension that is not understood",
            code="critical-extension-unknown",
            got=", ".join(unknown),
            clause="RFC 5280, section 4.2",
        )


def require_issued(
    certificate: Certificate, issuer: Issuer, *, algorithm: SignatureAlgorithm, check: str | None = None
) -> None:
    """Require that ``issuer`` issued ``certificate``: names byte by byte, the algorithm, the signature.

    Raises:
        ChainError: ``issuer-name-mismatch``, ``certificate-algorithm-unexpected``,
            ``certificate-signature-invalid``, ``critical-extension-unknown`` or ``public-key-invalid``.
    """
    _require_understood(certificate)
    if certificate.issuer != issuer.subject:
        raise ChainError(
            f"{certificate.name} names another issuer than {issuer.name}",
            code="issuer-name-mismatch",
            check=check,
            expected=issuer.name,
            got=certificate.issuer_common_name or "a name without one CN",
        )
    if _ALGORITHMS.get(certificate.algorithm) is not algorithm:
        raise ChainError(
            f"{certificate.name} is signed with another algorithm than this vendor uses",
            code="certificate-algorithm-unexpected",
            check=check,
            expected=algorithm.value,
            got=certificate.algorithm.hex(),
        )
    if not signature_holds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki):
        raise ChainError(
            f"the signature of {issuer.name} on {certificate.name} does not verify",
            code="certificate-signature-invalid",
            check=check,
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )


def require_valid(certificate: Certificate, *, at: datetime, check: str | None = None) -> None:
    """Require ``not_before <= at <= not_after``.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.
    """
    if certificate.not_before <= at <= certificate.not_after:
        return
    early = at < certificate.not_before
    raise ChainError(
        f"{certificate.name} is {'not valid yet' if early else 'expired'} at {rfc3339_text(at)}",
        code="certificate-not-yet-valid" if early else "certificate-expired",
        check=check,
        expected=f"{rfc3339_text(certificate.not_before)} to {rfc3339_text(certificate.not_after)}",
        got=rfc3339_text(at),
        clause="RFC 5280, section 4.1.2.5",
    )


def require_current_crl(
    crls: tuple[Crl, ...], issuer: Issuer, *, serials: tuple[int, ...], at: datetime, check: str | None = None
) -> Crl:
    """Return a current, genuine list of the issuer, after making sure that no genuine one names a serial.

    A stale or future list counts as missing, but what it lists is revoked all the same once its signature
    verifies. A list of another issuer does not belong here and is passed over.

    Args:
        crls: every list at hand.
        issuer: whose lists count.
        serials: numbers that must not be listed.
        at: moment of appraisal; ``this_update <= at < next_update``.
        check: id of the check that this is, for errors.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: ``crl-signature-invalid``, the only lists in the issuer's name are not signed by it.
        EndorsementError: ``crl-missing``, ``crl-expired`` or ``crl-not-yet-valid``.
    """
    named = [crl for crl in crls if crl.issuer == issuer.subject]
    genuine = [crl for crl in named if crl.is_signed_by(issuer)]
    for crl in genuine:
        for serial in serials:
            if serial in crl.revoked:
                raise RevokedError(
                    f"{issuer.name} revoked the certificate with serial {serial}",
                    code="certificate-revoked",
                    check=check,
                    expected=f"serial {serial} not listed",
                    got=f"listed by the CRL of {rfc3339_text(crl.this_update)}",
                )
    current = [crl for crl in genuine if crl.is_current(at)]
    if current:
        return max(current, key=lambda crl: crl.this_update)
    raise _no_current_crl(named, genuine, issuer, at=at, check=check)


def _no_current_crl(
    named: list[Crl], genuine: list[Crl], issuer: Issuer, *, at: datetime, check: str | None
) -> ChainError | EndorsementError:
    if named and not genuine:
        return ChainError(
            f"the CRL in the name of {issuer.name} is not signed by it",
            code="crl-signature-invalid",
            check=check,
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )
    if not genuine:
        return EndorsementError(
            f"no certificate revocation list of {issuer.name} is at hand",
            code="crl-missing",
            check=check,
            expected=f"a CRL of {issuer.name} that is current at {rfc3339_text(at)}",
            got="none",
            hint="fetch it with 'attest endorsements fetch', or leave the check out with --unchecked revocation=REASON",
            retryable=True,
        )
    latest = max(genuine, key=lambda crl: crl.this_update)
    early = at < latest.this_update
    return EndorsementError(
        f"the CRL of {issuer.name} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code="crl-not-yet-valid" if early else "crl-expired",
        check=check,
        expected=f"thisUpdate <= {rfc3339_text(at)} < nextUpdate",
        got=f"{rfc3339_text(latest.this_update)} to {rfc3339_text(latest.next_update)}",
        hint="fetch a newer one with 'attest endorsements fetch'",
        retryable=True,
    )
