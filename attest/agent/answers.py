"""Requests and answers of the agent, and refusals as problem details (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue
from attest.errors import (
    AgentRefusedError,
    AgentUnavailableError,
    AttestError,
    CollectionError,
    EndorsementError,
    LeaseLostError,
    ReleaseRefusedError,
    SealedSourceError,
    ServiceNotGenuineError,
)
from attest.release.names import KeyReference

PROBLEM: Final = "application/problem+json"
_TYPE: Final = "tag:attest,2026:agent/"
_STATUS: Final[tuple[tuple[type[AttestError], HTTPStatus], ...]] = (
    (LeaseLostError, HTTPStatus.GONE),
    (ReleaseRefusedError, HTTPStatus.FORBIDDEN),
    (ServiceNotGenuineError, HTTPStatus.BAD_GATEWAY),
    (EndorsementError, HTTPStatus.SERVICE_UNAVAILABLE),
    (CollectionError, HTTPStatus.SERVICE_UNAVAILABLE),
    (SealedSourceError, HTTPStatus.SERVICE_UNAVAILABLE),
    (AgentUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The first matching class counts; any other error is internal, status 500."""
_SHOWN: Final = frozenset({"check", "field", "expected", "got", "clause", "hint", "retryable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """A request of a peer as received; headers have lower-case names, and repeated ones are joined with ``, ``."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass(slots=True, kw_only=True, eq=False)
class AgentAnswer:
    """An answer to a peer.

    Attributes:
        status: of HTTP.
        headers: without Content-Length.
        body: all of it; a bytearray is overwritten after sending.
        pieces: of a body that is too large for ``body``; each is sent before the next is taken.
        length: of the body, in bytes.
        needs: key whose lease the answer depends on; losing the lease breaks it off.
        require: raises once the lease is lost.
        close: called after sending, or after a failure.
        code: reason of a refusal, for the log.
        hides_size: the log does not say how long the body is: it is a secret.
    """

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | bytearray = b""
    pieces: Iterator[memoryview] | None = None
    length: int = 0
    needs: KeyReference | None = None
    require: Callable[[], None] = field(default=lambda: None)
    close: Callable[[], None] = field(default=lambda: None)
    code: str | None = None
    hides_size: bool = False


def json_answer(
    document: JsonValue, *, status: HTTPStatus = HTTPStatus.OK, media_type: str = "application/json"
) -> AgentAnswer:
    """Return a document as an answer."""
    body = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    headers = (("Content-Type", media_type), ("Cache-Control", "no-store"))
    return AgentAnswer(status=status, headers=headers, body=body, length=len(body))


def problem(error: AttestError, *, retry_after: float | None = None) -> AgentAnswer:
    """Return a refusal as an answer; a retry is useful after ``retry_after`` seconds."""
    status = _status_of(error)
    document: dict[str, JsonValue] = {
        "type": _TYPE + error.code,
        "title": status.phrase,
        "status": int(status),
        "detail": error.message,
        "code": error.code,
        **{name: value for name, value in error.context().items() if name in _SHOWN},
    }
    failed: tuple[JsonValue, ...] = getattr(error, "failed_checks", ())
    if failed:
        document["failed_checks"] = list(failed)
    answer = json_answer(document, status=status, media_type=PROBLEM)
    if isinstance(error, AgentRefusedError):
        answer.headers += error.headers
    seconds = retry_after or getattr(error, "retry_after", None)
    if seconds:
        answer.headers += (("Retry-After", str(int(seconds + 0.999))),)
    answer.code = error.code
    return answer


def _status_of(error: AttestError) -> HTTPStatus:
    if isinstance(error, AgentRefusedError):
        return HTTPStatus(error.status)
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
