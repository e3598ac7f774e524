"""Binary HTTP, RFC 9292: requests and responses as bytes, known-length and indeterminate.

::

    v(n)     QUIC variable-length integer; the two top bits of the first byte give 1, 2, 4 or 8 bytes
    lp(x)    v(length) ‖ x
    0 / 2    lp(method) lp(scheme) lp(authority) lp(path)          request, known length / indeterminate
    1 / 3    { v(1xx) fields }* v(status)                          response, as above
    fields   0, 1: lp( { lp(name) lp(value) }* )                   2, 3: { lp(name) lp(value) }* 00
    content  0, 1: lp(bytes)                                       2, 3: { v(n) n bytes }* 00
    trailers as fields, then zero bytes of padding to the end

``bhttp_decoder`` reads; integers longer than necessary are accepted and never written.
"""

from __future__ import annotations

from typing import Final

from attest.channel.messages import CONNECTION_FIELDS, Fields, Request, Response

MEDIA_TYPE: Final = "message/bhttp"
END: Final = b"\x00"
"""Terminator of a section or content in an indeterminate message."""
_MAX_VARINT = (1 << 62) - 1


def varint(number: int) -> bytes:
    """Encode an integer in the fewest bytes (RFC 9000, section 16).

    Raises:
        ValueError: negative, or 2^62 and more.
    """
    if not 0 <= number <= _MAX_VARINT:
        raise ValueError(f"{number} is not a variable-length integer")
    for size, limit in ((1, 6), (2, 14), (4, 30)):
        if number < 1 << limit:
            return (number | (size >> 1) << 8 * size - 2).to_bytes(size, "big")
    return (number | 3 << 62).to_bytes(8, "big")


def encode_request(request: Request, *, indeterminate: bool = False) -> bytes:
    """Encode a request, without padding and without fields of the connection."""
    head = request_head(request, indeterminate=indeterminate)
    return head + _rest(request.content, request.trailers, indeterminate=indeterminate)


def encode_response(response: Response, *, indeterminate: bool = False) -> bytes:
    """Encode a response, without padding and without fields of the connection."""
    head = response_head(response, indeterminate=indeterminate)
    return head + _rest(response.content, response.trailers, indeterminate=indeterminate)


def request_head(request: Request, *, indeterminate: bool) -> bytes:
    """Encode the part before the content."""
    control = (request.method, request.scheme, request.authority, request.path)
    framing = varint(2 if indeterminate else 0)
    return (
        framing
        + b"".join(_prefixed(part.encode("ascii")) for part in control)
        + section(request.fields, indeterminate=indeterminate)
    )


def response_head(response: Response, *, indeterminate: bool) -> bytes:
    """Encode the part before the content."""
    interim = b"".join(
        varint(status) + section(fields, indeterminate=indeterminate) for status, fields in response.interim
    )
    return (
        varint(3 if indeterminate else 1)
        + interim
        + varint(response.status)
        + section(response.fields, indeterminate=indeterminate)
    )


def section(fields: Fields, *, indeterminate: bool) -> bytes:
    """Encode header or trailer lines."""
    lines = b"".join(_prefixed(name) + _prefixed(value) for name, value in fields if name not in CONNECTION_FIELDS)
    return lines + END if indeterminate else _prefixed(lines)


def written_content(data: bytes) -> bytes:
    """Encode a piece of an indeterminate message's content; an empty piece would mark its end and is left out."""
    return _prefixed(data) if data else b""


def _rest(content: bytes, trailers: Fields, *, indeterminate: bool) -> bytes:
    body = written_content(content) + END if indeterminate else _prefixed(content)
    return body + section(trailers, indeterminate=indeterminate)


def _prefixed(data: bytes) -> bytes:
    return varint(len(data)) + data
