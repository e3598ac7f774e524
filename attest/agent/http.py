"""HTTP/1.1 on one connection (RFC 9112), parsed by h11 within limits of size and time.

A request has no body, and a head of at most ``MAX_HEAD_BYTES`` that arrives within its time limit. Every answer
states its length. A failure while sending closes the connection before that length is reached, so that truncation
shows.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

import h11

from attest.agent.answers import AgentAnswer, AgentRequest, problem
from attest.agent.config import AgentLimits
from attest.agent.logs import log_exchange
from attest.agent.peers import Peer
from attest.agent.streams import Streams
from attest.errors import AgentRefusedError, AttestError, LeaseLostError

MAX_HEAD_BYTES: Final = 16 * 1024
_SEND_BYTES: Final = 1 << 20
_VERSIONS: Final = (b"1.0", b"1.1")
_log = logging.getLogger("attest.agent")
Answering = Callable[[Peer, AgentRequest], AgentAnswer]


@dataclass(slots=True, kw_only=True, eq=False)
class Conversation:
    """One connection, from acceptance to close.

    ``answering`` answers a request; ``streams`` registers answers that depend on a lease; ``ticks`` returns seconds
    that never run backwards; ``ending`` returns True during shutdown, when no further request is read. ``refused``
    renders what is wrong with a request itself.
    """

    sock: socket.socket
    peer: Peer
    answering: Answering
    streams: Streams
    limits: AgentLimits
    ticks: Callable[[], float]
    ending: Callable[[], bool]
    refused: Callable[[AttestError], AgentAnswer] = problem
    _http: h11.Connection = field(
        default_factory=partial(h11.Connection, h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES), init=False
    )

    def run(self) -> None:
        """Answer requests until either side closes."""
        with self.sock:
            try:
                while not self.ending() and self._one():
                    self._http.start_next_cycle()
            except OSError as exc:  # the peer is gone, or does not read its answer
                _log.debug("a connection of user %d ended: %s", self.peer.uid, exc)

    def _one(self) -> bool:
        """Answer one request; return whether another may follow."""
        try:
            request = self._request()
        except h11.RemoteProtocolError as exc:
            self._refuse(_malformed(exc))
            return False
        except TimeoutError:
            if self._http.trailing_data[0]:  # first bytes of a request
                self._refuse(_too_slow(self.limits.head_seconds))
            return False
        if request is None:
            return False
        whole = self._reply(request)
        return whole and self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _reply(self, request: AgentRequest) -> bool:
        begun = self.ticks()
        answer = self.refused(_has_body()) if _announces_body(request) else self.answering(self.peer, request)
        try:
            sent, whole = self._send(request, answer)
        finally:
            answer.close()
        log_exchange(self.peer, request, answer, sent=sent, seconds=self.ticks() - begun, whole=whole)
        return whole

    # -- reading

    def _request(self) -> AgentRequest | None:
        """Read the head of a request; None at the end of the connection.

        Raises:
            TimeoutError: it did not arrive in time.
            h11.RemoteProtocolError: it is malformed or too long.
        """
        begun = bool(self._http.trailing_data[0])
        end = self.ticks() + (self.limits.head_seconds if begun else self.limits.idle_seconds)
        head: AgentRequest | None = None
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                room = MAX_HEAD_BYTES - len(self._http.trailing_data[0])
                if room <= 0:  # h11 takes any head that is complete when it looks at it, whatever its length
                    raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
                data = self._receive(end, room)
                if data and not begun:  # the time limit of the head starts with its first byte
                    begun, end = True, min(end, self.ticks() + self.limits.head_seconds)
                self._http.receive_data(data)
            elif isinstance(event, h11.Request):
                if event.http_version not in _VERSIONS:
                    raise h11.RemoteProtocolError("another version of HTTP")
                head = _request_of(event)
                if self._http.their_state is h11.SEND_BODY and _announces_body(head):
                    return head
            elif isinstance(event, h11.EndOfMessage):
                return head
            else:
                return None

    def _receive(self, end: float, room: int) -> bytes:
        left = end - self.ticks()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)
        return self.sock.recv(room)

    # -- sending

    def _refuse(self, error: AgentRefusedError) -> None:
        answer = self.refused(error)
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            head = h11.Response(status_code=int(answer.status), headers=[*_headers(answer), ("Connection", "close")])
            self._write([self._http.send(head) or b"", bytes(answer.body)])
        log_exchange(self.peer, None, answer)

    def _send(self, request: AgentRequest, answer: AgentAnswer) -> tuple[int, bool]:
        """Send an answer; return the number of body bytes sent and whether the body is complete."""
        try:
            first = next(answer.pieces, None) if answer.pieces is not None else None
        except AttestError as exc:  # before the head is sent, a refusal can still replace it
            failed, answer.pieces = problem(exc), None
            answer.status, answer.headers, answer.code = failed.status, failed.headers, failed.code
            answer.body, answer.length, answer.needs = failed.body, failed.length, None
            first = None
        headers = _headers(answer)
        if self.ending() or self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))
        head = self._http.send(h11.Response(status_code=int(answer.status), headers=headers)) or b""
        if request.method == "HEAD":
            self._write([head])
            self._http.send(h11.EndOfMessage())
            return 0, True
        if answer.pieces is None:
            return self._send_body(head, answer), True
        return self._send_pieces(head, answer, first)

    def _send_body(self, head: bytes, answer: AgentAnswer) -> int:
        body = answer.body
        try:
            # Past h11, which would make copies of a key that nothing overwrites.
            self._http.send_with_data_passthrough(h11.Data(data=memoryview(body)))  # type: ignore[arg-type]  # any buffer does
            self._write([head, body])
        finally:
            if isinstance(body, bytearray):
                body[:] = bytes(len(body))
        self._http.send(h11.EndOfMessage())
        return len(body)

    def _send_pieces(self, head: bytes, answer: AgentAnswer, first: memoryview | None) -> tuple[int, bool]:
        sent, piece = 0, first
        try:
            with self.streams.under_way(self.sock, answer.needs):
                self._write([head])
                while piece is not None and answer.pieces is not None:
                    answer.require()
                    self._http.send_with_data_passthrough(h11.Data(data=piece))  # type: ignore[arg-type]  # any buffer does
                    self._write([piece])
                    sent += len(piece)
                    piece = next(answer.pieces, None)
        except (AttestError, OSError) as exc:
            answer.code = _reason(exc, self.streams.reason(answer.needs))
            self._abort()
            return sent, False
        self._http.send(h11.EndOfMessage())
        return sent, True

    def _write(self, parts: list[bytes | bytearray | memoryview]) -> None:
        """Send all of it. The time limit is for each MiB, so that a slow reader is still served."""
        for part in parts:
            view = memoryview(part)
            for begin in range(0, len(view), _SEND_BYTES):
                self.sock.settimeout(self.limits.stall_seconds)
                self.sock.sendall(view[begin : begin + _SEND_BYTES])

    def _abort(self) -> None:
        """Close the connection before the stated length is reached."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _headers(answer: AgentAnswer) -> list[tuple[str, str]]:
    return [*answer.headers, ("Content-Length", str(answer.length))]


