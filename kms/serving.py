"""A running service: a socket, a web server, signals. Everything else is in ``app.py``."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.types import Lifespan

from attest.errors import AttestError, ConfigurationError
from kms.app import create_app
from kms.services import Services
from kms.settings import Settings

__all__ = ["listen", "serve"]

GRACE_SECONDS = 10
BACKLOG = 512
CONNECTIONS_PER_RELEASE = 16
"""Connections that may be open for each release that may be worked on; more are answered 503."""
KEEP_ALIVE_SECONDS = 15


def listen(settings: Settings) -> socket.socket:
    """Open the listening socket.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as exc:
        taken = exc.errno == errno.EADDRINUSE
        problem = os.strerror(exc.errno) if exc.errno is not None and exc.errno > 0 else str(exc)
        raise ConfigurationError(
            f"cannot listen on {settings.host} port {settings.port}: {problem}",
            code="address-in-use" if taken else "address-unusable",
            field="port" if taken else "host",
            got=f"{settings.host}:{settings.port}",
            hint="another program, perhaps another 'kms serve', has it; take another with --port"
            if taken
            else "name an address of this machine with --host",
        ) from exc


def serve(settings: Settings, services: Services, *, sock: socket.socket, report: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; requests that have begun are finished. SIGHUP reads endorsements again.

    Args:
        settings: as validated.
        services: opened; the caller closes them.
        sock: listening.
        report: takes a line for the operator.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = create_app(settings, services)
    app.router.lifespan_context = _lifespan(services, report)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=True,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.max_concurrent * CONNECTIONS_PER_RELEASE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    _end_by_signal(server)
    server.run(sockets=[sock])


def _end_by_signal(server: uvicorn.Server) -> None:
    """Make a signal end the server and not the process: uvicorn raises the one it got once more when it is done."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _lifespan(services: Services, report: Callable[[str], None]) -> Lifespan[FastAPI]:
    """Read endorsements again on SIGHUP, in a thread, so that requests go on meanwhile."""

    def reload() -> None:
        try:
            services.endorsements.reload(at=services.clock())
        except AttestError as exc:
            report(f"error: {exc.message}; what was read before stays in use")
        else:
            report("endorsements were read again")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, reload))
        yield
        loop.remove_signal_handler(signal.SIGHUP)

    return lifespan
