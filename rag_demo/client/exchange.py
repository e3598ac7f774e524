"""One message to the service and its answer, sealed both ways; each failure is an error that users can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import httpx

from attest.channel import ChannelTransport
from attest.context_managers import ClosedOnExit
from attest.encoding import JsonValue, json_value
from attest.errors import AttestError
from rag_demo.client.errors import RagAnswerError, refused, unjudged, unproven_hint, unreachable
from rag_demo.client.events import Event, malformed, read_events
from rag_demo.client.token import UserToken
from rag_demo.client.trust import MachineTrust, SentTo, TrustView

MAX_WHOLE_BYTES: Final = 8 * 1024 * 1024
"""An answer that is not a stream, such as a list of documents."""
_EVENTS: Final = "text/event-stream"
_REFUSED: Final = 400


class ClientExchange(ClosedOnExit):
    """A message that was answered; close it, or read it to its end.

    Attributes:
        sent_to: the key that the message was sealed to.
    """

    def __init__(self, response: httpx.Response, sent_to: SentTo, *, url: str) -> None:
        self.sent_to = sent_to
        self._response = response
        self._url = url

    def whole(self) -> JsonValue:
        """Return all of the answer, in JSON; None where it is empty.

        Raises:
            AttestError: it was cut, or is not JSON; or ``rag-unreachable``.
        """
        body = self._bytes()
        if not body:
            return None
        try:
            return json_value(body, what="answer")
        except AttestError as exc:
            raise malformed(exc.message) from exc

    def events(self) -> Iterator[Event]:
        """Yield the events of a stream; errors as ``whole``."""
        kind = self._response.headers.get("content-type", "").partition(";")[0].strip()
        if kind != _EVENTS:
            raise malformed(f"expected a stream of events, got {ascii(kind)[:60]}")
        with _translated(self._url):
            yield from read_events(self._response.iter_raw())

    def require_accepted(self) -> None:
        """Require that the service accepted the request.

        Raises:
            RagRefusedError: with the service's own code.
        """
        status = self._response.status_code
        if status < _REFUSED:
            return
        try:
            problem = json_value(self._bytes(), what="refusal")
        except RagAnswerError:
            raise
        except AttestError:  # no JSON: the status suffices
            problem = None
        raise refused(problem, status)

    def close(self) -> None:
        """Stop reading."""
        self._response.close()

    def _bytes(self) -> bytes:
        found = bytearray()
        with _translated(self._url):
            for piece in self._response.iter_raw():
                found += piece
                if len(found) > MAX_WHOLE_BYTES:
                    raise malformed(f"an answer of more than {MAX_WHOLE_BYTES} bytes")
        return bytes(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Messenger:
    """Sender of messages through the channel.

    Attributes:
        service: its name in its evidence.
        authority: the host inside the encryption.
    """

    url: str
    service: str
    authority: str
    token: UserToken
    trust: MachineTrust
    network: httpx.BaseTransport
    clock: Callable[[], datetime]
    timeout: httpx.Timeout

    def open(
        self,
        method: str,
        target: str,
        content: Callable[[], Iterable[bytes]] | Mapping[str, JsonValue] | None = None,
        *,
        media_type: str = "application/octet-stream",
        anew: bool = False,
    ) -> ClientExchange:
        """Send a message, and return its answer with the content still to come; ``anew`` as for ``TrustView``.

        Raises:
            RagRefusedError: the service refused it.
            RagUnreachableError: no answer.
            AttestError: the machine does not prove itself or does not meet the policy, and nothing was sent; or the
                answer is altered, cut or malformed.
        """
        view = TrustView(self.trust, anew=anew)
        transport = ChannelTransport(self.url, view, clock=self.clock, transport=self.network)
        with self._noted(view), _translated(self.url):
            response = transport.handle_request(self._request(view, method, target, content, media_type))
        exchange = ClientExchange(response, _known(view), url=self.url)
        try:
            exchange.require_accepted()
        except BaseException:
            exchange.close()
            raise
        return exchange

    def _request(
        self,
        view: TrustView,
        method: str,
        target: str,
        content: Callable[[], Iterable[bytes]] | Mapping[str, JsonValue] | None,
        media_type: str,
    ) -> httpx.Request:
        headers = {"authorization": self.token.header(self.service)}
        body: bytes | Iterable[bytes] | None = None
        if callable(content):
            headers["content-type"] = media_type
            body = view.while_trusted(content())
        elif content is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(content).encode()
        return httpx.Request(
            method,
            f"https://{self.authority}{target}",
            headers=headers,
            content=body,
            extensions={"timeout": self.timeout.as_dict()},
        )

    @contextmanager
    def _noted(self, view: TrustView) -> Iterator[None]:
        """Keep the reason for sending nothing: after one failure, the machine is no longer trusted."""
        try:
            yield
        except AttestError as exc:
            if view.sent_to is None:
                exc.hint = exc.hint or unproven_hint(exc)
                self.trust.failed(exc, self.clock())
            raise
        except Exception as exc:
            # Evidence that could not be appraised proves nothing.
            if view.sent_to is not None:
                raise
            error = unjudged(exc)
            self.trust.failed(error, self.clock())
            raise error from exc


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as exc:
        raise unreachable(url, exc) from exc


def _known(view: TrustView) -> SentTo:
    if view.sent_to is None:  # the transport always seals to a key of the view
        raise AssertionError("a message was sent without a key")
    return view.sent_to
