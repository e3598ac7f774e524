"""Incremental decoder of binary HTTP: lengths are checked before their bytes are awaited.

The decoder is one procedure, a generator that pauses where bytes are missing. Its early events are not yet known to be
part of a valid message: side effects wait for ``finish``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal

from attest.channel.messages import (
    LIMITS,
    Fields,
    MessageLimits,
    Request,
    Response,
    require_field,
    require_status,
    too_long,
)
from attest.errors import ChannelError

_CLAUSE = "RFC 9292, section 3"
_KINDS = {0: ("request", False), 1: ("response", False), 2: ("request", True), 3: ("response", True)}
_CONTROL = ("method", "scheme", "authority", "path")


Event = Request | Response | bytes
"""First the head, a message without content and trailers; then pieces of the content."""
_Step = Generator[Event | None, None, None]
"""Yields events, and None to request more bytes."""


class _Input:
    """Bytes of a message as they arrive, with readers that pause where some are missing."""

    __slots__ = ("at_end", "buffer")

    def __init__(self, data: bytes = b"", *, at_end: bool = False) -> None:
        self.buffer = bytearray(data)
        self.at_end = at_end

    def is_over(self) -> Generator[Event | None, None, bool]:
        """Wait for a byte or for the end; return whether it is the end."""
        while not self.buffer and not self.at_end:
            yield None
        return not self.buffer

    def take(self, size: int, what: str) -> Generator[Event | None, None, bytes]:
        while len(self.buffer) < size:
            if self.at_end:
                raise _truncated(what)
            yield None
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def integer(self, what: str) -> Generator[Event | None, None, int]:
        first = (yield from self.take(1, what))[0]
        rest = yield from self.take((1 << (first >> 6)) - 1, what)
        return int.from_bytes(bytes((first & 0x3F,)) + rest, "big")

    def prefixed(self, what: str, limit: int) -> Generator[Event | None, None, bytes]:
        size = yield from self.integer(f"{what} length")
        if size > limit:
            raise too_long(what, limit, size)
        return (yield from self.take(size, what))


class MessageDecoder:
    """Decoder of one message."""

    __slots__ = ("_content", "_input", "_kind", "_limits", "_over", "_steps", "trailers")

    def __init__(self, kind: Literal["request", "response"], *, limits: MessageLimits = LIMITS) -> None:
        self._kind = kind
        self._limits = limits
        self._input = _Input()
        self._over = False
        self._content = 0
        self.trailers: Fields = ()
        self._steps = self._message()

    def feed(self, data: bytes) -> tuple[Event, ...]:
        """Add bytes, and return the events that they complete.

        Raises:
            ChannelError: ``bhttp-malformed``, ``bhttp-truncated``, ``bhttp-field-invalid``, ``bhttp-too-long`` or
                ``bhttp-padding-invalid``; the message is then over.
        """
        self._input.buffer += data
        return self._advance()

    def finish(self) -> tuple[Event, ...]:
        """Mark the end of the bytes. A normal return means a complete and valid message.

        Raises:
            ChannelError: as ``feed``.
        """
        self._input.at_end = True
        return self._advance()

    def _advance(self) -> tuple[Event, ...]:
        if self._over:
            raise _malformed("the message was refused or is over already")
        events: list[Event] = []
        self._over = True  # cleared on a normal pause below: a refused message stays refused
        for event in self._steps:
            if event is None:
                self._over = False
                break
            events.append(event)
        return tuple(events)

    # -- the procedure

    def _message(self) -> _Step:
        # (1) The framing.
        number = yield from self._input.integer("framing")
        kind, indeterminate = _KINDS.get(number, ("", False))
        if kind != self._kind:
            raise _malformed(f"framing {number} is not valid for a {self._kind}")
        # (2) Control data and header lines.
        if kind == "request":
            yield (yield from self._request_head(indeterminate=indeterminate))
        else:
            yield (yield from self._response_head(indeterminate=indeterminate))
        # (3) Content, trailers and padding; the message may end before any of them.
        yield from self._pieces(indeterminate=indeterminate)
        self.trailers = yield from self._section("trailers", indeterminate=indeterminate)
        yield from self._padding()

    def _request_head(self, *, indeterminate: bool) -> Generator[Event | None, None, Request]:
        control: list[str] = []
        for name in _CONTROL:
            raw = yield from self._input.prefixed(name, getattr(self._limits, name))
            control.append(raw.decode("latin-1"))  # Request accepts only parts of ASCII
        fields = yield from self._section("header", indeterminate=indeterminate)
        method, scheme, authority, path = control
        return Request(method=method, scheme=scheme, authority=authority, path=path, fields=fields)

    def _response_head(self, *, indeterminate: bool) -> Generator[Event | None, None, Response]:
        interim: list[tuple[int, Fields]] = []
        while True:
            status = yield from self._input.integer("status")
            if status // 100 != 1:
                break
            if len(interim) == self._limits.interim:
                raise too_long("interim responses", self._limits.interim, len(interim) + 1)
            if (yield from self._input.is_over()):
                raise _truncated("an interim response")
            interim.append((status, (yield from self._section("header", indeterminate=indeterminate))))
        require_status(status, interim=False)  # before the fields are awaited
        fields = yield from self._section("header", indeterminate=indeterminate)
        return Response(status=status, fields=fields, interim=tuple(interim))

    def _section(self, what: str, *, indeterminate: bool) -> Generator[Event | None, None, Fields]:
        if (yield from self._input.is_over()):
            return ()
        if indeterminate:
            return (yield from _lines(self._input, what, self._limits, sized=False))
        raw = yield from self._input.prefixed(f"{what} section", self._limits.section)
        return (yield from _lines(_Input(raw, at_end=True), what, self._limits, sized=True))

    def _pieces(self, *, indeterminate: bool) -> _Step:
        if (yield from self._input.is_over()):
            return
        while size := (yield from self._input.integer("content length")):
            yield from self._piece(size)
            if not indeterminate:
                return

    def _piece(self, size: int) -> _Step:
        """Yield content as it arrives."""
        self._content += size
        if self._content > self._limits.content:
            raise too_long("content", self._limits.content, self._content)
        while size:
            if (yield from self._input.is_over()):
                raise _truncated("the content")
            data = bytes(self._input.buffer[:size])
            del self._input.buffer[: len(data)]
            size -= len(data)
            yield data

    def _padding(self) -> _Step:
        found = 0
        while True:
            found += len(self._input.buffer)
            if found > self._limits.padding:
                raise too_long("padding", self._limits.padding, found)
            if any(self._input.buffer):
                raise ChannelError("the padding is not zero", code="bhttp-padding-invalid", clause=f"{_CLAUSE}.8")
            self._input.buffer.clear()
            if self._input.at_end:
                return
            yield None


class _Lines:
    """Lines of one section, within its limits."""

    def __init__(self, what: str, limits: MessageLimits) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        self._what = what
        self._limits = limits
        self._size = 0
        self._ordinary = what == "trailers"

    def require_name(self, size: int) -> None:
        """Require room for another line with a name of this size."""
        if len(self.found) == self._limits.fields:
            raise too_long(f"{self._what} fields", self._limits.fields, len(self.found) + 1)
        if size > self._limits.name:
            raise too_long(f"{self._what} name", self._limits.name, size)
        self._size += size
        if self._size > self._limits.section:
            raise too_long(f"{self._what} section", self._limits.section, self._size)

    def room(self) -> int:
        """Return the largest length of the value."""
        return min(self._limits.value, self._limits.section - self._size)

    def add(self, name: bytes, value: bytes) -> None:
        """Add a line."""
        self._size += len(value)
        self._ordinary = require_field(name, value, ordinary=self._ordinary)
        self.found.append((name, value))


def _lines(source: _Input, what: str, limits: MessageLimits, *, sized: bool) -> Generator[Event | None, None, Fields]:
    """Decode the lines of a section, to its terminator or to the end of a sized one."""
    lines = _Lines(what, limits)
    while not (sized and (yield from source.is_over())):
        size = yield from source.integer(f"{what} name length")
        if size == 0:
            if sized:
                raise _malformed(f"{what}: a field without a name")
            break
        lines.require_name(size)
        name = yield from source.take(size, f"{what} name")
        value = yield from source.prefixed(f"{what} value", lines.room())
        lines.add(name, value)
    return tuple(lines.found)


def _truncated(what: str) -> ChannelError:
    return ChannelError(f"the message ends inside {what}", code="bhttp-truncated", field=what, clause=_CLAUSE)


def _malformed(problem: str) -> ChannelError:
    return ChannelError(f"binary HTTP: {problem}", code="bhttp-malformed", clause=_CLAUSE)
