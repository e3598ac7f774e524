"""Requested ranges of a file: ``Range`` and ``If-Range`` of RFC 9110, one range at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from attest.errors import AgentRefusedError

_UNIT: Final = "bytes="
_SPEC: Final = re.compile(r"(\d{0,19})-(\d{0,19})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """The bytes [first, end) of a file; ``partial`` if requested as a part (status 206), even of all bytes."""

    first: int
    end: int
    size: int
    partial: bool

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.end - self.first

    @property
    def content_range(self) -> str:
        """Value of the header ``Content-Range``."""
        return f"bytes {self.first}-{self.end - 1}/{self.size}"


def wanted_range(text: str | None, *, if_range: str | None, etag: str, size: int) -> ByteRange:
    """Return the requested part of a file.

    An unsatisfiable or malformed byte range is refused, although RFC 9110 (section 14.2) would allow the whole file:
    a client that wants a part of 300 GB does not want all of it. Units other than bytes are ignored, as required.

    ``text`` is the header ``Range`` and ``if_range`` the header ``If-Range``: unless it matches the etag, which has
    quotes, the whole file is sent.

    Raises:
        AgentRefusedError: ``agent-range-invalid``.
    """
    whole = ByteRange(first=0, end=size, size=size, partial=False)
    if text is None or not text.lower().startswith(_UNIT) or (if_range is not None and if_range.strip() != etag):
        return whole
    spec = _SPEC.fullmatch(text[len(_UNIT) :].strip())
    if spec is None or spec[0] == "-":
        raise _unsatisfiable(text, size)
    first, last = spec[1], spec[2]
    if first:
        begin, end = int(first), min(size, int(last) + 1) if last else size
    else:
        begin, end = max(0, size - int(last)), size
    if begin >= end:
        raise _unsatisfiable(text, size)
    return ByteRange(first=begin, end=end, size=size, partial=True)


def _unsatisfiable(text: str, size: int) -> AgentRefusedError:
    return AgentRefusedError(
        f"{text[:80]!r} is not a range of a file of {size} bytes",
        code="agent-range-invalid",
        status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        expected="one range: bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH",
        headers=(("Content-Range", f"bytes */{size}"),),
    )
