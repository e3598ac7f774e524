"""Checks of a request that opened to its end and is valid HTTP; the order is that of channel.md."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import replace
from datetime import datetime, timedelta

from attest.channel.fields import DATE, EVIDENCE, parse_http_date
from attest.channel.messages import CONNECTION_FIELDS, Fields, Request, field_values
from attest.channel.refusals import MALFORMED, MISDIRECTED, STALE_DATE, STALE_PROOF, ChannelRefusal
from attest.encoding import base64url_bytes
from attest.errors import AttestError


def checked_request(
    head: Request,
    content: bytes,
    trailers: Fields,
    *,
    authorities: Collection[str],
    proofs: Container[bytes],
    window: timedelta,
    at: datetime,
) -> Request | ChannelRefusal:
    """Return the request for the application, or its refusal.

    ``proofs`` are digests of the evidence that the service gave out for this key. ``window`` is the largest difference
    between the request's date and ``at``, included; ``at`` is the moment when the first part of the request opened,
    aware.
    """
    # (1) The date is within the window.
    date = _single(head.fields, DATE)
    moment = None if date is None else parse_http_date(date)
    if moment is None or abs(at - moment) > window:
        return STALE_DATE
    # (2) The client appraised evidence that this service gave out.
    if field_values(head.fields, EVIDENCE) and not _known_proof(_single(head.fields, EVIDENCE), proofs):
        return STALE_PROOF
    # (3) The request is for this service.
    authority = _authority(head)
    if authority is None:
        return MALFORMED
    if authority not in authorities:
        return MISDIRECTED
    # (4) Nothing in it has a meaning on a connection alone.
    lengths = set(field_values(head.fields, b"content-length"))
    if head.method == "CONNECT" or field_values(head.fields, b"expect"):
        return MALFORMED
    if lengths and lengths != {str(len(content)).encode()}:
        return MALFORMED
    fields = tuple(line for line in head.fields if line[0] not in CONNECTION_FIELDS)
    return replace(head, authority=authority, fields=fields, content=content, trailers=trailers)


def _known_proof(text: bytes | None, proofs: Container[bytes]) -> bool:
    try:
        proof = base64url_bytes((text or b"").decode("latin-1"), what="attest-evidence")
    except AttestError:
        return False
    return proof in proofs


def _single(fields: Fields, name: bytes) -> bytes | None:
    values = field_values(fields, name)
    return values[0] if len(values) == 1 else None


def _authority(head: Request) -> str | None:
    """Return the authority of the control data or of the Host field; both have to agree (channel.md 2.3)."""
    hosts = [value.decode("latin-1") for value in field_values(head.fields, b"host")]
    stated = {*hosts, *([head.authority] if head.authority else [])}
    return stated.pop() if len(stated) == 1 and len(hosts) <= 1 else None
