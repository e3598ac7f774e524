"""Receipts for any ASGI application inside the machine, such as an OpenAI-compatible server.

::

    app = ReceiptMiddleware(app, recorder, chain=chain)

    POST …                    passed on unchanged, and recorded; the answer has one more header, Attest-Receipt: ID
    GET  /receipts/ID         the receipt with its chain, once the answer has ended: CBOR, or JSON if that is accepted

ID has 128 random bits, and only the client of the answer gets it: it is the permission to get the receipt.

Bodies pass through as they come; only their hashes are kept. Place it outside of everything that changes a body, such
as compression, and inside of the encrypted channel. No framework is imported.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import quote

from attest.encoding import base64url_bytes
from attest.errors import AttestError
from attest.receipts.exchange import Exchange, ExchangeRecorder, parameters_of
from attest.receipts.receipt_file import FILE_TYPE, ReceiptChain

_RECEIPT_PATH: Final = re.compile("/receipts/([0-9a-f]{32})")
_PATH_CHARACTERS: Final = "/:@!$&'()*+,;="
"""Characters that stand for themselves in a path (RFC 3986, section 3.3), beside letters, digits and ``-._~``."""
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
        missing: called with the reason when an answer gets no receipt, such as keys that are too old.
    """

    def __init__(
        self,
        application: Application,
        recorder: ExchangeRecorder,
        *,
        chain: Callable[[], ReceiptChain],
        kept: int = MAX_KEPT,
        methods: frozenset[str] = frozenset({"POST"}),
        missing: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._application = application
        self._source = recorder, chain
        self._most = kept
        self._methods = methods
        self._missing = missing
        self._kept: OrderedDict[str, tuple[bytes, Callable[[], ReceiptChain]]] = OrderedDict()

    def renew(self, recorder: ExchangeRecorder, *, chain: Callable[[], ReceiptChain]) -> None:
        """Use other keys for the exchanges that begin from now on. Earlier ones keep their keys and their chain."""
        self._source = recorder, chain

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        http = scope["type"] == "http"
        if http and (wanted := _wanted(scope)) is not None:
            await self._send_receipt(wanted, scope, send)
        elif http and scope["method"] in self._methods:
            await self._recorded(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    def _begun(self, recorder: ExchangeRecorder, scope: Message) -> Exchange | None:
        """Begin an exchange; None for a request that no receipt can describe."""
        target = scope.get("raw_path") or quote(scope["path"], safe=_PATH_CHARACTERS).encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        try:
            challenge = _field(scope, CHALLENGE_FIELD)
            return recorder.begin(
                method=scope["method"],
                target=target.decode("latin-1"),
                media_type=_field(scope, b"content-type") or "",
                challenge=None if challenge is None else base64url_bytes(challenge, what="challenge"),
            )
        except (AttestError, ValueError) as exc:
            self._missing(exc)
            return None

    async def _recorded(self, scope: Message, receive: Receive, send: Send) -> None:
        recorder, chain = self._source
        exchange = self._begun(recorder, scope)
        if exchange is None:
            await self._application(scope, receive, send)
            return
        passage = _Passage(exchange, receive, send, ended=lambda: self._keep(exchange, chain, complete=True))
        extensions = {name: one for name, one in scope.get("extensions", {}).items() if name not in _UNSEEN}
        try:
            await self._application({**scope, "extensions": extensions}, passage.receive, passage.send)
        finally:
            if not passage.complete:
                self._keep(exchange, chain, complete=False)

    def _keep(self, exchange: Exchange, chain: Callable[[], ReceiptChain], *, complete: bool) -> None:
        """Sign and keep a receipt. An exchange without an answer, or with another model, has none."""
        try:
            self._kept[exchange.receipt_id.hex()] = exchange.end(complete=complete), chain
        except (AttestError, ValueError) as exc:
            self._missing(exc)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    async def _send_receipt(self, wanted: str, scope: Message, send: Send) -> None:
        answer = await self._answer(wanted, as_json="json" in (_field(scope, b"accept") or ""))
        await _send_whole(send, *answer, head=scope["method"] == "HEAD")

    async def _answer(self, wanted: str, *, as_json: bool) -> tuple[int, str, bytes]:
        """Return status, media type and body of the answer to a request for a receipt."""
        found = self._kept.get(wanted)
        if found is None:
            return _problem(404, "receipt-unknown", "No receipt has this identity, or its answer has not ended")
        try:
            file = await asyncio.to_thread(_file, *found, as_json=as_json)
        except AttestError:
            return _problem(503, "evidence-unavailable", "No evidence available now")
        return 200, "application/json" if as_json else FILE_TYPE, file


class _Passage:
    """The messages of one exchange, passed on as they are, with one header more."""

    def __init__(self, exchange: Exchange, receive: Receive, send: Send, *, ended: Callable[[], None]) -> None:
        self._exchange = exchange
        self._receive = receive
        self._send = send
        self._when_ended = ended
        self._parameters: bytearray | None = bytearray()
        self._left = False
        self._ended = False
        self.complete = False

    async def receive(self) -> Message:
        """Pass a message of the client on."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._take(message.get("body", b""), last=not message.get("more_body", False))
        elif message["type"] == "http.disconnect":
            self._left = True
        return message

    def _take(self, data: bytes, *, last: bool) -> None:
        self._exchange.receive(data)
        if self._parameters is None:
            return
        if len(self._parameters) + len(data) > MAX_PARAMETERS_BYTES:
            self._parameters = None
            return
        self._parameters += data
        if last:
            self._exchange.sampled(parameters_of(bytes(self._parameters)))
            self._parameters = None

    async def send(self, message: Message) -> None:
        """Pass a message of the application on."""
        match message["type"]:
            case "http.response.start":
                await self._begin(message)
            case "http.response.body" if not self._ended:
                await self._continue(message)
            case _:
                await self._send(message)

    async def _begin(self, message: Message) -> None:
        """Pass the head of the answer on, which names its receipt and no other."""
        self._exchange.respond(message["status"], _field(message, b"content-type") or "")
        headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() != RECEIPT_FIELD]
        identity = self._exchange.receipt_id.hex().encode()
        await self._send({**message, "headers": [*headers, (RECEIPT_FIELD, identity)]})

    async def _continue(self, message: Message) -> None:
        """Pass a piece of the answer on. Servers drop what a client that left cannot get, without an error."""
        self._exchange.send(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        await self._send(message)
        if self._ended and not self._left:
            self.complete = True
            self._when_ended()


def _wanted(scope: Message) -> str | None:
    """Return the identity of the receipt that a request asks for; None for a request of the application."""
    if scope["method"] not in ("GET", "HEAD"):
        return None
    found = _RECEIPT_PATH.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
    return None if found is None else found[1]


def _field(message: Message, name: bytes) -> str | None:
    """Return the value of a field, several combined (RFC 9110, section 5.3); None without one."""
    values = [value.decode("latin-1") for field, value in message.get("headers", ()) if field.lower() == name]
    return ", ".join(values) if values else None


def _file(receipt: bytes, chain: Callable[[], ReceiptChain], *, as_json: bool) -> bytes:
    """Return a receipt with its chain."""
    file = chain().file(receipt)
    return file.to_json() if as_json else file.to_bytes()


def _problem(status: int, code: str, title: str) -> tuple[int, str, bytes]:
    problem = {"status": status, "code": code, "title": title}
    return status, "application/problem+json", json.dumps(problem).encode()


async def _send_whole(send: Send, status: int, media_type: str, body: bytes, *, head: bool) -> None:
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body, "more_body": False})
