"""Cache of vendors' answers, in a directory or in memory, with a record of those in use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from attest import Endorsements
from attest.clock import Clock
from attest.endorsements import EndorsementRequest
from attest.fetch import CheckedAnswer, EndorsementCache, EndorsementSource, Progress

MAX_NOTED: Final = 8192
"""Limit of recorded requests and of answers in memory; the least recently used goes first."""
FORGOTTEN_AFTER: Final = timedelta(days=7)
"""An answer that no workload has needed for a week is not kept fresh."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRequest:
    """A request of workloads, and the name of the source that answers it."""

    request: EndorsementRequest
    service: str


class NotedCache(EndorsementCache):
    """A cache that records recent requests; without a directory, it keeps the answers in memory."""

    def __init__(self, directory: Path | None, *, clock: Clock) -> None:
        super().__init__(directory or Path())
        self._on_disk = directory is not None
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: OrderedDict[CachedRequest, datetime] = OrderedDict()
        self._kept: OrderedDict[CachedRequest, CheckedAnswer] = OrderedDict()

    def read(self, request: EndorsementRequest, *, service: str) -> CheckedAnswer | None:
        """Return the answer to a request, and record that it is needed."""
        wanted = CachedRequest(request=request, service=service)
        with self._lock:
            _remember(self._noted, wanted, self._clock())
        return self.look(wanted)

    def look(self, wanted: CachedRequest) -> CheckedAnswer | None:
        """Return the answer to a request, without a record."""
        if self._on_disk:
            return super().read(wanted.request, service=wanted.service)
        with self._lock:
            answer = self._kept.get(wanted)
        return None if answer is None else replace(answer, cached=True)

    def write(self, answer: CheckedAnswer, *, service: str) -> None:
        """Store an answer, replacing an earlier one."""
        if self._on_disk:
            super().write(answer, service=service)
            return
        wanted = CachedRequest(request=answer.request, service=service)
        with self._lock:
            _remember(self._kept, wanted, answer)

    def wanted(self) -> tuple[CachedRequest, ...]:
        """Return the recent requests, and forget the others."""
        oldest = self._clock() - FORGOTTEN_AFTER
        with self._lock:
            for wanted, at in list(self._noted.items()):
                if at < oldest:
                    del self._noted[wanted]
            return tuple(self._noted)

    def endorsements(self) -> Endorsements:
        """Return the recently needed lists, documents and answers about revocation."""
        answers = [answer for answer in map(self.look, self.wanted()) if answer is not None]
        return Endorsements(
            crls=tuple(crl for answer in answers for crl in answer.crls),
            documents=tuple(document for answer in answers for document in answer.documents),
            ocsp=tuple(status for answer in answers for status in answer.ocsp),
        )


def _remember(known: OrderedDict[CachedRequest, T], wanted: CachedRequest, value: T) -> None:
    """Put a value at the end, and drop the oldest above the limit."""
    known[wanted] = value
    known.move_to_end(wanted)
    if len(known) > MAX_NOTED:
        known.popitem(last=False)


class SharedSource:
    """A vendor's service with one request at a time; concurrent equal requests share one answer."""

    def __init__(self, source: EndorsementSource) -> None:
        self._source = source
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self._under_way: dict[EndorsementRequest, Future[bytes]] = {}

    @property
    def service(self) -> str:
        """Name that distinguishes this service from others."""
        return self._source.service

    def url_of(self, request: EndorsementRequest) -> str:
        """Return the address that answers a request."""
        return self._source.url_of(request)

    def get(self, request: EndorsementRequest, *, progress: Progress) -> bytes:
        """Return the service's answer, to this call or to one in progress."""
        with self._lock:
            under_way = self._under_way.get(request)
            mine: Future[bytes] = Future()
            if under_way is None:
                self._under_way[request] = mine
        if under_way is not None:
            return under_way.result()
        try:
            with self._asking:
                mine.set_result(self._source.get(request, progress=progress))
        except BaseException as exc:
            mine.set_exception(exc)
            raise
        finally:
            with self._lock:
                del self._under_way[request]
        return mine.result()
