"""The running process of the service: its socket, its server, its signals, and its hardening."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from attest import listening_socket
from attest.errors import ConfigurationError
from attest.hardening import harden
from attest.http_protocol import EmbeddedServer, PatientLoop, expecting_heads
from attest.listening_socket import AddressFields
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.logs import set_up_logs
from rag_demo.enclave.service.settings import relaxations

KEEP_ALIVE_SECONDS: Final = 15
_HEAD_BYTES: Final = 32 * 1024
_BACKLOG: Final = 256
_ADDRESS: Final = AddressFields(
    "listen.host",
    "listen.port",
    "name an address of this machine",
    "another program uses it; name another port, or 0 for any",
)
_DIVERTING: Final = frozenset({"SSLKEYLOGFILE"})
_OF_POSTGRES: Final = "PG"
_PASSWORDS: Final = frozenset({"PGPASSFILE", "PGPASSWORD"})
"""These variables do not change the destination of a connection."""
_log = logging.getLogger("rag.enclave")


def prepare() -> None:
    """Protect this process from other processes and from core dumps, and log to standard error alone.

    Environment variables that configure libraries apart from the settings are removed: the address of a database, and
    the file for the keys of TLS connections.

    Raises:
        ConfigurationError: ``rag-not-hardened``.
    """
    set_up_logs()
    for name in [one for one in os.environ if one in _DIVERTING or one.startswith(_OF_POSTGRES)]:
        if name not in _PASSWORDS:
            del os.environ[name]
            _log.warning("the variable %s of the environment is ignored", name)
    if not harden():
        raise ConfigurationError(
            "this system does not prevent other processes from reading this one's memory",
            code="rag-not-hardened",
            expected="Linux, and prctl(PR_SET_DUMPABLE)",
        )


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    return listening_socket.listen(host, port, backlog=_BACKLOG, fields=_ADDRESS)


def serve(service: RagService, sock: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; running requests get a while to finish, then the keys are wiped.

    Args:
        service: not yet begun.
        sock: listening; it is closed in the end.
        ready: called when connections are accepted.
    """
    for one in relaxations(service.settings):
        _log.warning("relaxed: %s", one)
    limits = service.settings.limits
    config = uvicorn.Config(
        expecting_heads(service.app),
        log_config=None,
        access_log=False,  # not even the operator may see the paths that users request
        http="h11",
        ws="none",
        h11_max_incomplete_event_size=_HEAD_BYTES,
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
    )
    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        runner.run(_serve(EmbeddedServer(config), sock, ready))


async def _serve(server: EmbeddedServer, sock: socket.socket, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    serving = asyncio.create_task(server.serve([sock]))
    starting = asyncio.create_task(EmbeddedServer.until_started([server]))
    await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    if server.started:
        _log.info("listening", extra={"port": sock.getsockname()[1]} if sock.fileno() >= 0 else {})
        ready()
    await serving
