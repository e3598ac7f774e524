"""A running process of the service: its listeners in one event loop, and what signals do."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from attest import listening_socket
from attest.clock import ticks
from attest.errors import AttestError
from attest.http_protocol import EmbeddedServer, PatientLoop, expecting_heads
from attest.listening_socket import AddressFields
from attest.paced_listener import PacedListener
from attest.rate_limits import Rate, RateTable
from kms.config.settings import Settings
from kms.config.tls import ServerTls
from kms.release.services import Services
from kms.running.reload import Reread

BACKLOG: Final = 512
"""Connections that the system accepts before a process takes them."""
CONNECTIONS_PER_RELEASE: Final = 16
"""Connections that may be open for each release that may be worked on; more are answered 503."""
KEEP_ALIVE_SECONDS: Final = 15
_HEAD_BYTES: Final = 32 * 1024
"""Of a request's line and headers, before they are read; ``kms.api.limits`` says less, and says it in words."""
_ACCEPTED_AT_ONCE: Final = 1
"""Of several processes on one socket, the first to wake must not take everything that is waiting."""
_TAKEN: Final = "another program, perhaps another 'kms serve', has it; take another with {option}"
_UNUSABLE: Final = "name an address of this machine with {option}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket, closed when serving ends, and the application that answers there.

    More than ``connections`` open at once are answered 503. ``again`` are files read again on SIGHUP, beside
    endorsements and TLS certificates. ``rate`` is that of the new connections of one address, None for no limit;
    ``refused`` is called for each above it.
    """

    app: ASGIApp
    sock: socket.socket
    connections: int
    tls: ServerTls | None = None
    again: tuple[Reread, ...] = ()
    rate: Rate | None = None
    refused: Callable[[], None] = lambda: None

    def paced(self) -> socket.socket:
        """Return the socket to serve; with a rate, it takes the place of ``sock``."""
        if self.rate is None:
            return self.sock
        return PacedListener(self.sock, rates=RateTable(self.rate), monotonic=ticks, refused=self.refused)


def connection_rate(settings: Settings) -> Rate | None:
    """Return the rate of new connections of one address; None means no limit, as behind a proxy."""
    rate = settings.client_connections_per_second if settings.client_requests_per_second else 0
    return Rate(per_second=rate, burst=settings.client_burst) if rate else None


def listen(host: str, port: int, *, names: tuple[str, str] = ("host", "port")) -> socket.socket:
    """Open a listening socket; port 0 takes any. ``names`` are the settings of host and port.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    host_option, port_option = (f"--{name.replace('_', '-')}" for name in names)
    fields = AddressFields(*names, _UNUSABLE.format(option=host_option), _TAKEN.format(option=port_option))
    return listening_socket.listen(host, port, backlog=BACKLOG, fields=fields)


def serve(
    listeners: Sequence[Listener],
    services: Services,
    *,
    drain_seconds: int,
    report: Callable[[str], None],
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    lifeline: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests that have begun are finished. SIGHUP reads files again.

    They get ``drain_seconds`` for that. All listeners are in one event loop; the caller closes the services. ``ready``
    is called once, when every listener accepts connections; ``ending`` when no more are accepted, before those requests
    are finished. The end of file of the descriptor ``lifeline``, when the watching process is gone, ends serving too.
    """
    servers = tuple(_server(one, drain_seconds) for one in listeners)

    def end() -> None:
        ending()
        for server in servers:
            server.should_exit = True

    def end_alone() -> None:
        loop.remove_reader(lifeline or 0)
        report("error: the process that watches this one is gone; ending")
        end()

    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        loop = runner.get_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        reload = partial(_reload, services, listeners, report)
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, reload))
        if lifeline is not None:
            loop.add_reader(lifeline, end_alone)
        runner.run(_serve(servers, listeners, ready))


def _server(listener: Listener, drain_seconds: int) -> EmbeddedServer:
    tls = listener.tls
    config = uvicorn.Config(
        expecting_heads(listener.app),
        log_config=None,
        access_log=False,  # kms.api.observation writes it, with the request's id
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=_HEAD_BYTES,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=_ACCEPTED_AT_ONCE,
        limit_concurrency=listener.connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=drain_seconds,
        ssl_context_factory=None if tls is None else lambda *_: tls.context,
    )
    return EmbeddedServer(config)


async def _serve(servers: Sequence[EmbeddedServer], listeners: Sequence[Listener], ready: Callable[[], None]) -> None:
    sockets = tuple(one.paced() for one in listeners)
    async with asyncio.TaskGroup() as running:
        for server, sock in zip(servers, sockets, strict=True):
            running.create_task(server.serve([sock]))
        await EmbeddedServer.until_started(servers)
        for server, sock in zip(servers, sockets, strict=True):
            if not server.should_exit:
                sock.listen(BACKLOG)  # what uvicorn passes on as the backlog is how many it accepts at once
        ready()


def _reload(services: Services, listeners: Sequence[Listener], report: Callable[[str], None]) -> None:
    """Read everything again, in a thread, so that requests go on meanwhile."""
    _read_again("endorsements were read again", partial(services.endorsements.reload, at=services.clock()), report)
    for tls in (one.tls for one in listeners if one.tls is not None):
        _read_again("a TLS certificate was read again", partial(tls.reload, at=services.clock()), report)
    for one in (reread for listener in listeners for reread in listener.again):
        _read_again(one.done, one.read, report)


def _read_again(done: str, read: Callable[[], object], report: Callable[[str], None]) -> None:
    """Read a file again; when that fails, its old content stays in use."""
    try:
        read()
    except AttestError as exc:
        report(f"error: {exc.message}; what was read before stays in use")
    else:
        report(done)
