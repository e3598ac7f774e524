"""A gateway in front of an ASGI application, in one process: opens its requests and seals its answers.

::

    app = ChannelGateway(application, gateway, clock=system_clock, offer=offer)       uvicorn, hypercorn, …

    POST /.well-known/ohttp-gateway                 encrypted requests (RFC 9540 names the path)
    GET  /.well-known/ohttp-gateway                 the key document, without proof, for relays and tools
    GET  /.well-known/attest-channel?nonce=…        the key document with evidence under the client's nonce

Requests in the clear never reach the application: they go to ``outside``, or get 404. No framework's types are used,
so no framework is imported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from attest.body_budget import BodyBudget
from attest.channel.config import KEYS_MEDIA_TYPE, KeyDocument
from attest.channel.messages import CONNECTION_FIELDS, Fields, Request, Response, field_values
from attest.channel.padding import AnswerStream
from attest.channel.records import KeyOffer, evidence_proof
from attest.channel.refusals import EMPTY, FAILED, MALFORMED, PROBLEM_TYPE, ChannelRefusal
from attest.channel.server import Gateway, ServedExchange
from attest.encoding import base64url_bytes
from attest.errors import AttestError, ChannelError
from attest.evidence.binding import NONCE_BYTES

GATEWAY_PATH: Final = "/.well-known/ohttp-gateway"
OFFER_PATH: Final = "/.well-known/attest-channel"
TICK_SECONDS: Final = 0.1
MAX_WAITING_BYTES: Final = 64 * 1024
"""Upper bound of buffered bytes before they are sent regardless of the clock."""
MAX_REFUSED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a refused request that are read, so that its client receives the refusal and not a broken connection."""
MAX_BODIES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all encrypted requests that are held at a time."""
MAX_OFFERS: Final = 4
"""Evidence takes the machine a while, and any client may request it: surplus requests get 503."""
MAX_AGE_SECONDS: Final = 300
_BUSY = ChannelRefusal(status=503, code="too-busy", title="Too many requests are on their way", inside=False)
_NOT_FOUND = ChannelRefusal(status=404, code="not-found", title="Not found", inside=False)
_UNAVAILABLE = ChannelRefusal(status=503, code="evidence-unavailable", title="No evidence available now", inside=False)

Message = MutableMapping[str, Any]  # Any: ASGI's own
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Offer = Callable[[KeyDocument, bytes], KeyOffer]
"""Makes evidence that commits to the document (``channel_binding``) under a nonce of 32 bytes; may block."""


class ChannelGateway:
    """ASGI application that opens encrypted requests for another one.

    Args:
        offer: makes evidence for clients; None if a key-release service releases the key.
        outside: answers requests in the clear; None answers 404.
        tick_seconds: interval between the parts of a streamed answer.
        bodies_bytes: maximum size of all encrypted requests that are held at a time; when one does not fit, the one
            that has been arriving for longest is answered 503.
    """

    def __init__(
        self,
        application: Application,
        gateway: Gateway,
        *,
        clock: Callable[[], datetime],
        offer: Offer | None = None,
        outside: Application | None = None,
        tick_seconds: float = TICK_SECONDS,
        bodies_bytes: int = MAX_BODIES_BYTES,
    ) -> None:
        self._bounded = BodyBudget(self._exchange, total=bodies_bytes, refusal=lambda: _send_busy)
        self._application = application
        self._gateway = gateway
        self._clock = clock
        self._offer = offer
        self._outside = outside
        self._tick = tick_seconds
        self._offers = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or pass the lifespan on."""
        kind, path = scope["type"], scope.get("path")
        if kind == "lifespan":
            await self._application(scope, receive, send)
        elif kind == "http" and path == GATEWAY_PATH and scope["method"] == "GET":
            await self._send_keys(send)
        elif kind == "http" and path == GATEWAY_PATH:
            await self._bounded(scope, receive, send)
        elif kind == "http" and path == OFFER_PATH and self._offer is not None:
            await self._send_offer(self._offer, scope, send)
        elif self._outside is not None:
            await self._outside(scope, receive, send)
        elif kind == "http":
            await _send_refusal(send, _NOT_FOUND)
        else:
            await send({"type": "websocket.close"})

    # -- keys

    async def _send_keys(self, send: Send) -> None:
        current = self._gateway.keys.current
        left = int((current.not_after - self._clock()).total_seconds()) // 2
        caching = f"max-age={max(0, min(left, MAX_AGE_SECONDS))}".encode()
        await _send_whole(send, 200, KEYS_MEDIA_TYPE, current.document.to_bytes(), caching=caching)

    async def _send_offer(self, offer: Offer, scope: Message, send: Send) -> None:
        nonce = _nonce(scope["query_string"])
        if scope["method"] != "GET" or nonce is None:
            await _send_refusal(send, EMPTY)
            return
        current = self._gateway.keys.current
        found = await self._collected(offer, current.document, nonce)
        if found is None:
            await _send_refusal(send, _UNAVAILABLE)
            return
        current.proofs.add(evidence_proof(found.evidence))
        await _send_whole(send, 200, "application/json", json.dumps(found.to_json()).encode())

    async def _collected(self, offer: Offer, document: KeyDocument, nonce: bytes) -> KeyOffer | None:
        if self._offers >= MAX_OFFERS:
            return None
        self._offers += 1
        try:
            return await asyncio.to_thread(offer, document, nonce)
        except AttestError:
            return None
        finally:
            self._offers -= 1

    # -- requests

    async def _exchange(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        exchange = self._gateway.exchange(scope["method"], headers.get(b"content-type", b"").decode("latin-1"))
        if isinstance(exchange, ChannelRefusal):
            await _send_refusal(send, exchange)
            return
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            exchange.feed(message.get("body", b""), at=self._clock())
            if not message.get("more_body", False) or (exchange.refused and exchange.received > MAX_REFUSED_BYTES):
                break
        found = exchange.finish(at=self._clock())
        if isinstance(found, Request) and not found.path.startswith("/"):
            found = MALFORMED
        if isinstance(found, Request):
            await self._answer(scope, found, exchange, receive, send)
        elif found.inside:
            await _send_whole(send, 200, exchange.answer_type, exchange.refuse(found, at=self._clock()))
        else:
            await _send_refusal(send, found)

    async def _answer(
        self, scope: Message, request: Request, exchange: ServedExchange, receive: Receive, send: Send
    ) -> None:
        reply = _Reply(exchange, send, self._tick)
        try:
            await self._application(_inner_scope(scope, request), _inner_receive(request, receive), reply.take)
            reply.require_whole()
        except Exception as exc:  # noqa: BLE001  an application may raise anything
            # The application's exception may quote the request: only its type goes on, to the server's log.
            if not reply.begun:
                await _send_whole(send, 200, exchange.answer_type, exchange.refuse(FAILED, at=self._clock()))
            problem = f"the application behind the channel failed: {type(exc).__name__}"
            raise RuntimeError(problem) from None
        finally:
            await reply.close()


class _Reply:
    """Sealer of an application's answer, whole or streamed."""

    def __init__(self, exchange: ServedExchange, send: Send, tick_seconds: float) -> None:
        self._exchange = exchange
        self._send = send
        self._tick_seconds = tick_seconds
        self._head: Response | None = None
        self._collected = bytearray()
        self._stream: AnswerStream | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._event_ended = False
        self.begun = False
        self._over = False

    async def take(self, message: Message) -> None:
        """Process a message of the application."""
        if message["type"] == "http.response.start":
            self._head = _head(message)
        elif message["type"] == "http.response.body":
            await self._take_body(bytes(message.get("body", b"")), last=not message.get("more_body", False))

    def require_whole(self) -> None:
        """Raise if the application ended before its answer."""
        if not self._over:
            raise ChannelError("the application ended before its answer", code="channel-truncated")

    async def close(self) -> None:
        """Stop the clock."""
        if self._ticker is not None:
            self._ticker.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticker

    async def _take_body(self, data: bytes, *, last: bool) -> None:
        if self._head is None or self._over:
            raise ChannelError(
                "the application's answer has no start, or continues after its end", code="channel-truncated"
            )
        if self._stream is None and (last or not self._exchange.streams):
            self._collected += data
            if last:
                await self._send_collected(self._head)
            return
        if self._stream is None:
            await self._begin_stream(self._head)
        async with self._turn:
            await self._stream_on(data, last=last)

    async def _send_collected(self, head: Response) -> None:
        whole = Response(status=head.status, fields=head.fields, content=bytes(self._collected))
        body = self._exchange.answer(whole)
        self.begun = self._over = True
        await _send_whole(self._send, 200, self._exchange.answer_type, body)

    async def _begin_stream(self, head: Response) -> None:
        self._stream = self._exchange.stream(head)
        self.begun = True
        # RFC 10036: intermediaries must not wait for the end.
        await _send_start(self._send, 200, self._exchange.answer_type, ((b"incremental", b"?1"),))
        self._ticker = asyncio.create_task(self._tick())

    async def _stream_on(self, data: bytes, *, last: bool) -> None:
        stream = self._stream
        if stream is None:
            return
        stream.add(data)
        if data:
            self._event_ended = data.endswith(b"\n\n")
        if last:
            self._over = True
            await self._send({"type": "http.response.body", "body": stream.end(), "more_body": False})
        elif stream.waiting >= MAX_WAITING_BYTES:
            await self._send_on(stream.tick())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_seconds)
            async with self._turn:
                if self._stream is None or self._over:
                    return
                fill = self._event_ended and self._is_event_stream and self._stream.waiting > 0
                await self._send_on(self._stream.tick(fill_event_stream=fill))

    async def _send_on(self, body: bytes) -> None:
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    @property
    def _is_event_stream(self) -> bool:
        fields = () if self._head is None else self._head.fields
        return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in fields)


