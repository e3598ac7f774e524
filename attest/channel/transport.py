"""Transports for httpx: requests to ``https://SERVICE/…`` use the channel, never an unencrypted connection.

::

    trust = AttestedTrust(expectation, random=os.urandom)
    transport = ChannelTransport("http://gateway:8080", trust, clock=clock)
    with httpx.Client(transport=transport, base_url="https://rag.example") as client:
        client.post("/v1/ask", json={"question": "…"})

The host of a request's URL is the recipient, inside the encryption; the gateway's address is the outer destination.
Uploads may be iterators; answers can be streamed, and raise if truncated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, Generic, TypeVar

import httpx

from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH
from attest.channel.client import ANSWER_LIMITS, AnswerOpener, RequestSealer
from attest.channel.config import DEFAULT_KEMS
from attest.channel.content_streams import (
    AsyncOpenedAnswer,
    AsyncSealedContent,
    OpenedAnswer,
    SealedContent,
    opened_response,
)
from attest.channel.fields import DATE, parse_http_date, refusal_code
from attest.channel.messages import CONNECTION_FIELDS, MessageLimits, Request, Response, field_values
from attest.channel.ohttp import MessageForm
from attest.channel.records import TrustedKeys
from attest.channel.trust import KeyQuestion, RecipientTrust
from attest.errors import ChannelRefusedError

MAX_OFFER_BYTES: Final = 4 * 1024 * 1024
_LEFT_OUT = CONNECTION_FIELDS | {b"host", b"accept-encoding", DATE}
"""Compression would mix secrets with attacker-chosen text, and show in lengths; sealing adds the date."""


_Sender = TypeVar("_Sender", httpx.BaseTransport, httpx.AsyncBaseTransport)


class _Channel(ABC, Generic[_Sender]):
    """Settings of a transport, and the work in it that is no I/O."""

    def __init__(
        self,
        gateway: str,
        trust: RecipientTrust,
        *,
        clock: Callable[[], datetime],
        kems: Collection[int] = DEFAULT_KEMS,
        form: MessageForm = MessageForm.CHUNKED,
        padding: bool = True,
        limits: MessageLimits = ANSWER_LIMITS,
        transport: _Sender | None = None,
    ) -> None:
        self._gateway = gateway.rstrip("/")
        self._trust = trust
        self._clock = clock
        self._kems = kems
        self._form = form
        self._padding = padding
        self._limits = limits
        self._transport: _Sender = transport or self._own_transport()

    @staticmethod
    @abstractmethod
    def _own_transport() -> _Sender:
        """Return httpx's own transport."""

    def _sealer(self, trusted: TrustedKeys, request: httpx.Request, at: datetime, date: datetime) -> RequestSealer:
        return RequestSealer(
            trusted, _request(request), at=at, date=date, kems=self._kems, form=self._form, padding=self._padding
        )

    def _post(
        self, request: httpx.Request, sealer: RequestSealer, content: httpx.SyncByteStream | httpx.AsyncByteStream
    ) -> httpx.Request:
        """Return the request to the gateway, with content that is sealed as it is sent."""
        address = httpx.URL(self._gateway + GATEWAY_PATH)
        headers = {
            "host": address.netloc.decode("ascii"),
            "content-type": sealer.media_type,
            "incremental": "?1",
            "transfer-encoding": "chunked",
        }
        return httpx.Request("POST", address, headers=headers, stream=content, extensions=_timeouts(request))

    def _opener(self, sealer: RequestSealer, sent: httpx.Response) -> AnswerOpener:
        try:
            return sealer.answer(sent.status_code, sent.headers.get("content-type"), limits=self._limits)
        except ChannelRefusedError as exc:
            if exc.code == "channel-keys-refused":
                self._trust.doubt()
            raise

    def _second_date(self, request: httpx.Request, head: Response, at: datetime) -> datetime | None:
        """Return the date of a second attempt: only for repeatable requests that were refused before processing."""
        if not isinstance(request.stream, httpx.ByteStream):
            return None
        match refusal_code(head.fields):
            case "evidence-stale":
                self._trust.drop()
                return at
            case "date-refused":
                dates = field_values(head.fields, DATE)
                return parse_http_date(dates[0]) if len(dates) == 1 else None
            case _:
                return None

    def _question(self, request: httpx.Request, question: KeyQuestion) -> httpx.Request:
        """Return the request for a service's keys and evidence."""
        address = f"{self._gateway}{OFFER_PATH}?{question.query}"
        return httpx.Request("GET", address, headers={"Accept-Encoding": "identity"}, extensions=_timeouts(request))

    def _proven(self, question: KeyQuestion, status: int, body: bytes | bytearray) -> TrustedKeys:
        if status != httpx.codes.OK:
            raise ChannelRefusedError(
                "the service gives no evidence now",
                code="channel-refused",
                expected="status 200",
                got=f"status {status}",
                retryable=status == httpx.codes.SERVICE_UNAVAILABLE,
            )
        self._trust.answered(question, bytes(body))
        trusted = self._trust.current(question.at)
        if trusted is None:
            raise ChannelRefusedError("the service's proof ended before it counted", code="channel-refused")
        return trusted


