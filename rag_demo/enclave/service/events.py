"""Streamed answers: server-sent events that end when their reader leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from attest.errors import AttestError
from rag_demo.enclave.service.refusals import members_of

EVENTS_MEDIA_TYPE = "text/event-stream"


def event(name: str, model: BaseModel) -> bytes:
    """Return one event; JSON holds no line break, so that it is one line."""
    return f"event: {name}\ndata: {model.model_dump_json(by_alias=True)}\n\n".encode()


def refused_event(error: AttestError) -> bytes:
    """Return the last event of a stream whose work was refused."""
    return f"event: refused\ndata: {json.dumps({'problem': members_of(error)})}\n\n".encode()


class Events(Response):
    """An answer of events.

    Args:
        source: makes them; it is closed when the reader leaves, and in the end.
        ended: called last, on success and on failure, and also where no event was read.
    """

    def __init__(self, source: AsyncGenerator[bytes, None], *, ended: Callable[[], object]) -> None:
        super().__init__(
            status_code=200,
            media_type=EVENTS_MEDIA_TYPE,
            headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
        )
        # A streamed answer has no length.
        self.raw_headers = [line for line in self.raw_headers if line[0] != b"content-length"]
        self._source = source
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  of ASGI
        """Send the events until the last one, or until the reader leaves."""
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._ended()
            leaving.cancel()
            await _given_up(sending)
            await self._source.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for one in self._source:
            await send({"type": "http.response.body", "body": one, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _given_up(task: asyncio.Future[None]) -> None:
    if task.done():
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
