"""A bound for the bytes of all request bodies that a process holds at a time, as ASGI middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the channel uses this without any web framework
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyBudget:
    """Application with a bound for its request bodies: those that arrive, and those that are worked on.

    When a piece does not fit, the body that has been arriving for longest is given up, and its request is refused. An
    honest body arrives within milliseconds, so clients that hold bodies open displace one another.

    Args:
        total: maximum number of bytes.
        refusal: returns the answer to a request whose body was given up.
    """

    def __init__(self, app: ASGIApp, *, total: int, refusal: Callable[[], ASGIApp]) -> None:
        self._app = app
        self._total = total
        self._refusal = refusal
        self._arriving: dict[_Body, None] = {}  # the oldest first
        self.held = 0
        """Bytes of all bodies now."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; its body counts until it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body()

        async def receiving() -> Message:
            return await self._next(body, receive)

        async def sending(message: Message) -> None:
            if not body.given_up:
                self._arriving.pop(body, None)  # an answer that has begun is not replaced
                await send(message)

        try:
            await self._app(scope, receiving, sending)
        finally:
            self._arriving.pop(body, None)
            self.held -= body.held
        if body.given_up:
            await self._refusal()(scope, receive, send)

    async def _next(self, body: _Body, receive: Receive) -> Message:
        if body.given_up:
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout(None) as body.waiting:
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        finally:
            body.waiting = None
        self._take(body, len(message.get("body", b"")))
        if not message.get("more_body", False):
            self._arriving.pop(body, None)
        elif body.held:  # giving up a request without bytes would free none
            self._arriving.setdefault(body)
        return {"type": "http.disconnect"} if body.given_up else message

    def _take(self, body: _Body, size: int) -> None:
        while self.held + size > self._total and not body.given_up:
            self._give_up(next(iter(self._arriving), body))
        if not body.given_up:
            body.held += size
            self.held += size

    def _give_up(self, body: _Body) -> None:
        self._arriving.pop(body, None)
        self.held -= body.held
        body.held = 0
        body.given_up = True
        if body.waiting is not None:
            body.waiting.reschedule(asyncio.get_running_loop().time())


class _Body:
    """One body.

    Attributes:
        held: bytes that count.
        given_up: True once it was displaced by another one.
        waiting: the deadline of the wait for its next piece; None while nothing is awaited.
    """

    def __init__(self) -> None:
        self.held = 0
        self.given_up = False
        self.waiting: asyncio.Timeout | None = None
