"""Transports for httpx: requests to ``https://SERVICE/…`` go through the channel, and nowhere without it.

::

    trust = AttestedTrust(expectation, random=os.urandom)
    transport = ChannelTransport("http://gateway:8080", trust, clock=clock)
    with httpx.Client(transport=transport, base_url="https://rag.example") as client:
        client.post("/v1/ask", json={"question": "…"})

The host of a request's address is whom it is for, inside the encryption; the gateway's address is where it is sent.
Uploads may be iterators; answers can be streamed, and raise where they were cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import httpx

from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH
from attest.channel.bhttp_decoder import Event, ResponseHead
from attest.channel.client import ANSWER_LIMITS, AnswerOpener, RequestSealer
from attest.channel.config import DEFAULT_KEMS
from attest.channel.fields import DATE, parse_http_date, refusal_code
from attest.channel.messages import CONNECTION_FIELDS, MessageLimits, Request, field_values
from attest.channel.ohttp import MessageForm
from attest.channel.records import TrustedKeys
from attest.channel.trust import KeyQuestion, RecipientTrust
from attest.errors import ChannelRefusedError, ChannelTamperError

__all__ = ["AsyncChannelTransport", "ChannelTransport"]

MAX_OFFER_BYTES: Final = 4 * 1024 * 1024
_LEFT_OUT = CONNECTION_FIELDS | {b"host", b"accept-encoding", DATE}
"""Compression would mix secrets with what others chose, and show in lengths; the date is added when it is sealed."""
_MID_ANSWER = (httpx.RemoteProtocolError, httpx.ReadError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How requests go.

    Attributes:
        gateway: address of the gateway, without its path.
        clock: returns the present moment, aware.
        kems: KEMs that are accepted.
        form: of messages.
        padding: whether to hide lengths.
        limits: what is taken of an answer.
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
        """Begin to seal a request whose content follows."""
        return RequestSealer(
            trusted, _request(request), at=at, date=date, kems=self.kems, form=self.form, padding=self.padding
        )

    def post(self, request: httpx.Request, sealer: RequestSealer, content: httpx.SyncByteStream) -> httpx.Request:
        """Return what is sent, with content that is sealed on the way."""
        return self._post(request, sealer, content)

    def _post(
        self, request: httpx.Request, sealer: RequestSealer, content: httpx.SyncByteStream | httpx.AsyncByteStream
    ) -> httpx.Request:
        address = httpx.URL(self.gateway + GATEWAY_PATH)
        headers = {
            "host": address.netloc.decode("ascii"),
            "content-type": sealer.media_type,
            "incremental": "?1",
            "transfer-encoding": "chunked",
        }
        return httpx.Request("POST", address, headers=headers, stream=content, extensions=_timeouts(request))

    def post_async(
        self, request: httpx.Request, sealer: RequestSealer, content: httpx.AsyncByteStream
    ) -> httpx.Request:
        """Do what ``post`` does, for asyncio."""
        return self._post(request, sealer, content)

    def ask(self, request: httpx.Request, question: KeyQuestion) -> httpx.Request:
        """Return what asks a service for its keys and evidence."""
        address = f"{self.gateway}{OFFER_PATH}?{question.query}"
        return httpx.Request("GET", address, headers={"Accept-Encoding": "identity"}, extensions=_timeouts(request))


class ChannelTransport(httpx.BaseTransport):
    """Sends requests through the channel, blocking.

    Args:
        gateway: address of the gateway, without its path.
        trust: what may be sealed to.
        clock: returns the present moment, aware.
        kems: KEMs that are accepted; by default the hybrid alone.
        form: chunked, or single for services that know nothing else.
        padding: whether to hide lengths.
        limits: what is taken of an answer.
        transport: sends what is sealed; None: httpx's own.

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
        """Remember the way."""
        self._way = _Way(gateway=gateway.rstrip("/"), clock=clock, kems=kems, form=form, padding=padding, limits=limits)
        self._trust = trust
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; twice where the service says, inside the encryption, that it did not process it."""
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

    def _once(self, request: httpx.Request, at: datetime, date: datetime | None = None) -> _Answer:
        if not isinstance(request.stream, httpx.SyncByteStream):
            msg = "an upload by an asynchronous iterator needs AsyncChannelTransport"
            raise TypeError(msg)
        trusted = self._trust.current(at) or self._prove(request, at)
        sealer = self._way.sealer(trusted, request, at, date)
        sent = self._transport.handle_request(self._way.post(request, sealer, _Sealed(sealer, request.stream)))
        try:
            opener = sealer.answer(sent.status_code, sent.headers.get("content-type"), limits=self._way.limits)
            return _Answer(sent, opener)
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
    """Does what ``ChannelTransport`` does, for asyncio; the arguments are the same."""

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
        """Remember the way."""
        self._way = _Way(gateway=gateway.rstrip("/"), clock=clock, kems=kems, form=form, padding=padding, limits=limits)
        self._trust = trust
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; twice where the service says, inside the encryption, that it did not process it."""
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

    async def _once(self, request: httpx.Request, at: datetime, date: datetime | None = None) -> _AsyncAnswer:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            msg = "an upload by a blocking iterator needs ChannelTransport"
            raise TypeError(msg)
        trusted = self._trust.current(at) or await self._prove(request, at)
        sealer = self._way.sealer(trusted, request, at, date)
        content = _AsyncSealed(sealer, request.stream)
        sent = await self._transport.handle_async_request(self._way.post_async(request, sealer, content))
        try:
            opener = sealer.answer(sent.status_code, sent.headers.get("content-type"), limits=self._way.limits)
            return await _AsyncAnswer(sent, opener).begin()
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


