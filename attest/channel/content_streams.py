"""Contents of requests and answers as httpx streams, sealed and opened as they are read."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import httpx

from attest.channel.bhttp_decoder import Event
from attest.channel.client import AnswerOpener, RequestSealer
from attest.channel.messages import CONNECTION_FIELDS, Response
from attest.errors import ChannelTamperError

_MID_ANSWER = (httpx.RemoteProtocolError, httpx.ReadError)


class SealedContent(httpx.SyncByteStream):
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


class AsyncSealedContent(httpx.AsyncByteStream):
    """A request's content for asyncio, sealed as it is read."""

    def __init__(self, sealer: RequestSealer, content: AsyncIterable[bytes]) -> None:
        self._sealer = sealer
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._sealer.begin()
        async for data in self._content:
            if sealed := self._sealer.add(data):
                yield sealed
        yield self._sealer.end()


def _split(events: Iterable[Event]) -> tuple[Response | None, list[bytes]]:
    head, content = None, []
    for event in events:
        if isinstance(event, Response):
            head = event
        elif isinstance(event, bytes):
            content.append(event)
    return head, content


def _cut() -> ChannelTamperError:
    return ChannelTamperError(
        "the answer was cut: the connection ended before its final chunk",
        code="channel-truncated",
        hint="the received bytes are a part of it; the request may have been processed",
    )


def _headless() -> ChannelTamperError:
    return ChannelTamperError("the answer ended before its head", code="channel-truncated")


class OpenedAnswer(httpx.SyncByteStream):
    """An answer that is opened as it is read; its head is available immediately."""

    def __init__(self, sent: httpx.Response, opener: AnswerOpener) -> None:
        self._sent = sent
        self._events = self._opened(sent, opener)
        self.head, self._first = self._begin()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._first
        for events in self._events:
            yield from _split(events)[1]

    def close(self) -> None:
        """Stop reading."""
        self._sent.close()

    def _begin(self) -> tuple[Response, list[bytes]]:
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
            raise _cut() from exc
        yield opener.finish()


class AsyncOpenedAnswer(httpx.AsyncByteStream):
    """An answer for asyncio, opened as it is read; ``begin`` reads its head."""

    head: Response
    _first: list[bytes]

    def __init__(self, sent: httpx.Response, opener: AnswerOpener) -> None:
        self._sent = sent
        self._events = self._opened(sent, opener)

    async def begin(self) -> AsyncOpenedAnswer:
        """Read to the end of the head."""
        async for events in self._events:
            head, self._first = _split(events)
            if head is not None:
                self.head = head
                return self
        raise _headless()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self._first:
            yield data
        async for events in self._events:
            for data in _split(events)[1]:
                yield data

    async def aclose(self) -> None:
        """Stop reading."""
        await self._sent.aclose()

    @staticmethod
    async def _opened(sent: httpx.Response, opener: AnswerOpener) -> AsyncIterator[tuple[Event, ...]]:
        try:
            async for data in sent.aiter_raw():
                yield opener.feed(data)
        except _MID_ANSWER as exc:
            raise _cut() from exc
        yield opener.finish()


def opened_response(answer: OpenedAnswer | AsyncOpenedAnswer) -> httpx.Response:
    """Return an answer as an httpx response."""
    fields = [line for line in answer.head.fields if line[0] not in CONNECTION_FIELDS]
    return httpx.Response(answer.head.status, headers=fields, stream=answer)
