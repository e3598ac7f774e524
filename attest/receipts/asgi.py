"""Receipts for any ASGI application inside the machine, such as an OpenAI-compatible server.

::

    app = ReceiptMiddleware(app, recorder, chain=chain)

    POST …                    passed on unchanged, and recorded; the answer has one more header, Attest-Receipt: ID
    GET  /receipts/ID         the receipt with its chain, once the answer has ended: CBOR, or JSON if that is accepted

Bodies pass through as they come; only their hashes are kept. Place it outside of everything that changes a body, such
as compression, and inside of the encrypted channel. No framework is imported.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

from attest.encoding import base64url_bytes
from attest.errors import AttestError
from attest.receipts.exchange import Exchange, ExchangeRecorder, parameters_of
from attest.receipts.receipt_file import FILE_TYPE, ReceiptChain

RECEIPTS_PATH: Final = "/receipts/"
RECEIPT_FIELD: Final = b"attest-receipt"
CHALLENGE_FIELD: Final = b"attest-challenge"
MAX_KEPT: Final = 1024
"""Receipts, of 4 KiB each."""
MAX_PARAMETERS_BYTES: Final = 256 * 1024
"""Bytes of a request that are kept until its end, to read its parameters."""
_UNSEEN: Final = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
"""Extensions of ASGI by which a server sends bytes that the middleware does not see."""

Message = MutableMapping[str, Any]  # Any: ASGI's own
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class ReceiptMiddleware:
    """ASGI application that records the exchanges of another one, and serves their receipts.

    Args:
        recorder: of the model that answers.
        chain: returns the parts that stand beside each receipt; called in a thread when a receipt is requested. An
            ``AttestError`` of it is answered 503.
        kept: largest number of receipts that are kept, the newest.
        methods: that are recorded.
    """

    def __init__(
        self,
        application: Application,
        recorder: ExchangeRecorder,
        *,
        chain: Callable[[], ReceiptChain],
        kept: int = MAX_KEPT,
        methods: frozenset[str] = frozenset({"POST"}),
    ) -> None:
        self._application = application
        self._recorder = recorder
        self._chain = chain
        self._most = kept
        self._methods = methods
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
        elif scope["method"] == "GET" and scope["path"].startswith(RECEIPTS_PATH):
            await self._send_receipt(scope, send)
        else:
            exchange = self._begun(scope) if scope["method"] in self._methods else None
            if exchange is None:
                await self._application(scope, receive, send)
            else:
                await self._recorded(exchange, scope, receive, send)

    def _begun(self, scope: Message) -> Exchange | None:
        """Begin an exchange; None for a request that no receipt can describe."""
        fields = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        try:
            challenge = fields.get(CHALLENGE_FIELD)
            return self._recorder.begin(
                method=scope["method"],
                target=target.decode("latin-1"),
                media_type=fields.get(b"content-type", ""),
                challenge=None if challenge is None else base64url_bytes(challenge, what="challenge"),
            )
        except (AttestError, ValueError):
            return None

    async def _recorded(self, exchange: Exchange, scope: Message, receive: Receive, send: Send) -> None:
        passage = _Passage(exchange, receive, send)
        extensions = {name: one for name, one in scope.get("extensions", {}).items() if name not in _UNSEEN}
        try:
            await self._application({**scope, "extensions": extensions}, passage.receive, passage.send)
        finally:
            self._keep(exchange, complete=passage.complete)

    def _keep(self, exchange: Exchange, *, complete: bool) -> None:
        """Sign and keep a receipt. An exchange without an answer, or with another model, has none."""
        with suppress(AttestError, ValueError):
            self._kept[exchange.receipt_id.hex()] = exchange.end(complete=complete)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    async def _send_receipt(self, scope: Message, send: Send) -> None:
        receipt = self._kept.get(scope["path"].removeprefix(RECEIPTS_PATH))
        if receipt is None:
            await _send_problem(
                send, 404, "receipt-unknown", "No receipt has this identity, or its answer has not ended"
            )
            return
        try:
            file = (await asyncio.to_thread(self._chain)).file(receipt)
        except AttestError:
            await _send_problem(send, 503, "evidence-unavailable", "No evidence available now")
            return
        accepted = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept")
        if b"json" in accepted:
            await _send_whole(send, 200, b"application/json", file.to_json())
        else:
            await _send_whole(send, 200, FILE_TYPE.encode(), file.to_bytes())


class _Passage:
    """The messages of one exchange, passed on as they are, with one header more."""

    def __init__(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        self._exchange = exchange
        self._receive = receive
        self._send = send
        self._parameters: bytearray | None = bytearray()
        self.complete = False

    async def receive(self) -> Message:
        """Pass a message of the client on."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._take(message.get("body", b""), last=not message.get("more_body", False))
        return message

    def _take(self, data: bytes, *, last: bool) -> None:
        self._exchange.receive(data)
        if self._parameters is None:
            return
        self._parameters += data
        if len(self._parameters) > MAX_PARAMETERS_BYTES:
            self._parameters = None
        elif last:
            self._exchange.sampled(parameters_of(bytes(self._parameters)))
            self._parameters = None

    async def send(self, message: Message) -> None:
        """Pass a message of the application on."""
        if message["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            kind = next((value for name, value in headers if name.lower() == b"content-type"), b"")
            self._exchange.respond(message["status"], kind.decode("latin-1"))
            identity = self._exchange.receipt_id.hex().encode()
            await self._send({**message, "headers": [*headers, (RECEIPT_FIELD, identity)]})
            return
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if message["type"] == "http.response.body" and not self.complete:
            self._exchange.send(message.get("body", b""))
        await self._send(message)
        self.complete = self.complete or last


async def _send_problem(send: Send, status: int, code: str, title: str) -> None:
    problem = {"status": status, "code": code, "title": title}
    await _send_whole(send, status, b"application/problem+json", json.dumps(problem).encode())


async def _send_whole(send: Send, status: int, media_type: bytes, body: bytes) -> None:
    headers = [
        (b"content-type", media_type),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
