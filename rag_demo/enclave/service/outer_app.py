"""The outermost application: the routes in the clear, and the channel to all others.

::

    GET  /healthz, /readyz                          liveness and readiness of the process
    GET  /v1/state                                  its state; unauthenticated in the clear
    GET  /.well-known/attest-channel?nonce=…        evidence                                                (any origin)
    *    /.well-known/ohttp-gateway                 keys, and encrypted requests                            (any origin)
    GET  a path of ``pages``                        files of a page that checks the service
    *    /simulated-machine…                        of a simulated machine that can change, for its viewer

A page from elsewhere may request evidence, keys and state, and may send encrypted requests: there are no cookies,
and the origin of a request grants nothing, so that any origin may do what a program may.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attest.channel import GATEWAY_PATH, OFFER_PATH
from attest.errors import AttestError
from attest.page import PageFile
from attest.rate_limits import Rate, RateTable, caller_of
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.service.concurrency import busy, too_often
from rag_demo.enclave.service.refusals import defect, problem
from rag_demo.enclave.service.settings import ServiceLimits
from rag_demo.enclave.service.simulated_changes import SimulatedChanges

STATE_PATH: Final = "/v1/state"
CORS_SECONDS: Final = 86_400
_OPEN: Final = frozenset({GATEWAY_PATH, OFFER_PATH, STATE_PATH})
_ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
_NOT_ALLOWED: Final = RefusedError(
    "only GET is supported here", code="rag-method-not-allowed", status=HTTPStatus.METHOD_NOT_ALLOWED
)
_UNKNOWN: Final = RefusedError(
    "this path is not served in the clear",
    code="rag-route-unknown",
    status=HTTPStatus.NOT_FOUND,
    hint=f"send encrypted requests to {GATEWAY_PATH}",
)
_UNAVAILABLE: Final = RefusedError(
    "the service cannot accept requests now",
    code="rag-unavailable",
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    retry_seconds=5,
)
_NO_KEY: Final = RefusedError(
    "the service has no channel key yet: the key must be released to it first",
    code="rag-locked",
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    hint="GET /v1/state gives the reason; in the client, use 'check'",
    retry_seconds=5,
)
_log = logging.getLogger("rag.enclave")


@dataclass(slots=True, kw_only=True, eq=False)
class OuterApp:
    """An ASGI application.

    Attributes:
        channel: returns what opens encrypted requests now; None while there is no key to open them with.
        pages: files by path, and never for another method than GET.
        changes: routes that change a simulated machine; None for every other machine.
    """

    channel: Callable[[], ASGIApp | None]
    state: Callable[[], Response]
    is_ready: Callable[[], bool]
    life: Callable[[], AbstractAsyncContextManager[None]]
    limits: ServiceLimits
    ticks: Callable[[], float]
    pages: Mapping[str, PageFile] = field(default_factory=dict)
    changes: SimulatedChanges | None = None
    _offers: RateTable = field(init=False)

    def __post_init__(self) -> None:
        each = self.limits.offers_per_minute_each
        self._offers = RateTable(Rate(per_second=each / 60, burst=max(1, each // 4)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        begun = _Begun(send, open_to_all=scope["path"] in _OPEN)
        try:
            await self._answer(scope, receive, begun)
        except AttestError as exc:
            # Mainly the replay window: a request that cannot be recorded is refused.
            _log.error("a request could not be accepted", extra={"code": exc.code})
            await self._fail(_UNAVAILABLE, scope, receive, begun)
        except Exception as exc:  # noqa: BLE001  what it says may quote a request; a connection is no place for it
            _log.error("a request in the clear ended with an internal error", exc_info=exc)
            await self._fail(defect(), scope, receive, begun)

    @staticmethod
    async def _fail(error: RefusedError, scope: Scope, receive: Receive, begun: _Begun) -> None:
        if begun.begun:
            raise _CutError from None  # the server closes the connection: the client detects the incomplete answer
        await problem(error)(scope, receive, begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path in _OPEN and method == "OPTIONS":
            await _preflight()(scope, receive, send)
        elif path in {GATEWAY_PATH, OFFER_PATH}:
            await self._pass_on(scope, receive, send)
        elif path in {STATE_PATH, "/healthz", "/readyz"} or path in self.pages:
            answer = self._outside(path) if method in {"GET", "HEAD"} else problem(_NOT_ALLOWED)
            await answer(scope, receive, send)
        elif self.changes is not None and self.changes.owns(path):
            await self.changes.answer(path, method)(scope, receive, send)
        else:
            await problem(_UNKNOWN)(scope, receive, send)

    def _outside(self, path: str) -> Response:
        if path == STATE_PATH:
            return self.state()
        if path == "/healthz":
            return _plain("alive\n")
        if path == "/readyz":
            return _plain("ready\n") if self.is_ready() else _plain("not ready\n", status=503)
        page = self.pages[path]
        return Response(page.body, media_type=page.media_type, headers=dict(page.headers))

    # -- the channel

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        channel = self.channel()
        if channel is None:
            await problem(_NO_KEY)(scope, receive, send)
            return
        if scope["path"] == OFFER_PATH:
            client = scope.get("client")
            wait = self._offers.wait_of(caller_of(client[0] if client else ""), at=self.ticks())
            if wait > 0:
                await problem(too_often(wait))(scope, receive, send)
                return
        await self._within_time(channel, scope, receive, send)

    async def _within_time(self, channel: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Bound the time that a request may take to arrive; the channel bounds the bytes of all of them."""
        end = asyncio.get_running_loop().time() + self.limits.body_seconds
        arrived = late = left = False

        async def timed() -> Message:
            nonlocal arrived, late, left
            try:
                async with asyncio.timeout_at(None if arrived else end):
                    message = await receive()
            except TimeoutError:
                late = True
                return {"type": "http.disconnect"}
            left = arrived and message["type"] == "http.disconnect"
            arrived = arrived or not message.get("more_body", False)
            return message

        try:
            await channel(scope, timed, send)
            if late:
                await problem(busy("the request took too long to arrive"))(scope, receive, send)
        except Exception:
            if not left:
                raise
            # The client has left, and its answer is truncated: this is not an error.

    # -- living

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Live from the server's start to its end."""
        await receive()
        try:
            async with self.life():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as exc:  # noqa: BLE001  the server has to hear of it
            _log.error("the service ended with an internal error", exc_info=exc)
            await send({"type": "lifespan.startup.failed", "message": type(exc).__name__})
            return
        await send({"type": "lifespan.shutdown.complete"})


class _Begun:
    """Notes that an answer has begun, and lets every page ask where any may."""

    def __init__(self, send: Send, *, open_to_all: bool) -> None:
        self._send = send
        self._open_to_all = open_to_all
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.begun:
                return
            self.begun = True
            if self._open_to_all:
                message = {**message, "headers": [*message.get("headers", ()), _ANY_ORIGIN]}
        await self._send(message)


class _CutError(Exception):
    """An answer breaks off."""


def _plain(text: str, *, status: int = 200) -> Response:
    return Response(text, status_code=status, media_type="text/plain", headers={"cache-control": "no-store"})


def _preflight() -> Response:
    headers = {
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "content-type, incremental",
        "access-control-max-age": str(CORS_SECONDS),
    }
    return Response(status_code=204, headers=headers)
