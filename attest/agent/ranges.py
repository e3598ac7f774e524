"""Which bytes of a file are asked for: ``Range`` and ``If-Range`` of RFC 9110, one range at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from attest.errors import AgentRefusedError

__all__ = ["ByteRange", "wanted_range"]

_UNIT: Final = "bytes="
_SPEC: Final = re.compile(r"(\d{0,19})-(\d{0,19})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """A part of a file, in bytes.

    Attributes:
        first: offset of its first byte.
        end: offset behind its last.
        size: of the file.
        partial: whether it was asked for as a part (206), be it the whole.
    """

    first: int
    end: int
    size: int
    partial: bool

    @property
    def length(self) -> int:
        """How many bytes."""
        return self.end - self.first

    @property
    def content_range(self) -> str:
        """The header of that name."""
        return f"bytes {self.first}-{self.end - 1}/{self.size}"


def wanted_range(text: str | None, *, if_range: str | None, etag: str, size: int) -> ByteRange:
    """Return the part of a file that a request is for.

    What is no range of bytes is refused, also where RFC 9110 (section 14.2) would allow to send the whole file instead:
    whoever wanted a part of 300 GB does not want all of it. Another unit than bytes is ignored, as it has to be.

    Args:
        text: the header ``Range``; None is the whole.
        if_range: the header ``If-Range``: the range counts for this file alone, otherwise the whole is sent.
        etag: of the file, with quotes.
        size: of the file, in bytes.

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
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < begin:
            raise _unsatisfiable(text, size)
    if begin >= end:
        raise _unsatisfiable(text, size)
    return ByteRange(first=begin, end=end, size=size, partial=True)


def _unsatisfiable(text: str, size: int) -> AgentRefusedError:
    return AgentRefusedError(
        f"{text[:80]!r} is no range of a file of {size} bytes",
        code="agent-range-invalid",
        status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        expected="one range: bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH",
        headers=(("Content-Range", f"bytes */{size}"),),
    )
