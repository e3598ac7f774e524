"""Declared ASN.1 structures of RFC 5280 for the decoder of ``cryptography``.

Parts that are compared or hashed stay undecoded (``TLV``). The decoder accepts DER only. All are
``SimpleNamespace``: the decoder passes every member by name, and its ``__init__`` is written in C.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, TypeVar, cast

from cryptography import x509
from cryptography.hazmat import asn1

_T = TypeVar("_T")


def tlv(tag: int, *content: bytes) -> bytes:
    """Return a DER element from a tag byte and content."""
    body = b"".join(content)
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def whole(element: asn1.TLV) -> bytes:
    """Return an element with its head; the decoder accepts DER only, so these are the original bytes."""
    return asn1.encode_der(element)


def inside(element: asn1.TLV, cls: type[_T]) -> _T:
    """Decode an undecoded element."""
    return cast("_T", element.parse(cls))  # pyright: ignore[reportUnknownMemberType]  # its stub states no type


@asn1.sequence
class Validity(SimpleNamespace):
    """Validity (RFC 5280, section 4.1.2.5)."""

    __init__ = SimpleNamespace.__init__
    not_before: asn1.UTCTime | asn1.GeneralizedTime
    not_after: asn1.UTCTime | asn1.GeneralizedTime


@asn1.sequence
class EncodedExtension(SimpleNamespace):
    """Extension (section 4.1.2.9); ``value`` is the content of the OCTET STRING."""

    __init__ = SimpleNamespace.__init__
    oid: x509.ObjectIdentifier
    critical: Annotated[bool, asn1.Default(False)]  # noqa: FBT003  the ASN.1 default
    value: bytes


@asn1.sequence
class TbsCertificate(SimpleNamespace):
    """TBSCertificate of version 3, without unique identifiers (section 4.1)."""

    __init__ = SimpleNamespace.__init__
    version: Annotated[int, asn1.Explicit(0)]
    serial: int
    signature: asn1.TLV
    issuer: asn1.TLV
    validity: Validity
    subject: asn1.TLV
    spki: asn1.TLV
    extensions: Annotated[list[EncodedExtension], asn1.Explicit(3)]


@asn1.sequence
class Signed(SimpleNamespace):
    """Common form of Certificate and CertificateList: a signed part, an algorithm, a signature."""

    __init__ = SimpleNamespace.__init__
    tbs: asn1.TLV
    algorithm: asn1.TLV
    signature: asn1.BitString


@asn1.sequence
class Revoked(SimpleNamespace):
    """One entry of revokedCertificates (section 5.1.2.6)."""

    __init__ = SimpleNamespace.__init__
    serial: int
    date: asn1.UTCTime | asn1.GeneralizedTime
    extensions: list[EncodedExtension] | None


@asn1.sequence
class TbsCrl(SimpleNamespace):
    """TBSCertList of version 2 (section 5.1)."""

    __init__ = SimpleNamespace.__init__
    version: int
    signature: asn1.TLV
    issuer: asn1.TLV
    this_update: asn1.UTCTime | asn1.GeneralizedTime
    next_update: asn1.UTCTime | asn1.GeneralizedTime
    revoked: list[Revoked] | None
    extensions: Annotated[list[EncodedExtension], asn1.Explicit(0)]


@asn1.sequence
class ListingTbsCrl(SimpleNamespace):
    """TBSCertList with revokedCertificates present and undecoded."""

    __init__ = SimpleNamespace.__init__
    version: int
    signature: asn1.TLV
    issuer: asn1.TLV
    this_update: asn1.UTCTime | asn1.GeneralizedTime
    next_update: asn1.UTCTime | asn1.GeneralizedTime
    revoked: asn1.TLV
    extensions: Annotated[list[EncodedExtension], asn1.Explicit(0)]


@asn1.sequence
class NumbersHolder(SimpleNamespace):
    """A SEQUENCE of INTEGER inside another SEQUENCE: the decoder needs a declared outer structure."""

    __init__ = SimpleNamespace.__init__
    numbers: list[int]


@asn1.sequence
class Attribute(SimpleNamespace):
    """AttributeTypeAndValue (section 4.1.2.4)."""

    __init__ = SimpleNamespace.__init__
    oid: x509.ObjectIdentifier
    value: asn1.TLV


@asn1.sequence
class NameHolder(SimpleNamespace):
    """A Name inside another SEQUENCE, for the same reason."""

    __init__ = SimpleNamespace.__init__
    name: list[asn1.SetOf[Attribute]]


@asn1.sequence
class KeyUsageHolder(SimpleNamespace):
    """A KeyUsage inside another SEQUENCE, for the same reason (section 4.2.1.3)."""

    __init__ = SimpleNamespace.__init__
    bits: asn1.BitString


@asn1.sequence
class ExtendedKeyUsageHolder(SimpleNamespace):
    """An ExtKeyUsageSyntax inside another SEQUENCE, for the same reason (section 4.2.1.12)."""

    __init__ = SimpleNamespace.__init__
    purposes: list[x509.ObjectIdentifier]


@asn1.sequence
class BasicConstraints(SimpleNamespace):
    """BasicConstraints (section 4.2.1.9)."""

    __init__ = SimpleNamespace.__init__
    ca: Annotated[bool, asn1.Default(False)]  # noqa: FBT003  the ASN.1 default
    path_length: int | None
