"""Connections as the services keep them: heads arrive in time, and a request knows its client's certificate.

uvicorn has no limit for the time that a request's head takes, and does not pass on the certificate of a client. Both
are of the connection, so the event loop puts a protocol of ours around the one that uvicorn makes for each. Nothing
here names a protocol of uvicorn's, or reaches into one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_SECONDS: Final = 10.0
"""From the connection, or from the first byte of a later request, until its head is there."""
_STARTED_POLL_SECONDS: Final = 0.01


class PatientProtocol(asyncio.Protocol):
    """Close a connection whose request line and headers do not arrive in time; bodies have their own limit.

    Args:
        inner: takes what arrives.
    """

    def __init__(self, inner: asyncio.Protocol) -> None:
        """Stand around a protocol that has no connection yet."""
        self._inner = inner
        self._transport: asyncio.BaseTransport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        self._transport = transport
        self._expect_head()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on; with them, another head may begin."""
        if not self._requests and self._deadline is None:
            self._expect_head()
        # The task that answers a request begins in this context, or in that of the request before it.
        _CONNECTION.set(self)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the end on."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_expecting()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate that the handshake verified, in DER."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Expect no head while a request is answered."""
        self._stop_expecting()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def _expect_head(self) -> None:
        if self._transport is not None:
            self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._transport.close)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_CONNECTION: ContextVar[PatientProtocol | None] = ContextVar("connection", default=None)


def client_certificate() -> bytes | None:
    """Return the certificate of the client whose request is answered, in DER; None where it showed none."""
    connection = _CONNECTION.get()
    return None if connection is None else connection.certificate


def expecting_heads(app: ASGIApp) -> ASGIApp:
    """Return an application that tells its connection when a head has arrived and when its request is answered."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        connection = _CONNECTION.get()
        if scope["type"] != "http" or connection is None:
            await app(scope, receive, send)
            return
        with contextlib.ExitStack() as request:
            request.enter_context(connection.answering())

            async def sending(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    request.close()  # what arrives from now on is the next request

            await app(scope, receive, sending)

    return answer


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers keep their connections with ``PatientProtocol``."""

    async def create_server(  # type: ignore[override]  # the overloads of typeshed; all arguments are passed on
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        *arguments: Any,  # noqa: ANN401  passed on
        **options: Any,  # noqa: ANN401  passed on
    ) -> asyncio.Server:
        """Listen, with a protocol of ours around each that the factory makes."""
        return await super().create_server(lambda: PatientProtocol(protocol_factory()), *arguments, **options)


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
