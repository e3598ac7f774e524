"""Server-sent events, as the service sends them: ``event``, ``data`` in JSON, and comments that fill up lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import AttestError
from rag_demo.client.errors import RagAnswerError

MAX_EVENT_BYTES: Final = 1024 * 1024
"""One event, filler not counted. The longest holds a passage of a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    name: str
    members: Mapping[str, JsonValue]


def read_events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """Read events as they come; an event counts once the empty line behind it is there.

    Args:
        pieces: of the stream, cut anywhere.

    Raises:
        RagAnswerError: ``rag-answer-malformed``; and the errors of ``pieces``.
    """
    name, data, size = "", list[bytes](), 0
    for line in _lines(pieces):
        if not line:
            if data:
                yield Event(name=name or "message", members=_members(b"\n".join(data)))
            name, data, size = "", [], 0
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        size += len(line)
        if size > MAX_EVENT_BYTES and field:
            raise malformed(f"an event of more than {MAX_EVENT_BYTES} bytes")
        if field == b"event":
            name = _text(value)
        elif field == b"data":
            data.append(value)
        elif not field:
            size -= len(line)
    if data:
        raise malformed("an event without an end")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for piece in pieces:
        begin = len(waiting)
        waiting += piece
        if b"\n" not in piece:
            if begin + len(piece) > 2 * MAX_EVENT_BYTES:
                raise malformed(f"a line of more than {2 * MAX_EVENT_BYTES} bytes")
            continue
        *whole, rest = bytes(waiting).split(b"\n")
        waiting = bytearray(rest)
        yield from (line.removesuffix(b"\r") for line in whole)
    if waiting:
        raise malformed("a line without an end")


def _members(data: bytes) -> Mapping[str, JsonValue]:
    try:
        found = json_value(data, what="event")
    except AttestError as exc:
        raise malformed(exc.message) from exc
    if not isinstance(found, dict):
        raise malformed("an event that is not an object")
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise malformed("a name that is not UTF-8") from exc


def malformed(problem: str) -> RagAnswerError:
    """Return the error for a malformed answer of the service."""
    return RagAnswerError(
        f"the answer of the service violates its interface: {problem}",
        code="rag-answer-malformed",
        hint="the service and this client have different versions, or one of them has a bug",
    )
