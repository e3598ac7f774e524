"""Connections of the services: limits of time and number before a request, and the client's certificate within one.

uvicorn limits neither the time of a TLS handshake, of a request's head or of the reading of an answer, nor the number
of connections of one address, and it does not pass on a client's certificate. The event loop therefore puts one
protocol around the one that uvicorn makes for each connection. No protocol of uvicorn's is named or changed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attest.paced_listener import reset_on_close
from attest.rate_limits import caller_of

HANDSHAKE_SECONDS: Final = 5.0
"""Limit for a TLS handshake."""
SHUTDOWN_SECONDS: Final = 2.0
"""Limit for the client to answer the end of TLS; until then, what it still sends is decrypted and dropped."""
HEAD_SECONDS: Final = 10.0
"""Limit for the arrival of a request's head, from the connection or from the first byte of a later request."""
ANSWER_SECONDS: Final = 30.0
"""Limit for a client to take what an answer left in the buffer of its connection."""
WAITING: Final = 256
"""Connections of one process without a request yet. Descriptors of a process (1,024 by default) stay free."""
WAITING_EACH: Final = 128
"""Connections of one address (of IPv6: of one /64) without a request yet."""
_STARTED_POLL_SECONDS: Final = 0.01


class WaitingConnections:
    """Connections on which no request has arrived yet; above the limit of all or of one address, the oldest is closed.

    An honest client needs milliseconds for handshake and head. Closing the oldest therefore meets clients that
    hold connections open, and not the ones that arrive meanwhile.
    """

    def __init__(self, *, total: int = WAITING, each: int = WAITING_EACH) -> None:
        self._total = total
        self._each = each
        self._addresses: dict[PatientProtocol, str] = {}  # in the order of arrival
        self._numbers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, connection: PatientProtocol, address: str) -> None:
        """Add a connection, and close the oldest one that is too many."""
        if self._numbers[address] >= self._each:
            self._close_first(one for one, of in self._addresses.items() if of == address)
        elif len(self._addresses) >= self._total:
            self._close_first(iter(self._addresses))
        self._addresses[connection] = address
        self._numbers[address] += 1

    def remove(self, connection: PatientProtocol) -> None:
        """Remove a connection, if it waits."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._numbers[address] -= 1
            if not self._numbers[address]:
                del self._numbers[address]

    def _close_first(self, connections: Iterator[PatientProtocol]) -> None:
        oldest = next(connections)
        self.remove(oldest)
        oldest.abort()


class PatientProtocol(asyncio.Protocol):
    """One connection, from its first byte to its last; requests are the inner protocol's.

    Args:
        inner: receives what the client sends, once the TLS handshake is complete.
        waiting: the connections that have sent no request yet.
        tls: context of the handshake; None for plain HTTP.
    """

    def __init__(
        self, inner: asyncio.Protocol, *, waiting: WaitingConnections, tls: ssl.SSLContext | None = None
    ) -> None:
        self._inner = inner
        self._waiting = waiting
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._early: list[bytes] | None = None if tls is None else []
        self._head: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._requests = 0
        self._answers = 0

    # -- the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, or to wait for the first head."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._waiting.add(self, caller_of(str(peer[0])) if isinstance(peer, tuple) else "")
        if self._tls is None:
            self._expect_head()
            self._inner.connection_made(transport)
        else:
            self._transport.pause_reading()  # until the handshake reads
            self._handshake = asyncio.get_running_loop().create_task(self._secure(self._transport, self._tls))

    async def _secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except (OSError, EOFError):  # ssl.SSLError is an OSError; the client sees why
            secured = None
        finally:
            # A failed task refers to this connection and its TLS buffers, and would keep them until a collection.
            self._handshake = None
        if secured is None or secured.is_closing():
            self._waiting.remove(self)
            transport.close()
            return
        self._transport = secured
        self._expect_head()
        self._inner.connection_made(secured)
        early, self._early = self._early or [], None
        for data in early:
            self._receive(data)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; with them, another head may begin."""
        if self._early is None:
            self._receive(data)
        else:
            self._early.append(data)  # it came with the end of the handshake

    def _receive(self, data: bytes) -> None:
        if not self._requests and self._head is None:
            self._expect_head()
        # The task that answers a request begins in this context, or in that of the request before it.
        _CONNECTION.set(self)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the end on."""
        return self._inner.eof_received() if self._early is None else False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._waiting.remove(self)
        self._stop_expecting()
        self._stop_watching()
        if self._early is None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        self._watch()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._stop_watching()
        self._inner.resume_writing()

    def abort(self) -> None:
        """Close the connection at once, and drop what its client has not read, in the system's buffers too."""
        if self._handshake is not None:
            self._handshake.cancel()
        if self._transport is not None:
            with contextlib.suppress(OSError):  # the connection may have ended
                reset_on_close(self._transport.get_extra_info("socket"))
            self._transport.abort()

    # -- its requests

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate that the handshake verified, in DER."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Expect no head while a request is answered, and expect the client to take the answer."""
        self._waiting.remove(self)
        self._stop_expecting()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._answers += 1
            if self._transport is not None and self._transport.get_write_buffer_size():
                self._watch()

    def _expect_head(self) -> None:
        if self._transport is not None:
            self._head = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._transport.close)

    def _stop_expecting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _watch(self) -> None:
        if self._taking is None:
            self._taking = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._require_taken, self._answers)

    def _stop_watching(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _require_taken(self, answers: int) -> None:
        """Close the connection if the client has left an answer unread, and none has ended since."""
        self._taking = None
        if self._transport is None or not self._transport.get_write_buffer_size():
            return
        if answers == self._answers:
            self.abort()
        else:
            self._watch()


_CONNECTION: ContextVar[PatientProtocol | None] = ContextVar("connection", default=None)


def client_certificate() -> bytes | None:
    """Return the certificate of the client whose request is answered, in DER; None where it showed none."""
    connection = _CONNECTION.get()
    return None if connection is None else connection.certificate


def expecting_heads(app: ASGIApp) -> ASGIApp:
    """Return an application whose connections know when a head has arrived and when its request is answered.

    A request whose length two headers give, or of HTTP/1.0 in chunks, is refused, and its connection is closed: a
    proxy before the service may see the end of the request elsewhere (RFC 9112, section 6.1).
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        connection = _CONNECTION.get()
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        with contextlib.ExitStack() as request:
            if connection is not None:
                request.enter_context(connection.answering())

            async def sending(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    request.close()  # what arrives from now on is the next request

            await (_refuse_framing(sending) if _is_ambiguous(scope) else app(scope, receive, sending))

    return answer


def _is_ambiguous(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] == "1.0")


async def _refuse_framing(send: Send) -> None:
    expected = "a body with Content-Length, or in chunks of HTTP/1.1"
    problem = {
        "title": "Bad Request",
        "status": 400,
        "detail": "the end of the request is ambiguous; the request was not read, and the connection is closed",
        "code": "request-malformed",
        "field": "Transfer-Encoding",
        "expected": expected,
    }
    body = json.dumps(problem).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers keep their connections with ``PatientProtocol``."""

    async def create_server(  # type: ignore[override]  # the overloads of typeshed; all arguments are passed on
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        *arguments: Any,  # noqa: ANN401  passed on
        ssl: ssl.SSLContext | None = None,
        **options: Any,  # noqa: ANN401  passed on
    ) -> asyncio.Server:
        """Listen; the handshake is the protocol's, within its limits."""
        waiting = WaitingConnections()
        return await super().create_server(
            lambda: PatientProtocol(protocol_factory(), waiting=waiting, tls=ssl), *arguments, **options
        )


class EmbeddedServer(uvicorn.Server):
    """A server that leaves signals to the program that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers of signals as they are."""
        yield

    @staticmethod
    async def until_started(servers: Sequence[uvicorn.Server]) -> None:
        """Wait until all accept connections; uvicorn has a flag for it and no event."""
        while not all(server.started for server in servers):  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(_STARTED_POLL_SECONDS)
