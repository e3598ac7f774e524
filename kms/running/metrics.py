"""Prometheus metrics. Labels come from closed sets, so that requests cannot increase their number (MC-33)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from attest import __version__
from attest.errors import AttestError
from kms.config.insecure_switches import SWITCHES, relaxed_switches
from kms.config.settings import Settings
from kms.domain.freezes import Scope as FreezeScope
from kms.domain.state_root import STATE_CODES
from kms.release.endorsement_dates import KINDS, dated
from kms.release.services import Services
from kms.running.fsck_verdict import FsckVerdict
from kms.telemetry import Outcome, Stage

CONNECTIONS: Final = 16
"""Maximum number of open connections; a monitoring system keeps one or two."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_CODES: Final = 512
"""More than the codes of docs/errors.md; further codes are counted as ``other``."""
_CODE: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){0,9}")
_OTHER: Final = "other"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SELDOM_SECONDS: Final = 60.0
_SELDOM_SHARE: Final = 100
_DIRECTORY_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def share_between_workers(directory: Path, number: int) -> None:
    """Keep this process's values in files that every worker reads; a worker continues those of its predecessor.

    Call it in a worker, before its ``Meter`` is made.
    """
    os.environ[_DIRECTORY_VARIABLE] = str(directory)
    values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]  # as documented there


class Meter:
    """Counts requests and their outcomes, and reads the state of the service for each scrape. An ``Observer``.

    ``fsck`` returns the result of the last scheduled examination, or None, and ``guard`` the seconds for which a
    rollback guard has failed. ``shared`` is the folder of the values of several workers; None for a single process.
    """

    def __init__(
        self,
        settings: Settings,
        services: Services,
        *,
        fsck: Callable[[], FsckVerdict | None] = lambda: None,
        guard: Callable[[], float] = lambda: 0.0,
        shared: Path | None = None,
    ) -> None:
        """Create the metrics, all at zero."""
        own = CollectorRegistry()
        count, timed = partial(Counter, registry=own), partial(Histogram, buckets=_SECONDS, registry=own)
        self._requests = count("kms_requests_total", "Requests.", ("route", "status"))
        self._request_seconds = timed("kms_request_seconds", "Time to respond.", ("route",))
        self._decisions = count("kms_decisions_total", "Requests for keys, by outcome and code.", ("outcome", "code"))
        self._stages = timed("kms_stage_seconds", "Stages of a release.", ("stage",))
        self._verification = timed("kms_verification_seconds", "Verification of evidence.", ("tee",))
        self._transactions = timed(
            "kms_store_transaction_seconds",
            "Transactions of the database, including the wait for its lock and for the disk.",
            ("kind",),
        )
        self._limited = count("kms_limited_total", "Requests refused by a limit.", ("limit",))
        self._state_refused = count(
            "kms_state_refused_total",
            "Stored state that differs from the last one stored.",
            ("code",),
        )
        for code in sorted(STATE_CODES):
            self._state_refused.labels(code)
        self._refreshes = count(
            "kms_refreshes_total", "Background requests to vendors' services.", ("service", "outcome")
        )
        self._codes: set[str] = set()
        self._registry = CollectorRegistry()
        self._registry.register(_State(settings, services, fsck, guard))
        if shared is None:
            self._registry.register(own)
        else:
            MultiProcessCollector(self._registry, path=str(shared))  # type: ignore[no-untyped-call]  # registers itself

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return bytes(generate_latest(self._registry))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a response with the template of its route, never its path."""
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def limited(self, limit: str) -> None:
        """Count a refusal by a limit of ``kms.api.limits``."""
        self._limited.labels(limit).inc()

    def refreshed(self, service: str, outcome: str) -> None:
        """Count a background request to a vendor's service."""
        self._refreshes.labels(service, outcome).inc()

    def decided(self, outcome: Outcome, code: str) -> None:
        """Count the end of a request for keys."""
        self._decisions.labels(outcome, self._bounded(code)).inc()

    def state_refused(self, code: str) -> None:
        """Count stored state that differs from the state stored last."""
        self._state_refused.labels(code).inc()

    @contextmanager
    def stage(self, name: Stage, *, tee: str | None) -> Iterator[None]:
        """Measure the time of a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._took(name, tee, time.perf_counter() - began)

    def _took(self, name: Stage, tee: str | None, seconds: float) -> None:
        if name == "verify":
            self._verification.labels(tee or "none").observe(seconds)
        elif name in {"read", "write"}:
            self._transactions.labels(name).observe(seconds)
        else:
            self._stages.labels(name).observe(seconds)

    def _bounded(self, code: str) -> str:
        if code in self._codes:
            return code
        if len(self._codes) >= _MAX_CODES or not _CODE.fullmatch(code):
            return _OTHER
        self._codes.add(code)
        return code


class MetricsApp:
    """Application that serves only ``GET /metrics``, one request at a time."""

    def __init__(self, text: Callable[[], bytes]) -> None:
        """Create the application."""
        self._text = text
        self._one = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["path"] != "/metrics":
            return PlainTextResponse("not found\n", status_code=404)
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("read only\n", status_code=405, headers={"Allow": "GET"})
        content = await anyio.to_thread.run_sync(self._text, limiter=self._one)
        return Response(content, media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


class SlowGauge:
    """A number that is slow to count, and is counted so rarely that this takes at most a hundredth of the time."""

    def __init__(self, count: Callable[[], int], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Create it without counting."""
        self._count = count
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counted: int | None = None
        self._next = 0.0

    def __call__(self) -> int:
        """Return the number of the last count."""
        with self._lock:
            began = self._monotonic()
            if self._counted is None or began >= self._next:
                self._counted = self._count()
                now = self._monotonic()
                self._next = now + max(_SELDOM_SECONDS, _SELDOM_SHARE * (now - began))
            return self._counted


