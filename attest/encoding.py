"""Strict text and canonical encodings: hex, base64, JSON, CBOR, RFC 3339 times.

Every reader here accepts one spelling. An attacker uses the tolerance of a lenient decoder (for padding, duplicate
members, a second encoding of the same number) to make two readers see two documents.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeAlias, cast

import cbor2
import rfc8785

from attest.errors import EvidenceError
from attest.json_types import JsonValue

__all__ = [
    "MAX_JSON_DEPTH",
    "CborValue",
    "JsonValue",
    "base64_bytes",
    "base64url_bytes",
    "base64url_json",
    "base64url_text",
    "canonical_json",
    "cbor_bytes",
    "cbor_value",
    "hex_bytes",
    "json_value",
    "require_values",
    "rfc3339",
    "rfc3339_text",
]

CborValue: TypeAlias = (
    "bool | int | str | bytes | tuple[CborValue, ...] | list[CborValue] | Mapping[str, CborValue] | None"
)

MAX_JSON_DEPTH = 64
"""Deeper nesting is refused; no format of this project needs more than 12 levels."""
MAX_CBOR_DEPTH = 32
MAX_CBOR_VALUES = 65_536
"""More values are refused; the largest document, a bundle of endorsements, has seven for each of its 8192 entries."""

_MAX_UINT64 = (1 << 64) - 1
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:[Zz]|[+-]\d{2}:\d{2})")


def _refuse(what: str, expected: str, got: str, *, code: str) -> EvidenceError:
    return EvidenceError(f"{what}: expected {expected}, got {got}", code=code, field=what, expected=expected, got=got)


def hex_bytes(text: str, *, what: str, length: int | None = None) -> bytes:
    """Decode hex of an even number of digits, without prefix or separators.

    Raises:
        EvidenceError: ``hex-invalid``, another character or another length in bytes.
    """
    try:
        data = binascii.unhexlify(text)  # stricter than bytes.fromhex, which skips blanks
    except ValueError as exc:
        got = f"{len(text)} characters of other text"
        raise _refuse(what, "pairs of hex digits", got, code="hex-invalid") from exc
    if length is not None and len(data) != length:
        raise _refuse(what, f"{length} bytes of hex", f"{len(data)} bytes", code="hex-invalid")
    return data


_URL_TO_STANDARD = bytes.maketrans(b"-_+/", b"+/!!")
_STANDARD_TO_URL = bytes.maketrans(b"+/", b"-_")


def _decode64(text: str | bytes, *, what: str, url: bool) -> bytes:
    """Decode strictly, and encode again: one sequence of bytes has one spelling."""
    name = "base64url without padding" if url else "base64 with padding"
    try:
        encoded = text.encode("ascii") if isinstance(text, str) else text
        standard = encoded.translate(_URL_TO_STANDARD) + b"=" * (-len(text) % 4) if url else encoded
        data = binascii.a2b_base64(standard, strict_mode=True)
    except (ValueError, binascii.Error) as exc:
        raise _refuse(what, name, "other text", code="base64-invalid") from exc
    again = binascii.b2a_base64(data, newline=False)
    if (again.translate(_STANDARD_TO_URL).rstrip(b"=") if url else again) != encoded:
        raise _refuse(what, name, "another spelling of the same bytes", code="base64-invalid")
    return data


def base64_bytes(text: str | bytes, *, what: str) -> bytes:
    """Decode standard base64 with padding (RFC 4648, section 4); one spelling only.

    Raises:
        EvidenceError: ``base64-invalid``.
    """
    return _decode64(text, what=what, url=False)


def base64url_bytes(text: str, *, what: str) -> bytes:
    """Decode base64url without padding (RFC 4648, section 5); one spelling only.

    Raises:
        EvidenceError: ``base64-invalid``.
    """
    return _decode64(text, what=what, url=True)


def base64url_text(data: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def base64url_json(document: Mapping[str, JsonValue]) -> str:
    """Encode as JSON without white space, in ASCII, and that as base64url: a part of a JWS (RFC 7515).

    Raises:
        ValueError: a number that JSON does not have.
    """
    return base64url_text(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())


def _unique_members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"member {twice[:80]!r} occurs twice in one object")
    return members


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):  # 1e999 would become an infinity, which no writer could put down again
        raise ValueError("a number is too large")
    return number


_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
"""Every byte except quotes and brackets."""
_SEPARATORS = b",[{"
_TOO_DEEP = f"nested deeper than {MAX_JSON_DEPTH}"
_ONE_BRACKET = bytes.maketrans(b"[]", b"{}")
_REST_OF_STRING = re.compile(rb'"[^"]*+"?')


def _is_deeper(data: bytes, limit: int) -> bool:
    """Return True if brackets outside strings of a text without escapes nest deeper than a limit, without recursion.

    Passes over all bytes remove everything except quotes and brackets, then strings, then the innermost pairs. If
    brackets remain, the text is no JSON, and the parser refuses it.
    """
    marks = data.translate(_ONE_BRACKET, _STRUCTURE).replace(b'""', b"")
    brackets = _REST_OF_STRING.sub(b"", marks)
    for _ in range(limit):
        fewer = brackets.replace(b"{}", b"")
        if len(fewer) in (0, len(brackets)):
            return False
        brackets = fewer
    return True


def _require_writable(value: JsonValue, limit: int) -> None:
    """Require a value to nest no deeper than a limit, and all text in it to be encodable.

    Half of a surrogate pair can be written as an escape, and no encoder could write it again.
    """
    level: list[JsonValue] = [value]
    depth = 0
    while level:
        inner: list[JsonValue] = []
        for each in level:
            if isinstance(each, str):
                each.encode("utf-8")
            elif isinstance(each, (list, dict)):
                if depth == limit:
                    raise ValueError(_TOO_DEEP)
                inner += each
                if isinstance(each, dict):
                    inner += each.values()
        level, depth = inner, depth + 1


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_members, parse_constant=_no_constant, parse_float=_finite)
_BYTE_ORDER_MARK = "\ufeff"


def json_value(data: bytes, *, what: str, most: int | None = None) -> JsonValue:
    """Parse one JSON document: UTF-8, no byte-order mark, no duplicate members, at most ``MAX_JSON_DEPTH`` deep.

    Args:
        data: the text.
        what: its name in errors.
        most: maximum number of commas and opening brackets, those inside strings included: it bounds the number of
            values, and with it the time of this function, before anything is parsed. None sets no bound.

    Raises:
        EvidenceError: ``json-invalid``.
    """
    try:
        if most is not None and len(data) - len(data.translate(None, _SEPARATORS)) > most:
            raise ValueError(f"more than {most} values")  # noqa: TRY301  one translation for every defect of the text
        text = data.decode("utf-8")
        # Escapes hide the ends of strings and make bytes slow to measure. With escapes, the value is measured after
        # parsing, and the interpreter's own limit on recursion guards the parser.
        escapes = b"\\" in data
        if not escapes and _is_deeper(data, MAX_JSON_DEPTH):
            raise ValueError(_TOO_DEEP)  # noqa: TRY301  one translation for every defect of the text
        if text.startswith(_BYTE_ORDER_MARK):
            raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
        value: JsonValue = _DECODER.decode(text)
        if escapes:
            _require_writable(value, MAX_JSON_DEPTH)
    except (ValueError, RecursionError) as exc:
        reason = _TOO_DEEP if isinstance(exc, RecursionError) else str(exc)
        message = f"{what} is not one strict JSON document: {reason}"
        raise EvidenceError(message, code="json-invalid", field=what) from exc
    return value


def canonical_json(value: JsonValue | Mapping[str, JsonValue]) -> bytes:
    """Encode in canonical JSON (RFC 8785), UTF-8.

    Raises:
        ValueError: a number or text that canonical JSON does not have.
    """
    document = dict(value) if isinstance(value, Mapping) else value
    return rfc8785.dumps(cast("Any", document))  # Any: JSON, as annotated


def cbor_bytes(value: CborValue) -> bytes:
    """Encode in core deterministic CBOR (RFC 8949, section 4.2.1).

    Only what is signed or hashed here: null, booleans, integers of 64 bits, byte strings, text, arrays, and maps
    with text keys. No floats and no tags, so one value has one encoding.

    Raises:
        TypeError: a value of another type.
        ValueError: an integer outside 64 bits.
    """
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _cbor_head(0, value) if value >= 0 else _cbor_head(1, -1 - value)
        case bytes():
            return _cbor_head(2, len(value)) + value
        case str():
            text = value.encode("utf-8")
            return _cbor_head(3, len(text)) + text
        case tuple() | list():
            return _cbor_head(4, len(value)) + b"".join(map(cbor_bytes, value))
        case Mapping():
            pairs = sorted((_cbor_key(name), cbor_bytes(member)) for name, member in value.items())
            return _cbor_head(5, len(pairs)) + b"".join(key + member for key, member in pairs)
    raise TypeError(f"{type(value).__name__} has no canonical CBOR form here")


def _cbor_key(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"map keys are text, not {type(name).__name__}")
    return cbor_bytes(name)


def _cbor_head(major: int, value: int) -> bytes:
    if value > _MAX_UINT64:
        raise ValueError("an integer of more than 64 bits has no canonical CBOR form here")
    if value < 24:
        return _CBOR_BYTE[major << 5 | value]
    power = (value.bit_length() - 1).bit_length() - 3  # 1, 2, 4 or 8 bytes follow the head
    return _CBOR_BYTE[major << 5 | 24 + power] + value.to_bytes(1 << power, "big")


_CBOR_BYTE = tuple(bytes([value]) for value in range(256))


def cbor_value(data: bytes, *, what: str, most: int = MAX_CBOR_VALUES) -> CborValue:
    """Decode canonical CBOR and refuse every other encoding of the same value.

    The library decodes; encoding the outcome again and comparing is what makes the reading strict (non-shortest
    integers, other key orders, indefinite lengths, duplicate keys, tags and trailing bytes all differ).

    Args:
        data: the encoding.
        what: its name in errors.
        most: maximum number of values, keys of maps included: it bounds time and memory of this function, before
            anything is decoded.

    Raises:
        EvidenceError: ``cbor-invalid``.
    """
    try:
        require_values(data, most=most)
        value: CborValue = cbor2.loads(data, max_depth=MAX_CBOR_DEPTH, allow_indefinite=False)
        again = cbor_bytes(value)
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise EvidenceError(f"{what} is not canonical CBOR: {exc}", code="cbor-invalid", field=what) from exc
    if again != data:
        raise EvidenceError(f"{what} is not canonical CBOR: it encodes differently", code="cbor-invalid", field=what)
    return value


def require_values(data: bytes, *, most: int = MAX_CBOR_VALUES) -> None:
    """Refuse CBOR of more values than this, before it is decoded.

    The first malformed value ends the count, as it ends the decoder.

    Raises:
        ValueError: there are more.
    """
    at = count = 0
    while at < len(data) and count <= most:
        major, short = data[at] >> 5, data[at] & 31
        size = 0 if short < 24 else 1 << short - 24
        if size > 8:
            return
        argument = int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else short
        at += 1 + size + (argument if major in _CBOR_STRINGS else 0)
        count += 1
    if count > most:
        raise ValueError(f"more than {most} values")


_CBOR_STRINGS = (2, 3)
"""Major types whose argument is a number of bytes that follow."""


def rfc3339(text: str, *, what: str) -> datetime:
    """Parse an RFC 3339 date and time with its offset into UTC.

    Raises:
        EvidenceError: ``time-invalid``.
    """
    expected = "an RFC 3339 time such as 2026-01-31T12:00:00Z"
    if not _RFC3339.fullmatch(text):
        raise _refuse(what, expected, repr(text[:40]), code="time-invalid")
    try:
        moment = datetime.fromisoformat(text.upper())
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise _refuse(what, expected, repr(text[:40]), code="time-invalid") from exc


def rfc3339_text(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC, with fractions only when there are any.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone differs between machines")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