def _head(message: Message) -> Response:
    """Return status and fields without those of the connection."""
    lines = ((bytes(name).lower(), bytes(value).strip(b" \t")) for name, value in message.get("headers", ()))
    fields: Fields = tuple((name, value) for name, value in lines if name not in CONNECTION_FIELDS)
    return Response(status=message["status"], fields=fields)


def _inner_scope(scope: Message, request: Request) -> Message:
    """Return the application's scope: all of it from inside the encryption, nothing of the outer request."""
    path, _, query = request.path.partition("?")
    headers = [(name, value) for name, value in request.fields if name not in {b"host", b"cookie"}]
    if cookies := field_values(request.fields, b"cookie"):
        headers.append((b"cookie", b"; ".join(cookies)))  # the only name to join so (RFC 9113, 8.2.3)
    inner: Message = {
        "type": "http",
        "asgi": scope["asgi"],
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", request.authority.encode()), *headers],
        "client": None,
        "server": scope.get("server"),
        "extensions": {"attest.channel": {}},
    }
    if "state" in scope:
        inner["state"] = scope["state"]
    return inner


def _inner_receive(request: Request, receive: Receive) -> Receive:
    """Return a ``receive`` that yields the whole request, then the end of the connection."""
    given = False

    async def inner() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": request.content, "more_body": False}

    return inner


def _nonce(query: bytes) -> bytes | None:
    values = parse_qs(query.decode("latin-1"), max_num_fields=8).get("nonce", [])
    try:
        nonce = base64url_bytes(values[0], what="nonce") if len(values) == 1 else b""
    except AttestError:
        return None
    return nonce if len(nonce) == NONCE_BYTES else None


async def _send_busy(_scope: Message, _receive: Receive, send: Send) -> None:
    await _send_refusal(send, _BUSY, ((b"retry-after", b"1"),))


async def _send_refusal(send: Send, refusal: ChannelRefusal, more: Fields = ()) -> None:
    await _send_whole(send, refusal.status, PROBLEM_TYPE, refusal.document(), more=more)


async def _send_whole(
    send: Send, status: int, media_type: str, body: bytes, *, caching: bytes = b"no-store", more: Fields = ()
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await _send_start(send, status, media_type, (length, *more), caching=caching)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_start(send: Send, status: int, media_type: str, more: Fields, *, caching: bytes = b"no-store") -> None:
    headers = [(b"content-type", media_type.encode()), (b"cache-control", caching), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
