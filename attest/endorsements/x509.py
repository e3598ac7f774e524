"""Certificates and revocation lists in the vendors' actual forms.

Vendor certificates break rules that general X.509 code enforces (serial number 0, leaves without
basicConstraints, explicit DEFAULT values in PSS parameters). This module therefore parses their DER with the
declarative ASN.1 decoder of ``cryptography``, keeps the received bytes, and leaves all rules to ``chains.py``.
Parsing is a pure function of bytes, with bounded caches.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from cryptography.hazmat import asn1
from cryptography.x509.oid import NameOID

from attest.encoding import base64_bytes
from attest.endorsements.asn1 import (
    EncodedExtension,
    ListingTbsCrl,
    NameHolder,
    NumbersHolder,
    Revoked,
    Signed,
    TbsCertificate,
    TbsCrl,
    inside,
    tlv,
    whole,
)
from attest.endorsements.signatures import signature_holds
from attest.errors import EvidenceError

MAX_CERTIFICATE_BYTES = 16 * 1024
"""AMD's and Intel's certificates have 1 to 2 KiB, NVIDIA's up to 1 KiB."""
MAX_CRL_BYTES = 1024 * 1024
MAX_EXTENSIONS = 64
_REMEMBERED = 1024
_COMMON_NAME = NameOID.COMMON_NAME
_SEQUENCE = b"\x30"
_LONG_FORM = 0x80
_SHORT_CRL_BYTES = 512
"""A list that is shorter has few entries or none."""
_REMEMBERED_CRLS = 32
"""Few, because a list may have a mebibyte, and the Attester chooses the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension: dotted object identifier, criticality, and the bytes inside its OCTET STRING."""

    oid: str
    critical: bool
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate:
    """An X.509 v3 certificate as presented, untrusted until its chain is verified.

    Attributes:
        der: the whole certificate as received.
        tbs: the signed part as received.
        algorithm: DER AlgorithmIdentifier; inner and outer one are equal byte by byte.
        issuer: DER Name.
        subject: DER Name.
        common_name: the subject's only CN, or None.
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
        """SHA-256 of the SubjectPublicKeyInfo, for comparison with anchors."""
        return sha256(self.spki).digest()

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.common_name or f"certificate with serial {self.serial}"

    def extension(self, oid: str) -> Extension | None:
        """Return the extension with this identifier; it occurs at most once."""
        return next((extension for extension in self.extensions if extension.oid == oid), None)

    def as_issuer(self) -> Issuer:
        """Return name and key of this certificate as an issuer."""
        return Issuer(self.name, self.subject, self.spki)


class Issuer(NamedTuple):
    """A potential signer: a name and a key, of a certificate or an anchor."""

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
        """Return True if this issuer's name and key belong to the list."""
        return self.issuer == issuer.subject and signature_holds(self.tbs, self.signature, self.algorithm, issuer.spki)

    def is_current(self, at: datetime, *, next_update_included: bool = False) -> bool:
        """Return True if ``this_update <= at < next_update``, or ``<=`` at the end too."""
        ended = at > self.next_update if next_update_included else at >= self.next_update
        return self.this_update <= at and not ended


# -- parsing


def _malformed(what: str, problem: object) -> EvidenceError:
    return EvidenceError(f"{what} cannot be read: {problem}", code=f"{what}-malformed", field=what)


@lru_cache(maxsize=_REMEMBERED)
def _common_name(name: bytes) -> str | None:
    """Return the CN of a DER Name; None unless there is exactly one, of a text type."""
    holder = asn1.decode_der(NameHolder, tlv(0x30, name))
    values = [a.value for rdn in holder.name for a in rdn.as_list() if a.oid == _COMMON_NAME]
    if len(values) != 1:
        return None
    raw = bytes(values[0].data)
    text = raw.decode("ascii") if raw.isascii() else "\n"
    return text if text.isprintable() else None


def _bits(value: asn1.BitString, *, what: str) -> bytes:
    if value.padding_bits():
        raise ValueError(f"{what} is not whole bytes")
    return value.as_bytes()


def _extensions(decoded: list[EncodedExtension]) -> tuple[Extension, ...]:
    if len(decoded) > MAX_EXTENSIONS:
        raise ValueError(f"{len(decoded)} extensions, more than {MAX_EXTENSIONS}")
    if len({extension.oid for extension in decoded}) != len(decoded):
        raise ValueError("one extension occurs twice")
    return tuple([Extension(oid=e.oid.dotted_string, critical=e.critical, value=e.value) for e in decoded])


def _signed_parts(der: bytes, *, limit: int) -> Signed:
    if len(der) > limit:
        raise ValueError(f"{len(der)} bytes, more than {limit}")
    outer: Signed = asn1.decode_der(Signed, der)
    return outer


@lru_cache(maxsize=_REMEMBERED)
def parse_certificate(der: bytes) -> Certificate:
    """Parse one X.509 v3 certificate of a vendor (RFC 5280, section 4.1).

    Serial number 0, leaves without basicConstraints and explicit PSS defaults are accepted, since vendors issue them.

    Args:
        der: the certificate, without other bytes, at most ``MAX_CERTIFICATE_BYTES``.

    Raises:
        EvidenceError: ``certificate-malformed``.
    """
    try:
        return _certificate(der)
    except (ValueError, OverflowError) as exc:
        raise _malformed("certificate", exc) from exc