# -- what is sent


class _Sealed(httpx.SyncByteStream):
    """A request's content, sealed as it is read."""

    def __init__(self, sealer: RequestSealer, content: Iterable[bytes]) -> None:
        self._sealer = sealer
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._sealer.begin()
        for data in self._content:
            if sealed := self._sealer.add(data):
                yield sealed
        yield self._sealer.end()


class _AsyncSealed(httpx.AsyncByteStream):
    """The same for asyncio."""

    def __init__(self, sealer: RequestSealer, content: AsyncIterable[bytes]) -> None:
        self._sealer = sealer
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._sealer.begin()
        async for data in self._content:
            if sealed := self._sealer.add(data):
                yield sealed
        yield self._sealer.end()


def _request(request: httpx.Request) -> Request:
    """Return the request as it is sealed, without its content."""
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
    """Refuse a coded answer unread: a short one may become a thousand times longer."""
    coding = sent.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise ChannelRefusedError(
            f"the service's keys and evidence are coded ({coding[:40]}), which was not asked for",
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


# -- what comes back


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """That a request may be sent once more, and how.

    Attributes:
        date: what it states; None: the client's own.
        drop: whether new evidence is asked for.
    """

    date: datetime | None
    drop: bool


def _again(request: httpx.Request, head: ResponseHead) -> _Again | None:
    """Say whether to send again: only what was refused inside, before anything was processed, and can be repeated."""
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


def _split(events: Iterable[Event]) -> tuple[ResponseHead | None, list[bytes]]:
    head, content = None, []
    for event in events:
        if isinstance(event, ResponseHead):
            head = event
        elif isinstance(event, bytes):
            content.append(event)
    return head, content


def _cut(exc: Exception) -> ChannelTamperError:
    error = ChannelTamperError(
        "the answer was cut: the connection ended before its final chunk",
        code="channel-truncated",
        hint="what was received is a part of it; whether the request was processed is not known",
    )
    error.__cause__ = exc
    return error


def _response(head: ResponseHead, content: httpx.SyncByteStream | httpx.AsyncByteStream) -> httpx.Response:
    fields = [line for line in head.fields if line[0] not in CONNECTION_FIELDS]
    return httpx.Response(head.status, headers=fields, stream=content)


class _Answer(httpx.SyncByteStream):
    """An answer that is opened as it is read; its head is there at once."""

    def __init__(self, sent: httpx.Response, opener: AnswerOpener) -> None:
        self._sent = sent
        self._events = self._opened(sent, opener)
        self.head, self._first = self._begin()

    def response(self) -> httpx.Response:
        """Return it as httpx's."""
        return _response(self.head, self)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._first
        for events in self._events:
            yield from _split(events)[1]

    def close(self) -> None:
        """Read no more."""
        self._sent.close()

    def _begin(self) -> tuple[ResponseHead, list[bytes]]:
        for events in self._events:
            head, content = _split(events)
            if head is not None:
                return head, content
        raise _headless()

    @staticmethod
    def _opened(sent: httpx.Response, opener: AnswerOpener) -> Iterator[tuple[Event, ...]]:
        try:
            for data in sent.iter_raw():
                yield opener.feed(data)
        except _MID_ANSWER as exc:
            raise _cut(exc) from exc
        yield opener.finish()


class _AsyncAnswer(httpx.AsyncByteStream):
    """The same for asyncio."""

    def __init__(self, sent: httpx.Response, opener: AnswerOpener) -> None:
        self._sent = sent
        self._events = self._opened(sent, opener)
        self._head: ResponseHead | None = None
        self._first: list[bytes] = []

    @property
    def head(self) -> ResponseHead:
        """Status and fields."""
        if self._head is None:
            raise _headless()
        return self._head

    def response(self) -> httpx.Response:
        """Return it as httpx's."""
        return _response(self.head, self)

    async def begin(self) -> _AsyncAnswer:
        """Read to the end of the head."""
        async for events in self._events:
            self._head, self._first = _split(events)
            if self._head is not None:
                break
        return self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self._first:
            yield data
        async for events in self._events:
            for data in _split(events)[1]:
                yield data

    async def aclose(self) -> None:
        """Read no more."""
        await self._sent.aclose()

    @staticmethod
    async def _opened(sent: httpx.Response, opener: AnswerOpener) -> AsyncIterator[tuple[Event, ...]]:
        try:
            async for data in sent.aiter_raw():
                yield opener.feed(data)
        except _MID_ANSWER as exc:
            raise _cut(exc) from exc
        yield opener.finish()


def _headless() -> ChannelTamperError:
    return ChannelTamperError("the answer ended before its head", code="channel-truncated")
