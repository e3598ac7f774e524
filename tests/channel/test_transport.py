"""What a transport takes of a service that is not proven yet."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import NoReturn

import httpx
import pytest

from attest.channel.transport import AsyncChannelTransport, ChannelTransport
from attest.channel.trust import KeyQuestion
from attest.errors import ChannelRefusedError
from tests.samples import AT, NONCE


class Unread(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that nobody may look at."""

    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("read")

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("read")


class Distrust:
    """Holds nothing, and judges nothing."""

    def current(self, at: datetime) -> None:
        return None

    def question(self, at: datetime) -> KeyQuestion:
        return KeyQuestion(query="nonce=x", nonce=NONCE, at=at)

    def answered(self, question: KeyQuestion, body: bytes) -> NoReturn:
        raise AssertionError("judged")

    def drop(self) -> NoReturn:
        raise AssertionError("dropped")

    doubt = drop


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity, gzip", "br"])
def test_keys_and_evidence_that_are_coded_are_not_read_because_a_short_answer_may_become_long(coding: str) -> None:
    asked: list[httpx.Request] = []

    def coded(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, stream=Unread(), headers={"Content-Encoding": coding})

    async def ask() -> None:
        transport = AsyncChannelTransport(
            "http://rag.invalid", Distrust(), clock=lambda: AT, transport=httpx.MockTransport(coded)
        )
        async with httpx.AsyncClient(transport=transport) as http:
            await http.get("http://rag.invalid/")

    transport = ChannelTransport(
        "http://rag.invalid", Distrust(), clock=lambda: AT, transport=httpx.MockTransport(coded)
    )
    with httpx.Client(transport=transport) as http, pytest.raises(ChannelRefusedError, match="content coding"):
        http.get("http://rag.invalid/")
    with pytest.raises(ChannelRefusedError, match="content coding"):
        asyncio.run(ask())
    assert [one.headers["Accept-Encoding"] for one in asked] == ["identity", "identity"]
