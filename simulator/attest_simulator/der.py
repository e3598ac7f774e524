"""A small DER encoder for certificates and revocation lists.

Vendors use forms that a general encoder would correct, such as a bit string with too few unused bits or an explicit
default value. Here the caller decides every byte.

Spec: ITU-T X.690, sections 8 and 10.
"""

from __future__ import annotations

from datetime import UTC, datetime

from attest.endorsements.x509 import Extension

NULL = b"\x05\x00"
TRUE = b"\x01\x01\xff"

_SHORT_FORM_BELOW = 0x80
_UTC_TIME_YEARS = range(1950, 2050)
"""RFC 5280, section 4.1.2.5: UTCTime up to and including 2049, GeneralizedTime from 2050."""


def tlv(tag: int, *content: bytes) -> bytes:
    """Return a tag byte, a definite length, and the contents."""
    body = b"".join(content)
    if len(body) < _SHORT_FORM_BELOW:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, _SHORT_FORM_BELOW | len(length)]) + length + body


def sequence(*elements: bytes) -> bytes:
    """Encode a SEQUENCE of encoded elements."""
    return tlv(0x30, *elements)


def context(number: int, *elements: bytes) -> bytes:
    """Encode a constructed, explicit context tag, 0 to 30."""
    return tlv(0xA0 | number, *elements)


def integer(value: int) -> bytes:
    """Encode an INTEGER in the fewest bytes, two's complement, big-endian."""
    size = (value.bit_length() if value >= 0 else (value + 1).bit_length()) // 8 + 1
    return tlv(0x02, value.to_bytes(size, "big", signed=True))


def bit_string(octets: bytes, *, unused_bits: int = 0) -> bytes:
    """Encode a BIT STRING.

    Args:
        octets: the bits, most significant first.
        unused_bits: unused bits of the last byte, 0 to 7.
    """
    return tlv(0x03, bytes([unused_bits]), octets)


def extension(extension: Extension) -> bytes:
    """Encode an extension of a certificate or list; criticality is present only if it is true."""
    critical = (TRUE,) if extension.critical else ()
    return sequence(object_identifier(extension.oid), *critical, octet_string(extension.value))


def octet_string(octets: bytes) -> bytes:
    """Encode an OCTET STRING."""
    return tlv(0x04, octets)


def object_identifier(dotted: str) -> bytes:
    """Encode an OBJECT IDENTIFIER given as dotted decimal."""
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    return tlv(0x06, *(_base128(arc) for arc in (40 * first + second, *rest)))


def _base128(arc: int) -> bytes:
    groups = [arc & 0x7F]
    while arc := arc >> 7:
        groups.append(0x80 | arc & 0x7F)
    return bytes(reversed(groups))


def ia5_string(text: str) -> bytes:
    """Encode an IA5String.

    Raises:
        ValueError: a character outside ASCII.
    """
    return tlv(0x16, text.encode("ascii"))


def time(moment: datetime) -> bytes:
    """Encode a whole second as UTCTime, or as GeneralizedTime from 2050 on.

    Raises:
        ValueError: no time zone, or a fraction of a second.
    """
    if moment.tzinfo is None or moment.microsecond:
        raise ValueError(f"expected an aware moment of whole seconds, got {moment!r}")
    text = moment.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").rjust(15, "0").encode("ascii")
    return tlv(0x17, text[2:]) if moment.astimezone(UTC).year in _UTC_TIME_YEARS else tlv(0x18, text)


def years_after(moment: datetime, years: int) -> datetime:
    """Add whole years to a moment; 29 February becomes 1 March in other years."""
    try:
        return moment.replace(year=moment.year + years)
    except ValueError:
        return moment.replace(year=moment.year + years, month=3, day=1)
