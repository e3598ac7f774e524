"""A web server on the loopback address that answers what a test tells it to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from attest.fetch import FetchClocks, KdsClient, OcspClient, PcsClient, RimServiceClient
from attest_simulator.intel import SimulatedPcs, SimulatedPlatform
from attest_simulator.kds import SimulatedKds
from attest_simulator.nvidia import NvidiaAnswer, SimulatedNvidiaService

AT = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; ``declared`` promises another length than the body has, as when a line breaks down."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    declared: int | None = None


Answering = Callable[[str, str], Reply]
"""Takes path and query of a GET request."""
AnsweringPost = Callable[[bytes], Reply]
"""Takes the body of a POST request."""


class Server:
    """Counts requests and answers the queued replies first, then what ``answering`` says."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.queue: list[Reply] = []
        self.answering: Answering = simulated()
        self.answering_post: AnsweringPost = simulated_responder()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                outer.headers.append(dict(self.headers.items()))
                path, _, query = self.path.partition("?")
                self._send(outer.queue.pop(0) if outer.queue else outer.answering(path, query))

            def do_POST(self) -> None:
                outer.requests.append(self.path)
                outer.headers.append(dict(self.headers.items()))
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(outer.queue.pop(0) if outer.queue else outer.answering_post(outer.bodies[-1]))

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                length = len(reply.body) if reply.declared is None else reply.declared
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def simulated(*, this_update: datetime = AT, days: int = 365, revoked: tuple[int, ...] = ()) -> Answering:
    """Answer as the software KDS does."""
    kds = SimulatedKds(this_update=this_update, next_update=this_update + timedelta(days=days), revoked=revoked)

    def answering(path: str, query: str) -> Reply:
        status, content_type, body = kds.answer(path, query)
        return Reply(status=status, body=body, headers=(("Content-Type", content_type),))

    return answering


PLATFORM = SimulatedPlatform.of()


def simulated_pcs(pcs: SimulatedPcs | None = None) -> Answering:
    """Answer as the software PCCS does, or as this one."""
    service = pcs or SimulatedPcs.of(PLATFORM, at=AT, pccs=True)

    def answering(path: str, query: str) -> Reply:
        answer = service.answer(path, query)
        return Reply(status=answer.status, body=answer.body, headers=tuple(answer.headers.items()))

    return answering


def reply_of(answer: NvidiaAnswer) -> Reply:
    return Reply(status=answer.status, body=answer.body, headers=(("Content-Type", answer.content_type),))


def simulated_rims(service: SimulatedNvidiaService | None = None) -> Answering:
    """Answer as the software NVIDIA's RIM service does, or as this one."""
    nvidia = service or SimulatedNvidiaService.of(AT)
    return lambda path, _: reply_of(nvidia.answer(path))


def simulated_responder(service: SimulatedNvidiaService | None = None) -> AnsweringPost:
    """Answer as the software NVIDIA's OCSP responder does, or as this one."""
    nvidia = service or SimulatedNvidiaService.of(AT)
    return lambda body: reply_of(nvidia.answer_ocsp(body))


class Dice:
    """Nonces that a test can foresee, each one another."""

    def __init__(self) -> None:
        self.thrown: list[bytes] = []

    def __call__(self, count: int) -> bytes:
        self.thrown.append(bytes([len(self.thrown)]) * count)
        return self.thrown[-1]


@dataclass(slots=True)
class Watch:
    """A clock that stands still unless somebody sleeps."""

    at: datetime = AT
    slept: list[float] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return self.ticks.pop(0) if self.ticks else 0.0

    def timing(self) -> FetchClocks:
        return FetchClocks(now=lambda: self.at, monotonic=self.monotonic, sleep=self.sleep)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def kds(server: Server, watch: Watch) -> Iterator[KdsClient]:
    with KdsClient(timing=watch.timing(), base_url=server.url, trust_env=False) as client:
        yield client


@pytest.fixture
def pcs(server: Server, watch: Watch) -> Iterator[PcsClient]:
    server.answering = simulated_pcs()
    with PcsClient(timing=watch.timing(), base_url=server.url, trust_env=False) as client:
        yield client


@pytest.fixture
def dice() -> Dice:
    return Dice()


@pytest.fixture
def rims(server: Server, watch: Watch) -> Iterator[RimServiceClient]:
    server.answering = simulated_rims()
    with RimServiceClient(timing=watch.timing(), base_url=server.url, trust_env=False) as client:
        yield client


@pytest.fixture
def ocsp(server: Server, watch: Watch, dice: Dice) -> Iterator[OcspClient]:
    with OcspClient(timing=watch.timing(), random=dice, base_url=server.url, trust_env=False) as client:
        yield client