def _request_of(event: h11.Request) -> AgentRequest:
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key, text = name.decode("ascii").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return AgentRequest(method=event.method.decode("ascii"), target=event.target.decode("latin-1"), headers=headers)


def _announces_body(request: AgentRequest) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _reason(exc: Exception, lost: LeaseLostError | None) -> str:
    if isinstance(exc, AttestError):
        return exc.code
    if lost is not None:
        return lost.code
    return "agent-peer-stalled" if isinstance(exc, TimeoutError) else "agent-peer-gone"


def _malformed(exc: h11.RemoteProtocolError) -> AgentRefusedError:
    if exc.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return AgentRefusedError(
            f"the head of a request is longer than {MAX_HEAD_BYTES} bytes",
            code="agent-head-too-large",
            status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        )
    return AgentRefusedError(
        "this is not a valid HTTP/1.1 request", code="agent-request-invalid", status=HTTPStatus.BAD_REQUEST
    )


def _too_slow(seconds: float) -> AgentRefusedError:
    return AgentRefusedError(
        f"the head of a request did not come within {seconds:g} s",
        code="agent-request-slow",
        status=HTTPStatus.REQUEST_TIMEOUT,
    )


def _has_body() -> AgentRefusedError:
    return AgentRefusedError(
        "no request here has a body", code="agent-request-invalid", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    )
