"""Background refresh of endorsements before they expire, so that no workload waits for a fetch.

While vendors are unreachable, cached endorsements stay valid until their own dates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from attest.clock import Clock
from attest.endorsements import EndorsementRequest, NvidiaOcspRequest
from attest.errors import AttestError, EndorsementError
from attest.fetch import CheckedAnswer, EndorsementSource, VendorServices, describe, refresh_endorsement
from kms.release.vendor_cache import CachedRequest, NotedCache

LOOK_SECONDS: Final = 60.0
"""Interval between scans of the cache."""
LEAD: Final = timedelta(days=1)
OCSP_LEAD: Final = timedelta(hours=1)
"""NVIDIA's answers are valid for a day, the others for weeks."""
FIRST_RETRY_SECONDS: Final = 30.0
LONGEST_RETRY_SECONDS: Final = 3600.0
UNCHANGED_SECONDS: Final = 900.0
"""First wait after a vendor had nothing newer; later waits grow."""
LONGEST_UNCHANGED_SECONDS: Final = 6 * 3600.0
OUTCOMES: Final = ("fetched", "unchanged", "failed")


def is_due(answer: CheckedAnswer, *, at: datetime) -> bool:
    """Return True if an answer expires soon enough to be refreshed."""
    return not answer.is_current(at + lead_of(answer.request))


def lead_of(request: EndorsementRequest) -> timedelta:
    """Return the time before its expiry at which an answer is refreshed."""
    return OCSP_LEAD if isinstance(request, NvidiaOcspRequest) else LEAD


def retry_seconds(
    failures: int, *, jitter: float, first: float = FIRST_RETRY_SECONDS, longest: float = LONGEST_RETRY_SECONDS
) -> float:
    """Return the wait before the next attempt.

    Args:
        failures: number of consecutive failures; at least 1.
        jitter: 0 to 1, drawn each time, so that replicas do not retry together.
        first: longest wait after the first failure.
        longest: longest wait.
    """
    return min(longest, first * 2.0 ** min(failures - 1, 20)) * (0.5 + jitter / 2)


@dataclass(slots=True)
class _Patience:
    """Number of failed attempts and time of the next one."""

    failures: int = 0
    again_at: datetime | None = None

    def is_waiting(self, at: datetime) -> bool:
        return self.again_at is not None and at < self.again_at


@dataclass(slots=True)
class _Service:
    """A vendor's service."""

    name: str
    source: EndorsementSource
    patience: _Patience = field(default_factory=_Patience)


class Refresher:
    """Thread that keeps the endorsements in use fresh.

    ``jitter`` draws a number from 0 to 1; ``counted`` takes the name of a service and the outcome of a request.
    """

    def __init__(
        self,
        vendors: VendorServices,
        cache: NotedCache,
        *,
        clock: Clock,
        jitter: Callable[[], float],
        counted: Callable[[str, str], None],
        report: Callable[[str], None],
    ) -> None:
        named = {"amd": vendors.amd, "intel": vendors.intel, "rims": vendors.rims, "ocsp": vendors.ocsp}
        self._services: Mapping[str, _Service] = {
            source.service: _Service(name=name, source=source) for name, source in named.items()
        }
        self._cache = cache
        self._clock = clock
        self._jitter = jitter
        self._counted = counted
        self._report = report
        self._unchanged: dict[CachedRequest, _Patience] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start scanning the cache periodically."""
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for a request in progress."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS * (0.5 + self._jitter() / 2)):
            self.look()

    def look(self) -> None:
        """Scan the needed requests once and fetch the answers that expire soon."""
        wanted = self._cache.wanted()
        self._unchanged = {one: patience for one, patience in self._unchanged.items() if one in wanted}
        for one in wanted:
            if self._stop.is_set():
                return
            self._look_at(one)

    def _look_at(self, wanted: CachedRequest) -> None:
        now, service = self._clock(), self._services.get(wanted.service)
        if service is None or service.patience.is_waiting(now):
            return
        if self._unchanged.get(wanted, _Patience()).is_waiting(now):
            return
        try:
            answer = self._cache.look(wanted)
            if answer is None or not is_due(answer, at=now):
                return  # an answer that was never received is left to the next workload's request
            self._fetch(wanted, service, answer, now)
        except EndorsementError as exc:
            self._failed(service if exc.retryable else None, exc, wanted, now)
        except AttestError as exc:
            self._failed(None, exc, wanted, now)

    def _fetch(self, wanted: CachedRequest, service: _Service, earlier: CheckedAnswer, now: datetime) -> None:
        newer = refresh_endorsement(wanted.request, source=service.source, cache=self._cache, at=now)
        service.patience = _Patience()
        if newer.data != earlier.data or not is_due(newer, at=now):
            self._unchanged.pop(wanted, None)
            self._counted(service.name, "fetched")
            return
        self._leave_alone(wanted, now)
        self._counted(service.name, "unchanged")

    def _leave_alone(self, wanted: CachedRequest, now: datetime) -> float:
        """Postpone one request that brought no newer answer."""
        failures = self._unchanged.get(wanted, _Patience()).failures + 1
        wait = retry_seconds(
            failures, jitter=self._jitter(), first=UNCHANGED_SECONDS, longest=LONGEST_UNCHANGED_SECONDS
        )
        self._unchanged[wanted] = _Patience(failures=failures, again_at=now + timedelta(seconds=wait))
        return wait

    def _failed(self, away: _Service | None, error: AttestError, wanted: CachedRequest, now: datetime) -> None:
        """Postpone all requests to an unreachable service, or one request that it cannot answer."""
        name = self._services[wanted.service].name
        if away is None:
            wait = self._leave_alone(wanted, now)
        else:
            failures = away.patience.failures + 1
            wait = retry_seconds(failures, jitter=self._jitter())
            away.patience = _Patience(failures=failures, again_at=now + timedelta(seconds=wait))
        self._counted(name, "failed")
        self._report(
            f"warning: cannot refresh the {describe(wanted.request)}: {error.message} [{error.code}]; "
            f"next request to {name} in {wait:.0f} s; the cached version is used until it expires"
        )
