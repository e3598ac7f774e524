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

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import httpx

from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH
from attest.channel.client import ANSWER_LIMITS, RequestSealer
from attest.channel.config import DEFAULT_KEMS
from attest.channel.content_streams import AsyncOpenedAnswer, AsyncSealedContent, OpenedAnswer, SealedContent
from attest.channel.fields import DATE, parse_http_date, refusal_code
from attest.channel.messages import CONNECTION_FIELDS, MessageLimits, Request, Response, field_values
from attest.channel.ohttp import MessageForm
from attest.channel.records import TrustedKeys
from attest.channel.trust import KeyQuestion, RecipientTrust
from attest.errors import ChannelRefusedError

MAX_OFFER_BYTES: Final = 4 * 1024 * 1024
_LEFT_OUT = CONNECTION_FIELDS | {b"host", b"accept-encoding", DATE}
"""Compression would mix secrets with attacker-chosen text, and show in lengths; sealing adds the date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Settings of requests.

    Attributes:
        gateway: address of the gateway, without its path.
        clock: returns the present moment, aware.
        kems: accepted KEMs.
        form: of messages.
        padding: hide lengths.
        limits: of answers.
    """

    gateway: str
    clock: Callable[[], datetime]
    kems: Collection[int]
    form: MessageForm
    padding: bool
    limits: MessageLimits

    def sealer(
        self, trusted: TrustedKeys, request: httpx.Request, at: datetime, date: datetime | None
    ) -> RequestSealer:
        """Return the sealer of a request whose content follows."""
        return RequestSealer(
            trusted, _request(request), at=at, date=date, kems=self.kems, form=self.form, padding=self.padding
        )

    def post(
        self, request: httpx.Request, sealer: RequestSealer, content: httpx.SyncByteStream | httpx.AsyncByteStream
    ) -> httpx.Request:
        """Return the request to the gateway, with content that is sealed as it is sent."""
        address = httpx.URL(self.gateway + GATEWAY_PATH)
        headers = {
            "host": address.netloc.decode("ascii"),
            "content-type": sealer.media_type,
            "incremental": "?1",
            "transfer-encoding": "chunked",
        }
        return httpx.Request("POST", address, headers=headers, stream=content, extensions=_timeouts(request))

    def ask(self, request: httpx.Request, question: KeyQuestion) -> httpx.Request:
        """Return the request for a service's keys and evidence."""
        address = f"{self.gateway}{OFFER_PATH}?{question.query}"
        return httpx.Request("GET", address, headers={"Accept-Encoding": "identity"}, extensions=_timeouts(request))


