"""Running process of the service: listeners in one event loop, and handling of signals."""

from __future__ import annotations

import asyncio
import gc
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
"""Connections that the system accepts before a process accepts them."""
_SHORT_COLLECTIONS: Final = (700, 10, 10)
"""Thresholds of garbage collection, Python's own: one collection takes less than a millisecond."""
CONNECTIONS_PER_RELEASE: Final = 16
"""Maximum open connections per concurrent release; further ones are answered 503."""
KEEP_ALIVE_SECONDS: Final = 15
HEAD_BYTES: Final = 32 * 1024
"""Maximum size of request line and headers before they are parsed; ``kms.api.limits`` has a lower limit."""
_ACCEPTED_AT_ONCE: Final = 1
"""Maximum connections accepted at once, so that one of several processes does not take all waiting ones."""
_TAKEN: Final = "another program uses it, perhaps another 'kms serve'; choose another with {option}"
_UNUSABLE: Final = "use an address of this machine with {option}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket, closed at shutdown, and its application.

    More than ``connections`` open ones are answered 503. ``again`` are files reloaded on SIGHUP, in addition to
    endorsements and TLS certificates. ``rate`` limits the new connections of one address, None sets no limit;
    ``refused`` is called for each connection above it. ``head_bytes`` limits line and headers of a request.
    """

    app: ASGIApp
    sock: socket.socket
    connections: int
    tls: ServerTls | None = None
    again: tuple[Reread, ...] = ()
    rate: Rate | None = None
    refused: Callable[[], None] = lambda: None
    head_bytes: int = HEAD_BYTES

    def paced(self) -> socket.socket:
        """Return the socket to serve; with a rate, it replaces ``sock``."""
        if self.rate is None:
            return self.sock
        return PacedListener(self.sock, rates=RateTable(self.rate), monotonic=ticks, refused=self.refused)


def connection_rate(settings: Settings) -> Rate | None:
    """Return the rate of new connections of one address; None means no limit, as behind a proxy."""
    rate = settings.client_connections_per_second if settings.client_requests_per_second else 0
    return Rate(per_second=rate, burst=settings.client_burst) if rate else None


def listen(host: str, port: int, *, names: tuple[str, str] = ("host", "port")) -> socket.socket:
    """Open a listening socket; port 0 means any port. ``names`` are the settings of host and port.

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
    """Serve until SIGTERM or SIGINT, then finish requests in progress. SIGHUP reloads files.

    Requests in progress get ``drain_seconds``. All listeners are in one event loop; the caller closes the services.
    ``ready`` is called once, when every listener accepts connections; ``ending`` when connections are no longer
    accepted, before requests in progress are finished. End of file on the descriptor ``lifeline``, when the supervising
    process is gone, also ends serving.
    """
    servers = tuple(_server(one, drain_seconds) for one in listeners)

    def end() -> None:
        ending()
        for server in servers:
            server.should_exit = True

    def end_alone() -> None:
        loop.remove_reader(lifeline or 0)
        report("error: the supervising process is gone; shutting down")
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
        access_log=False,  # kms.api.observation logs requests, with their ids
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=listener.head_bytes,
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
                sock.listen(BACKLOG)  # uvicorn's backlog is the number of connections accepted at once
        _exempt_from_collection()
        ready()


def _exempt_from_collection() -> None:
    """Exempt what exists now from garbage collection: modules, schemas and services live until the process ends.

    A full collection would examine these objects each time, and hold up all requests for about 100 ms. From now on,
    collections are frequent and short again, as commands that end soon do not need them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SHORT_COLLECTIONS)


def _reload(services: Services, listeners: Sequence[Listener], report: Callable[[str], None]) -> None:
    """Reload everything in a thread, so that requests continue."""
    _read_again("endorsements were reloaded", partial(services.endorsements.reload, at=services.clock()), report)
    for tls in (one.tls for one in listeners if one.tls is not None):
        _read_again("a TLS certificate was reloaded", partial(tls.reload, at=services.clock()), report)
    for one in (reread for listener in listeners for reread in listener.again):
        _read_again(one.done, one.read, report)


def _read_again(done: str, read: Callable[[], object], report: Callable[[str], None]) -> None:
    """Reload a file; if that fails, its old content stays in use."""
    try:
        read()
    except AttestError as exc:
        report(f"error: {exc.message}; the old content stays in use")
    else:
        report(done)