def _certificate(der: bytes) -> Certificate:
    outer = _signed_parts(der, limit=MAX_CERTIFICATE_BYTES)
    tbs = inside(outer.tbs, TbsCertificate)
    if tbs.version != 2:
        raise ValueError(f"version {tbs.version + 1}, expected 3")
    issuer, subject = whole(tbs.issuer), whole(tbs.subject)
    return Certificate(
        der=der,
        tbs=whole(outer.tbs),
        signature=_bits(outer.signature, what="signature"),
        algorithm=_same_algorithm(outer.algorithm, tbs.signature),
        serial=tbs.serial,
        issuer=issuer,
        subject=subject,
        common_name=_common_name(subject),
        issuer_common_name=_common_name(issuer),
        not_before=tbs.validity.not_before.as_datetime(),
        not_after=tbs.validity.not_after.as_datetime(),
        spki=whole(tbs.spki),
        extensions=_extensions(tbs.extensions),
    )


def _same_algorithm(outer: asn1.TLV, signed: asn1.TLV) -> bytes:
    """Require the algorithm outside, which no signature covers, to repeat the signed one byte by byte."""
    algorithm = whole(outer)
    if whole(signed) != algorithm:
        raise ValueError("the signature algorithm outside differs from the signed one inside")
    return algorithm


def _tbs_crl(tbs: asn1.TLV, *, short: bool) -> tuple[TbsCrl | ListingTbsCrl, bool, frozenset[int]]:
    """Decode the signed part of a list, with the serial numbers, and True if an entry has a critical extension.

    Long lists are first decoded by the fast path. If it does not apply, or fails, the decoder decides.
    """
    listing, alike = None, None
    if not short:
        with suppress(ValueError, OverflowError):
            listing = inside(tbs, ListingTbsCrl)
            alike = _alike_entries(listing.revoked)
    if listing is not None and alike is not None:
        return listing, *alike
    decoded = inside(tbs, TbsCrl)
    entries = decoded.revoked or []
    return decoded, any(map(_has_critical, entries)), frozenset([entry.serial for entry in entries])


def _has_critical(entry: Revoked) -> bool:
    return any(extension.critical for extension in entry.extensions or ())


def _alike_entries(revoked: asn1.TLV) -> tuple[bool, frozenset[int]] | None:
    """Decode a list whose entries all end alike, with one date and reason, as in vendors' batch revocations.

    The first is decoded, the list is cut at every such ending, and the preceding numbers are decoded together.
    The cuts are a guess, verified by each entry: a head in the only DER form with matching lengths, and
    then one INTEGER, which leaves no undecoded bytes. If it fails, the result is None, and every entry has to be
    decoded by itself.
    """
    content = bytes(revoked.data)
    first = content[: 2 + content[1]] if len(content) > 1 else b""
    entry = asn1.decode_der(Revoked, first)
    ending = first[2 + len(asn1.encode_der(entry.serial)) :]
    *fronts, rest = content.split(ending)
    fits = all(front == _front(size, ending) for size, front in {(len(f), f[:4]) for f in fronts})
    if rest or not fits or revoked.tag_bytes != _SEQUENCE:
        return None
    numbers = b"".join([front[2:] for front in fronts])
    holder = asn1.decode_der(NumbersHolder, tlv(0x30, tlv(0x30, numbers)))
    return _has_critical(entry), frozenset(holder.numbers)


def _front(size: int, ending: bytes) -> bytes | None:
    """Return the start of an entry whose ending follows ``size`` bytes: SEQUENCE and INTEGER in short form."""
    length = size - 2 + len(ending)
    return bytes((0x30, length, 0x02, size - 4)) if size > 4 and length < _LONG_FORM else None


@lru_cache(maxsize=_REMEMBERED_CRLS)
def parse_crl(der: bytes) -> Crl:
    """Parse one X.509 v2 certificate revocation list (RFC 5280, section 5.1).

    Lists with critical extensions are refused: absence from a delta, indirect or partial list would prove nothing.

    Args:
        der: the list, without other bytes, at most ``MAX_CRL_BYTES``.

    Raises:
        EvidenceError: ``crl-malformed``.
    """
    try:
        return _crl(der)
    except (ValueError, OverflowError) as exc:
        raise _malformed("crl", exc) from exc


def _crl(der: bytes) -> Crl:
    outer = _signed_parts(der, limit=MAX_CRL_BYTES)
    tbs, critical, revoked = _tbs_crl(outer.tbs, short=len(der) < _SHORT_CRL_BYTES)
    if tbs.version != 1 or critical or any(extension.critical for extension in _extensions(tbs.extensions)):
        raise ValueError("expected version 2 without critical extensions")
    issuer = whole(tbs.issuer)
    return Crl(
        der=der,
        tbs=whole(outer.tbs),
        signature=_bits(outer.signature, what="signature"),
        algorithm=_same_algorithm(outer.algorithm, tbs.signature),
        issuer=issuer,
        issuer_common_name=_common_name(issuer),
        this_update=tbs.this_update.as_datetime(),
        next_update=tbs.next_update.as_datetime(),
        revoked=revoked,
    )


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----\s([A-Za-z0-9+/=\s]*+)-----END \1-----")


def pem_blocks(text: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return label and content of every PEM block, in order; text between blocks is ignored (RFC 7468).

    Raises:
        EvidenceError: ``base64-invalid``, a block whose content is not base64.
    """
    found = [(label.decode(), b"".join(lines.split())) for label, lines in _PEM.findall(text)]
    return tuple([(label, base64_bytes(encoded, what=f"PEM {label}")) for label, encoded in found])