class ChannelTransport(httpx.BaseTransport):
    """Blocking transport through the channel.

    Args:
        gateway: address of the gateway, without its path.
        trust: decides on the recipient's keys.
        clock: returns the present moment, aware.
        kems: accepted KEMs; by default the hybrid alone.
        form: chunked, or single for services without chunks.
        padding: hide lengths.
        limits: of answers.
        transport: sends the sealed requests; None uses httpx's own.

    Raises (when a request is sent):
        AttestError: the service did not prove itself; or as ``RequestSealer`` and ``AnswerOpener``.
        httpx.HTTPError: the gateway cannot be reached.
    """

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._way = _Way(gateway=gateway.rstrip("/"), clock=clock, kems=kems, form=form, padding=padding, limits=limits)
        self._trust = trust
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; again if the service states, inside the encryption, that it did not process it."""
        at = self._way.clock()
        answer = self._once(request, at)
        again = _again(request, answer.head)
        if again is None:
            return answer.response()
        answer.close()
        if again.drop:
            self._trust.drop()
        return self._once(request, at, again.date).response()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _once(self, request: httpx.Request, at: datetime, date: datetime | None = None) -> OpenedAnswer:
        if not isinstance(request.stream, httpx.SyncByteStream):
            msg = "an upload by an asynchronous iterator needs AsyncChannelTransport"
            raise TypeError(msg)
        trusted = self._trust.current(at) or self._prove(request, at)
        sealer = self._way.sealer(trusted, request, at, date)
        sent = self._transport.handle_request(self._way.post(request, sealer, SealedContent(sealer, request.stream)))
        try:
            opener = sealer.answer(sent.status_code, sent.headers.get("content-type"), limits=self._way.limits)
            return OpenedAnswer(sent, opener)
        except BaseException as exc:
            sent.close()
            _note(self._trust, exc)
            raise

    def _prove(self, request: httpx.Request, at: datetime) -> TrustedKeys:
        question = self._trust.question(at)
        sent = self._transport.handle_request(self._way.ask(request, question))
        try:
            _require_plain(sent)
            body = b"".join(_bounded(sent.iter_bytes()))
        finally:
            sent.close()
        return _proven(self._trust, question, sent.status_code, body)


class AsyncChannelTransport(httpx.AsyncBaseTransport):
    """Transport for asyncio; arguments as for ``ChannelTransport``."""

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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._way = _Way(gateway=gateway.rstrip("/"), clock=clock, kems=kems, form=form, padding=padding, limits=limits)
        self._trust = trust
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; again if the service states, inside the encryption, that it did not process it."""
        at = self._way.clock()
        answer = await self._once(request, at)
        again = _again(request, answer.head)
        if again is None:
            return answer.response()
        await answer.aclose()
        if again.drop:
            self._trust.drop()
        return (await self._once(request, at, again.date)).response()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _once(self, request: httpx.Request, at: datetime, date: datetime | None = None) -> AsyncOpenedAnswer:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            msg = "an upload by a blocking iterator needs ChannelTransport"
            raise TypeError(msg)
        trusted = self._trust.current(at) or await self._prove(request, at)
        sealer = self._way.sealer(trusted, request, at, date)
        content = AsyncSealedContent(sealer, request.stream)
        sent = await self._transport.handle_async_request(self._way.post(request, sealer, content))
        try:
            opener = sealer.answer(sent.status_code, sent.headers.get("content-type"), limits=self._way.limits)
            return await AsyncOpenedAnswer(sent, opener).begin()
        except BaseException as exc:
            await sent.aclose()
            _note(self._trust, exc)
            raise

    async def _prove(self, request: httpx.Request, at: datetime) -> TrustedKeys:
        question = self._trust.question(at)
        sent = await self._transport.handle_async_request(self._way.ask(request, question))
        body = b""
        try:
            _require_plain(sent)
            async for piece in sent.aiter_bytes():
                body = b"".join(_bounded((body, piece)))
        finally:
            await sent.aclose()
        return _proven(self._trust, question, sent.status_code, body)


# -- requests


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


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > MAX_OFFER_BYTES:
            raise ChannelRefusedError(
                f"the service's keys and evidence take more than {MAX_OFFER_BYTES} bytes", code="channel-refused"
            )
        yield piece


def _proven(trust: RecipientTrust, question: KeyQuestion, status: int, body: bytes) -> TrustedKeys:
    if status != httpx.codes.OK:
        raise ChannelRefusedError(
            "the service gives no evidence now",
            code="channel-refused",
            expected="status 200",
            got=f"status {status}",
            retryable=status == httpx.codes.SERVICE_UNAVAILABLE,
        )
    trust.answered(question, body)
    trusted = trust.current(question.at)
    if trusted is None:
        raise ChannelRefusedError("the service's proof ended before it counted", code="channel-refused")
    return trusted


# -- answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """Settings of a second attempt.

    Attributes:
        date: to state; None uses the client's own.
        drop: new evidence is necessary.
    """

    date: datetime | None
    drop: bool


def _again(request: httpx.Request, head: Response) -> _Again | None:
    """Return the settings of a second attempt, allowed only for repeatable requests refused before processing."""
    if not isinstance(request.stream, httpx.ByteStream):
        return None
    match refusal_code(head.fields):
        case "evidence-stale":
            return _Again(date=None, drop=True)
        case "date-refused":
            dates = field_values(head.fields, DATE)
            moment = parse_http_date(dates[0]) if len(dates) == 1 else None
            return None if moment is None else _Again(date=moment, drop=False)
        case _:
            return None


def _note(trust: RecipientTrust, exc: BaseException) -> None:
    if isinstance(exc, ChannelRefusedError) and exc.code == "channel-keys-refused":
        trust.doubt()
