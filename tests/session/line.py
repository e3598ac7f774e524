"""A session on a clock that the test moves, and a line to a service in memory that can break in every way."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import httpx
from starlette.testclient import TestClient

from attest import AsyncSession, Session
from attest.errors import LeaseLostError
from attest.session import SessionKey, SessionTiming
from tests.kms.support import FakeClock, Harness, Workload

URL = "http://kms.test"
Fault = Callable[[httpx.Request], httpx.Response | None]
"""Answers in the service's place, raises, or returns None and lets the request through."""


@dataclass
class Line:
    """Passes requests on to a service in memory."""

    web: TestClient
    faults: list[Fault] = field(default_factory=list)
    """For the next requests for a release, one each."""
    always: Fault | None = None
    asked: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """So many answers of releases get lost on their way."""
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._one:
            return self._passed(request)

    def _passed(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked[path] += 1
        for fault in (self.always, self.faults.pop(0) if self.faults and path == "/v1/releases" else None):
            answer = None if fault is None else fault(request)
            if answer is not None:
                return answer
        found = self.web.request(
            request.method,
            str(request.url.copy_with(scheme=None, host=None)),
            content=request.content,
            headers={"Content-Type": "application/json"} if request.content else {},
        )
        if self.lost and path == "/v1/releases":
            self.lost -= 1
            msg = "the answer got lost"
            raise httpx.ReadError(msg)
        return httpx.Response(found.status_code, headers=dict(found.headers), content=found.content)

    @property
    def releases(self) -> int:
        return self.asked["/v1/releases"]


def refusing(status: int, code: str = "busy", **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx.Response(status, json={"code": code, "detail": "x"}, headers=named)


def away(request: httpx.Request) -> httpx.Response | None:
    msg = "connection refused"
    raise httpx.ConnectError(msg, request=request)


def defective(_: httpx.Request) -> httpx.Response:
    msg = "nobody foresaw this"
    raise ValueError(msg)


@dataclass
class Clock:
    """One clock for service and session; pauses move it."""

    clock: FakeClock
    pauses: list[float] = field(default_factory=list)
    chance: float = 0.5
    during_pause: Callable[[], None] = lambda: None

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.forward(seconds=seconds)
        self.during_pause()

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)
        await asyncio.sleep(0)

    def now(self) -> datetime:
        return self.clock()

    @property
    def timing(self) -> SessionTiming:
        return SessionTiming(
            now=self.now,
            ticks=lambda: self.clock().timestamp(),
            random=lambda: self.chance,
            pause=self.pause,
            pause_async=self.pause_async,
        )


@dataclass
class Told:
    """What the callbacks of a session were told."""

    lost: list[tuple[SessionKey, LeaseLostError, bytes]] = field(default_factory=list)
    renewed: list[SessionKey] = field(default_factory=list)

    def on_lost(self, key: SessionKey, error: LeaseLostError) -> None:
        assert not key.valid
        self.lost.append((key, error, bytes(key._held.buffer)))  # noqa: SLF001  it is wiped only after this


@dataclass
class Scene:
    """A service in memory with a key, and sessions that ask it."""

    harness: Harness
    line: Line
    clock: Clock
    workload: Workload
    told: Told = field(default_factory=Told)

    def session(self, **more: object) -> Session:
        arguments: dict[str, object] = {
            "service": self.harness.services.identity.public,
            "attester": self.workload.attest,
            "background": False,
            "http": lambda: httpx.Client(base_url=URL, transport=httpx.MockTransport(self.line)),
            "timing": self.clock.timing,
            "on_lost": self.told.on_lost,
            "on_renewed": self.told.renewed.append,
        }
        return Session(URL, **(arguments | more))  # type: ignore[arg-type]  # as their names say

    def async_session(self, **more: object) -> AsyncSession:
        arguments: dict[str, object] = {
            "service": self.harness.services.identity.public,
            "attester": self.workload.attest,
            "background": False,
            "http": lambda: httpx.AsyncClient(base_url=URL, transport=httpx.MockTransport(self.line)),
            "timing": self.clock.timing,
            "on_lost": self.told.on_lost,
            "on_renewed": self.told.renewed.append,
        }
        return AsyncSession(URL, **(arguments | more))  # type: ignore[arg-type]  # as their names say

    def with_other_image(self) -> "Scene":
        return replace(self, workload=self.workload.with_measurement(bytes(48)))
