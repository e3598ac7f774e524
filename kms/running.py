"""`kms serve` from settings to the end: sockets first, then one process or several, each with services of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from kms.actors import local_actor
from kms.app import create_app
from kms.clock import Clock
from kms.configuration import log_configuration, read_configuration
from kms.hardening import harden
from kms.keys.kek import RandomBytes
from kms.proving import open_source
from kms.services import Services, open_services
from kms.serving import CONNECTIONS_PER_RELEASE, Listener, listen, serve
from kms.settings import Settings
from kms.tls.opening import open_tls, weigh_channel
from kms.workers import Worker, supervise

__all__ = ["Surroundings", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a running service is given beside its settings.

    Attributes:
        clock: tells the time.
        random: where nonces come from.
        report: takes a line for the operator.
        announce: called once, when the service answers, with its identity and the port that it listens on.
    """

    clock: Clock
    random: RandomBytes
    report: Callable[[str], None]
    announce: Callable[[str, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sockets:
    """What was opened before any worker started; every worker serves all of it."""

    release: socket.socket

    @property
    def port(self) -> int:
        """Return where keys are released."""
        return int(self.release.getsockname()[1])


def run(settings: Settings, surroundings: Surroundings) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns:
        The exit code of this process, which may be a worker's.

    Raises:
        ConfigurationError: as ``open_services``, ``open_tls``, ``weigh_channel``, ``harden`` and ``listen``.
        IntegrityError: one of the service's own keys does not open.
        UnavailableError: the database is in use by something else.
    """
    weigh_channel(settings, report=surroundings.report)
    if settings.workers == 1:
        with _services(settings, surroundings) as services, _sockets(settings) as sockets:
            identity = services.identity.public.text
            ready = partial(surroundings.announce, identity, sockets.port)
            _serve(settings, services, sockets, report=surroundings.report, ready=ready)
        return 0
    with _sockets(settings) as sockets:
        port = sockets.port
        found = supervise(
            settings.workers,
            drain_seconds=settings.drain_seconds,
            announce=lambda identity: surroundings.announce(identity, port),
            report=surroundings.report,
        )
        if isinstance(found, Worker):
            with _services(settings, surroundings) as services:
                ready = partial(found.ready, services.identity.public.text)
                _serve(settings, services, sockets, report=surroundings.report, ready=ready, lifeline=found.lifeline)
            return 0
        return found


@contextmanager
def _sockets(settings: Settings) -> Iterator[_Sockets]:
    with ExitStack() as stack:
        yield _Sockets(release=stack.enter_context(listen(settings)))


@contextmanager
def _services(settings: Settings, surroundings: Surroundings) -> Iterator[Services]:
    harden(lock_memory=settings.lock_memory, report=surroundings.report)  # in this process, before any key is read
    services = open_services(settings, clock=surroundings.clock, random=surroundings.random, report=surroundings.report)
    try:
        configuration = read_configuration(settings, services.anchors)
        log_configuration(services.store, configuration, actor=local_actor(), at=services.clock())
        yield services
    finally:
        services.store.close()


def _serve(
    settings: Settings,
    services: Services,
    sockets: _Sockets,
    *,
    report: Callable[[str], None],
    ready: Callable[[], None],
    lifeline: int | None = None,
) -> None:
    tls = open_tls(settings, at=services.clock(), report=report)
    release = Listener(
        app=create_app(settings, services, tls=tls, evidence=open_source(settings, clock=services.clock)),
        sock=sockets.release,
        connections=settings.max_concurrent * CONNECTIONS_PER_RELEASE,
        tls=tls,
    )
    serve(
        [release],
        services,
        drain_seconds=settings.drain_seconds,
        report=report,
        ready=ready,
        lifeline=lifeline,
    )
