"""Implementation of `kms serve`: it opens the sockets, then runs one or more processes, each with its own services."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from attest.clock import Clock
from attest.errors import ConfigurationError
from attest.hardening import harden
from kms.admin_api.listener import administration
from kms.api.app import create_app, foreign_faces
from kms.api.observation import Watching
from kms.config.callers import identified_callers
from kms.config.configuration import log_configuration, read_configuration
from kms.config.listener_tls import open_tls, weigh_channel
from kms.config.settings import Settings
from kms.domain.actors import local_actor
from kms.domain.kek import RandomBytes
from kms.keys.rotation import Rotator
from kms.operations.guards.opening import open_local_guards, refused_before
from kms.operations.guards.watch import GuardWatch, kept_advanced
from kms.operations.services import open_services
from kms.release.endorsement_refresh import Refresher
from kms.release.services import Services
from kms.running.fsck_verdict import SharedVerdict
from kms.running.logs import set_up_logs
from kms.running.process import CONNECTIONS_PER_RELEASE, HEAD_BYTES, Listener, connection_rate, listen, serve
from kms.running.reload import Meaning, key_sets_again, verifiers_again
from kms.running.scheduled_fsck import ScheduledFsck, examined
from kms.running.scheduled_tasks import SteadyClock, Upkeep, kept_up
from kms.running.self_evidence import open_source
from kms.running.workers import Worker, supervise


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """Clock, randomness and output of a running service.

    ``announce`` is called once, when the service is ready, with its identity, its port, and the port of the
    administration API, if there is one.
    """

    clock: Clock
    random: RandomBytes
    report: Callable[[str], None]
    announce: Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """Sockets, opened before any worker starts, and the folder of the metrics that several workers share."""

    release: socket.socket
    admin: socket.socket | None
    metrics: socket.socket | None
    shared: Path | None

    @property
    def ports(self) -> tuple[int, int | None]:
        """The ports of the release plane and of the administration API."""
        admin = None if self.admin is None else int(self.admin.getsockname()[1])
        return int(self.release.getsockname()[1]), admin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """Parameters of one serving process; ``ready`` is called when it accepts connections."""

    ready: Callable[[], None]
    meaning: Meaning
    verdict: SharedVerdict
    guard: GuardWatch
    number: int = 1
    lifeline: int | None = None


def run(settings: Settings, process: ProcessContext) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code of this process, which may be a worker's.

    Raises:
        ConfigurationError: as ``open_services``, ``open_tls``, ``weigh_channel``, ``harden`` and ``listen``.
        IntegrityError: one of the service's own keys cannot be unwrapped.
        UnavailableError: the database is in use.
    """
    started = process.clock()
    set_up_logs(settings.log_format)
    weigh_channel(settings, report=process.report)
    verdict = SharedVerdict()
    if settings.workers == 1:
        with _services(settings, process, started, verdict) as (services, meaning, guard), _opened(settings) as opened:
            ready = partial(process.announce, services.identity.public.text, *opened.ports)
            life = _Life(ready=ready, meaning=meaning, verdict=verdict, guard=guard)
            _serve(settings, services, opened, life, process=process)
        return 0
    with _opened(settings) as opened:
        ports = opened.ports
        found = supervise(
            settings.workers,
            drain_seconds=settings.drain_seconds,
            announce=lambda identity: process.announce(identity, *ports),
            report=process.report,
        )
        if not isinstance(found, Worker):
            return found
        with _services(settings, process, started, verdict, number=found.number) as (services, meaning, guard):
            ready = partial(found.ready, services.identity.public.text)
            life = _Life(
                ready=ready,
                meaning=meaning,
                verdict=verdict,
                guard=guard,
                number=found.number,
                lifeline=found.lifeline,
            )
            _serve(settings, services, opened, life, process=process)
        return 0


@contextmanager
def _opened(settings: Settings) -> Iterator[_Opened]:
    with ExitStack() as stack:
        release = stack.enter_context(listen(settings.host, settings.port))
        admin = metrics = shared = None
        if settings.admin_port is not None:
            names = ("admin_host", "admin_port")
            admin = stack.enter_context(listen(settings.admin_host, settings.admin_port, names=names))
        if settings.metrics_port is not None:
            names = ("metrics_host", "metrics_port")
            metrics = stack.enter_context(listen(settings.metrics_host, settings.metrics_port, names=names))
            shared = stack.enter_context(_shared_folder()) if settings.workers > 1 else None
        yield _Opened(release=release, admin=admin, metrics=metrics, shared=shared)