class ChannelTransport(_Channel[httpx.BaseTransport], httpx.BaseTransport):
    """Blocking transport through the channel.

    Args:
        gateway: address of the gateway, without its path.
        kems: accepted KEMs; by default the hybrid alone.
        form: chunked, or single for services without chunks.
        padding: hide lengths.
        transport: sends the sealed requests; None uses httpx's own.

    Raises (when a request is sent):
        AttestError: the service did not prove itself; or as ``RequestSealer`` and ``AnswerOpener``.
        httpx.HTTPError: the gateway cannot be reached.
    """

    _own_transport = staticmethod(httpx.HTTPTransport)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; again if the service states, inside the encryption, that it did not process it."""
        at = self._clock()
        answer = self._once(request, at, at)
        date = self._second_date(request, answer.head, at)
        if date is not None:
            answer.close()
            answer = self._once(request, at, date)
        return opened_response(answer)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _once(self, request: httpx.Request, at: datetime, date: datetime) -> OpenedAnswer:
        if not isinstance(request.stream, httpx.SyncByteStream):
            raise TypeError("an upload by an asynchronous iterator needs AsyncChannelTransport")
        trusted = self._trust.current(at) or self._prove(request, at)
        sealer = self._sealer(trusted, request, at, date)
        sent = self._transport.handle_request(self._post(request, sealer, SealedContent(sealer, request.stream)))
        try:
            return OpenedAnswer(sent, self._opener(sealer, sent))
        except BaseException:
            sent.close()
            raise

    def _prove(self, request: httpx.Request, at: datetime) -> TrustedKeys:
        question, body = self._trust.question(at), bytearray()
        sent = self._transport.handle_request(self._question(request, question))
        try:
            _require_plain(sent)
            for piece in sent.iter_bytes():
                _extend(body, piece)
        finally:
            sent.close()
        return self._proven(question, sent.status_code, body)


class AsyncChannelTransport(_Channel[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport):
    """Transport for asyncio; arguments as for ``ChannelTransport``."""

    _own_transport = staticmethod(httpx.AsyncHTTPTransport)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; again if the service states, inside the encryption, that it did not process it."""
        at = self._clock()
        answer = await self._once(request, at, at)
        date = self._second_date(request, answer.head, at)
        if date is not None:
            await answer.aclose()
            answer = await self._once(request, at, date)
        return opened_response(answer)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _once(self, request: httpx.Request, at: datetime, date: datetime) -> AsyncOpenedAnswer:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("an upload by a blocking iterator needs ChannelTransport")
        trusted = self._trust.current(at) or await self._prove(request, at)
        sealer = self._sealer(trusted, request, at, date)
        content = AsyncSealedContent(sealer, request.stream)
        sent = await self._transport.handle_async_request(self._post(request, sealer, content))
        try:
            return await AsyncOpenedAnswer(sent, self._opener(sealer, sent)).begin()
        except BaseException:
            await sent.aclose()
            raise

    async def _prove(self, request: httpx.Request, at: datetime) -> TrustedKeys:
        question, body = self._trust.question(at), bytearray()
        sent = await self._transport.handle_async_request(self._question(request, question))
        try:
            _require_plain(sent)
            async for piece in sent.aiter_bytes():
                _extend(body, piece)
        finally:
            await sent.aclose()
        return self._proven(question, sent.status_code, body)


def _request(request: httpx.Request) -> Request:
    """Return the request to seal, without its content."""
    url = request.url
    fields = tuple((name.lower(), value) for name, value in request.headers.raw if name.lower() not in _LEFT_OUT)
    return Request(
        method=request.method,
        scheme=url.scheme,
        authority=url.netloc.decode("ascii"),
        path=url.raw_path.decode("ascii"),
        fields=fields,
    )


def _timeouts(request: httpx.Request) -> dict[str, object]:
    return {name: value for name, value in request.extensions.items() if name == "timeout"}


def _require_plain(sent: httpx.Response) -> None:
    """Refuse a compressed answer unread: a short one may expand a thousandfold."""
    coding = sent.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise ChannelRefusedError(
            f"the service's keys and evidence have an unexpected content coding ({coding[:40]})",
            code="channel-refused",
        )


def _extend(body: bytearray, piece: bytes) -> None:
    if len(body) + len(piece) > MAX_OFFER_BYTES:
        raise ChannelRefusedError(
            f"the service's keys and evidence take more than {MAX_OFFER_BYTES} bytes", code="channel-refused"
        )
    body += piece