class _State(Collector):
    """Collector of state that is read for each scrape."""

    def __init__(
        self,
        settings: Settings,
        services: Services,
        fsck: Callable[[], FsckVerdict | None],
        guard: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._services = services
        self._fsck = fsck
        self._guard = guard
        self._live = SlowGauge(self._count_leases)

    def _count_leases(self) -> int:
        with self._services.store.reading() as tx:
            return tx.leases.live_count(at=self._services.clock())

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration does not open the database."""
        return ()

    def collect(self) -> Iterable[Metric]:
        info = InfoMetricFamily("kms_build", "Version of the running service.")
        info.add_metric((), {"version": __version__})
        yield info
        on = relaxed_switches(self._settings)
        relaxed = GaugeMetricFamily("kms_relaxed", "1 if an insecure setting is on.", labels=("switch",))
        for name in SWITCHES:
            relaxed.add_metric((name,), float(name in on))
        yield relaxed
        yield from self._examined()
        yield GaugeMetricFamily(
            "kms_rollback_guard_behind_seconds", "Seconds since a rollback guard began to fail.", value=self._guard()
        )
        yield from self._readable(self._endorsements, self._log, self._freezes, self._leases)

    def _readable(self, *parts: Callable[[], Iterable[Metric]]) -> Iterator[Metric]:
        """Yield the readable parts, and a metric that is 1 if all parts were readable."""
        found: list[Metric] = []
        well = True
        for part in parts:
            try:
                found += part()
            except AttestError:
                well = False
        yield from found
        yield GaugeMetricFamily("kms_scrape_ok", "1 if all of the state could be read.", value=float(well))

    def _examined(self) -> Iterator[Metric]:
        """Yield the result of the last examination, if there was one."""
        verdict = self._fsck()
        if verdict is None:
            return
        ended = verdict.ended_at
        yield GaugeMetricFamily("kms_fsck_end_timestamp_seconds", "End of the last examination.", value=ended)
        yield GaugeMetricFamily("kms_fsck_findings", "Differences found by it.", value=float(verdict.findings))
        yield GaugeMetricFamily("kms_fsck_seconds", "Duration of the last examination.", value=verdict.seconds)

    def _endorsements(self) -> Iterable[Metric]:
        services = self._services
        soonest: dict[str, float] = {}
        for one in dated(services.endorsements.at_hand(at=services.clock())):
            soonest.setdefault(one.kind, one.ends.timestamp())
        ends = GaugeMetricFamily(
            "kms_endorsement_expiry_timestamp_seconds", "First expiry of the vendors' endorsements.", labels=("kind",)
        )
        for kind in KINDS:
            if kind in soonest:
                ends.add_metric((kind,), soonest[kind])
        yield ends

    def _freezes(self) -> Iterable[Metric]:
        with self._services.store.reading() as tx:
            found = [freeze.target.scope for freeze in tx.freezes.all()]
        frozen = GaugeMetricFamily("kms_freezes", "Freezes by scope.", labels=("scope",))
        for scope in FreezeScope:
            frozen.add_metric((str(scope),), float(found.count(scope)))
        yield frozen

    def _leases(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("kms_leases_live", "Live leases.", value=float(self._live()))

    def _log(self) -> Iterable[Metric]:
        with self._services.store.reading() as tx:
            size, head = tx.log.size(), tx.log.head()
            nonces = tx.nonces.count()
        yield GaugeMetricFamily("kms_log_entries", "Entries of the log.", value=float(size))
        yield GaugeMetricFamily("kms_nonces_used", "Stored used challenges.", value=float(nonces))
        if head.time is not None:
            yield GaugeMetricFamily(
                "kms_log_newest_entry_timestamp_seconds",
                "Time of the newest entry of the log.",
                value=head.time.timestamp(),
            )