@contextmanager
def _shared_folder() -> Iterator[Path]:
    """Create a folder that only the creating process removes, not the processes that it forks."""
    maker, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="kms-metrics-"))
    try:
        yield folder
    finally:
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _services(
    settings: Settings, process: ProcessContext, started: datetime, verdict: SharedVerdict, *, number: int = 1
) -> Iterator[tuple[Services, Meaning, GuardWatch]]:
    """Open the services; challenges issued before the start of all workers are refused, see ``refused_before``."""
    if not harden(lock_memory=settings.lock_memory):  # in this process, before any key is read
        process.report("warning: this system does not protect memory from other processes of the same user")
    services = open_services(
        settings,
        clock=process.clock,
        random=process.random,
        report=process.report,
        not_before=refused_before(settings, started),
    )
    rotator = Rotator(store=services.store, kek=services.kek, random=process.random)
    clock = SteadyClock(clock=process.clock, monotonic=time.monotonic)
    every = settings.fsck_every_seconds if number == 1 else 0  # one worker examines for all
    fsck = ScheduledFsck(store=services.store, clock=process.clock, every=every, verdict=verdict, report=process.report)
    try:
        configuration = read_configuration(settings, services.anchors)
        log_configuration(services.store, configuration, actor=local_actor(), at=services.clock())
        watch = GuardWatch(services.store, open_local_guards(settings))
        with (
            kept_advanced(watch, report=process.report),
            kept_up(Upkeep(rotator=rotator, clock=clock, report=process.report)),
            examined(fsck),
        ):
            yield services, Meaning(settings, services, configuration), watch
    finally:
        services.store.close()


def _serve(settings: Settings, services: Services, opened: _Opened, life: _Life, *, process: ProcessContext) -> None:
    """Serve on all sockets, in this process."""
    draining = threading.Event()
    report = process.report
    counting, listeners, observe = _watching(settings, services, opened, life)
    tls = open_tls(settings, at=services.clock(), report=report)
    evidence = open_source(settings, clock=services.clock)
    noted = life.meaning.key_sets
    with (
        _traced(settings, counting) as watching,
        identified_callers(settings, services.store, clock=services.clock, report=report, noted=noted) as callers,
        administration(
            settings, services, opened.admin, watching=watching, report=report, noted=noted
        ) as administrators,
        _refreshed(services, process, observe),
    ):
        app = create_app(
            settings,
            services,
            tls=tls,
            evidence=evidence,
            watching=watching,
            draining=draining.is_set,
            callers=callers,
            meaning=life.meaning.current,
            fsck=life.verdict.get,
        )
        connections = settings.max_concurrent * CONNECTIONS_PER_RELEASE
        again = verifiers_again(settings, life.meaning)
        if callers is not None:
            again = (*again, key_sets_again("callers", callers.key_sets))
        release = Listener(
            app=app,
            sock=opened.release,
            connections=connections,
            tls=tls,
            again=again,
            rate=connection_rate(settings),
            refused=partial(watching.limited, "connections"),
            head_bytes=max((HEAD_BYTES, *(face.head_bytes for face in foreign_faces(settings)))),
        )
        serve(
            [release, *administrators, *listeners],
            services,
            drain_seconds=settings.drain_seconds,
            report=report,
            ready=life.ready,
            ending=draining.set,
            lifeline=life.lifeline,
        )


@contextmanager
def _traced(settings: Settings, watching: Watching) -> Iterator[Watching]:
    """Send traces to the address of the settings while this process serves; the rest is sent at the end."""
    if settings.otlp_endpoint is None:
        yield watching
        return
    try:
        from kms.running.tracing import RequestTracer, exporter_to, make_provider  # noqa: PLC0415  of the extra 'otel'
    except ImportError as exc:
        raise ConfigurationError(
            "traces require packages that are not installed",
            code="tracing-unavailable",
            field="otlp_endpoint",
            expected="opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http",
            hint="pip install 'attest-kms[otel]'",
        ) from exc
    provider = make_provider(
        exporter_to(settings.otlp_endpoint), origin=settings.origin, percent=settings.trace_percent
    )
    tracer = RequestTracer(provider)
    try:
        yield replace(watching, observers=(*watching.observers, tracer), tracer=tracer)
    finally:
        provider.shutdown()


@contextmanager
def _refreshed(services: Services, process: ProcessContext, observe: Callable[[str, str], None]) -> Iterator[None]:
    """Keep the vendors' endorsements fresh, while this process serves."""
    fetching = services.endorsements.service
    if fetching is None or fetching.cache is None:
        yield
        return
    refresher = Refresher(
        fetching.vendors,
        fetching.cache,
        clock=process.clock,
        jitter=lambda: process.random(1)[0] / 255,
        counted=observe,
        report=process.report,
    )
    refresher.start()
    try:
        yield
    finally:
        refresher.stop()


def _watching(
    settings: Settings, services: Services, opened: _Opened, life: _Life
) -> tuple[Watching, tuple[Listener, ...], Callable[[str, str], None]]:
    """Return the observers of requests, the listener of metrics, and the observer of requests to vendors."""
    if opened.metrics is None:
        return Watching(), (), lambda *_: None
    # Imported only where metrics are read.
    from kms.running.metrics import CONNECTIONS, Meter, MetricsApp, share_between_workers  # noqa: PLC0415

    if opened.shared is not None:
        share_between_workers(opened.shared, life.number)
    meter = Meter(settings, services, fsck=life.verdict.get, guard=life.guard.behind_seconds, shared=opened.shared)
    watching = Watching(observers=(meter,), answered=meter.answered, limited=meter.limited)
    listener = Listener(app=MetricsApp(meter.text), sock=opened.metrics, connections=CONNECTIONS)
    return watching, (listener,), meter.refreshed
