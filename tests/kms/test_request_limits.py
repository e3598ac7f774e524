"""Limits that hold on every route: rate of a caller, requests at a time, length, and patience."""

import asyncio
import gc
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from attest import http_protocol
from attest.json_types import JsonValue
from attest.rate_limits import Bucket, Rate, RateTable, caller_of
from attest.release import Challenge
from kms.api.app import create_app
from kms.api.limits import HEADER_BYTES, LIMITS, URL_BYTES, RequestLimits, group_of
from kms.api.observation import Watching
from kms.controls.pace import IMAGES_PER_CHIP, GuestPace
from kms.domain.errors import RateLimitedError
from tests.kms.support import Harness, Workload, settings_for

TEN = Rate(per_second=10, burst=3)


def test_a_burst_passes_and_then_one_for_each_tenth_of_a_second() -> None:
    table = RateTable(TEN)
    assert [table.wait_of("a", at=100.0) for _ in range(3)] == [0, 0, 0]
    assert table.wait_of("a", at=100.0) == pytest.approx(0.1)
    assert table.wait_of("a", at=100.099) > 0
    assert table.wait_of("a", at=100.101) == 0
    assert table.wait_of("b", at=100.101) == 0, "another caller has a bucket of its own"


def test_a_bucket_never_holds_more_than_its_burst_and_a_clock_that_goes_back_adds_nothing() -> None:
    full, wait = Bucket(tokens=0, at=0).taken(TEN, at=1e9)
    assert (full.tokens, wait) == (2, 0)
    back, wait = Bucket(tokens=0, at=100).taken(TEN, at=0)
    assert back.tokens == 0
    assert wait > 0


@given(st.lists(st.floats(min_value=0, max_value=2), min_size=1, max_size=200))
def test_mc_32_however_requests_are_timed_no_more_pass_than_burst_and_rate_allow(pauses: list[float]) -> None:
    table, now, passed = RateTable(TEN), 0.0, 0
    for pause in pauses:
        now += pause
        passed += table.wait_of("a", at=now) == 0
    assert passed <= TEN.burst + now * TEN.per_second + 1e-6


def test_the_table_forgets_whoever_was_not_heard_of_for_longest() -> None:
    table = RateTable(TEN, size=2)
    for caller in ("a", "b", "a", "c"):
        table.wait_of(caller, at=0)
    assert len(table) == 2
    assert table.wait_of("a", at=0) == 0
    assert table.wait_of("a", at=0) > 0, "a was heard of again and is remembered: two were taken before"


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_ipv6_customer_is_one_caller_whichever_of_its_addresses_it_takes(address: str, caller: str) -> None:
    assert caller_of(address) == caller


@contextmanager
def client_of(harness: Harness, limited: list[str], **changes: object) -> Iterator[TestClient]:
    settings = settings_for(harness.folder, **changes)
    watching = Watching(limited=limited.append)
    with TestClient(create_app(settings, harness.services, watching=watching), base_url="http://kms.test") as made:
        yield made


def test_mc_32_a_caller_who_asks_too_often_is_told_when_to_come_again_and_probes_are_not(harness: Harness) -> None:
    limited: list[str] = []
    with client_of(harness, limited, client_requests_per_second=1, client_burst=2) as client:
        assert [client.post("/v1/challenges", json={}).status_code for _ in range(2)] == [200, 200]
        for method, path in (("POST", "/v1/releases"), ("GET", "/v1/log/checkpoint"), ("GET", "/nothing")):
            answer = client.request(method, path)
            assert answer.status_code == 429
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["retry-after"] == "1"
            assert answer.headers["connection"] == "close", "requests that wait behind it are not read"
            assert answer.json()["code"] == "rate-limited"
            assert answer.json()["retryable"] is True
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    assert limited == ["rate"] * 3
    assert set(limited) <= set(LIMITS)


def test_mc_32_a_machine_that_requests_too_often_waits_and_its_challenge_stays_valid(harness: Harness) -> None:
    """The chip counts that verified evidence names, so that rubbish uses up nobody's rate."""
    harness.add_key("model")
    clock = {"now": 0.0}

    def released(client: TestClient, workload: Workload) -> tuple[int, dict[str, JsonValue]]:
        challenge = Challenge.from_json(client.post("/v1/challenges", json={}).json())
        document = workload.request(challenge, "model").to_json()
        answer = client.post("/v1/releases", json=document)
        if answer.status_code == 429:
            clock["now"] += 60
            assert client.post("/v1/releases", json=document).status_code == 200, "the same request, later"
        return answer.status_code, answer.json()

    with pytest.MonkeyPatch.context() as patch, client_of(harness, [], chip_releases_per_minute=2) as client:
        patch.setattr("kms.release.service.ticks", lambda: clock["now"])
        forged = Workload(nonce=b"\x01" * 32)
        assert [released(client, forged)[0] for _ in range(3)] == [403] * 3
        assert [released(client, Workload())[0] for _ in range(2)] == [200] * 2
        before = len(harness.decisions())
        status, problem = released(client, Workload())
        assert (status, problem["code"]) == (429, "rate-limited")
        assert len(harness.decisions()) == before + 1, "what was refused was not decided"


@pytest.mark.parametrize(
    ("headers", "at_once"),
    [
        ({"Content-Length": str(2 << 20)}, 8),
        ({"Content-Length": str(1 << 20)}, 16),
        ({"Content-Length": "9" * 40}, 8),
        ({"Content-Length": str(1 << 50)}, 8),
        ({"Content-Length": "x"}, 8),
        ({"Transfer-Encoding": "chunked", "Content-Length": "1"}, 8),
        ({"Content-Length": "0"}, 40),
    ],
)
def test_mc_32_an_address_that_sends_too_many_bytes_waits(
    harness: Harness, headers: dict[str, str], at_once: int
) -> None:
    """A body counts with the length that its head states; 16 MiB at once, and 4 a second."""
    clock = {"now": 0.0}
    changes = {"client_requests_per_second": 1000, "client_burst": 1000, "max_bodies_bytes": 16 << 20}
    app = RequestLimits(
        PlainTextResponse("passed"),
        settings=settings_for(harness.folder, **changes),
        limited=lambda _: None,
        monotonic=lambda: clock["now"],
    )
    client = TestClient(app)
    statuses = [client.post("/v1/releases", headers=headers, content=b"").status_code for _ in range(40)]
    assert statuses == [200] * at_once + [429] * (40 - at_once)
    clock["now"] += 2
    again = [client.post("/v1/releases", headers=headers, content=b"").status_code for _ in range(20)]
    assert again.count(200) == (20 if at_once == 40 else at_once // 2)


def test_mc_32_a_guest_that_requests_too_often_uses_up_no_rate_of_the_guests_beside_it(harness: Harness) -> None:
    """Two images on one chip: the evidence of each counts for itself."""
    harness.add_key("model")
    hostile = Workload().with_measurement(b"\x01" * 48)

    def status(client: TestClient, workload: Workload) -> int:
        challenge = Challenge.from_json(client.post("/v1/challenges", json={}).json())
        return int(client.post("/v1/releases", json=workload.request(challenge, "model").to_json()).status_code)

    with pytest.MonkeyPatch.context() as patch, client_of(harness, [], chip_releases_per_minute=2) as client:
        patch.setattr("kms.release.service.ticks", lambda: 0.0)
        assert [status(client, hostile) for _ in range(4)] == [403, 403, 429, 429]
        assert [status(client, Workload()) for _ in range(3)] == [200, 200, 429]


def test_mc_32_all_images_of_a_chip_together_have_a_rate() -> None:
    pace = GuestPace(2)
    for number in range(IMAGES_PER_CHIP):
        for _ in range(2):
            pace.require("amd:00", bytes([number]), at=0.0)
    for image in (bytes([IMAGES_PER_CHIP]), None):
        with pytest.raises(RateLimitedError, match="from this machine; wait 2 s"):
            pace.require("amd:00", image, at=0.0)
    pace.require("amd:01", bytes([0]), at=0.0)
    pace.require("amd:00", bytes([0]), at=60.0)


def test_without_a_rate_nobody_is_counted(harness: Harness) -> None:
    with client_of(harness, [], client_requests_per_second=0, client_burst=1) as client:
        assert {client.post("/v1/challenges", json={}).status_code for _ in range(5)} == {200}


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/healthz?" + "a" * (URL_BYTES - len("/healthz")), {}, 200, None),
        ("/healthz?" + "a" * (URL_BYTES - len("/healthz") + 1), {}, 414, "url-too-long"),
        ("/healthz", {"x-long": "a" * (HEADER_BYTES // 2)}, 200, None),
        ("/healthz", {"x-long": "a" * HEADER_BYTES}, 431, "headers-too-large"),
    ],
)
def test_long_addresses_and_headers_are_refused(
    harness: Harness, path: str, headers: dict[str, str], status: int, code: str | None
) -> None:
    with client_of(harness, []) as client:
        answer = client.get(path, headers=headers)
    assert answer.status_code == status
    assert answer.json().get("code") == code


def test_of_each_kind_of_request_only_so_many_are_worked_on_and_the_log_cannot_crowd_releases_out(
    tmp_path: Path,
) -> None:
    limited: list[str] = []
    statuses: list[int] = []

    async def scenario() -> None:
        release = anyio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        limits = RequestLimits(slow, settings=settings_for(tmp_path, max_concurrent=4), limited=limited.append)

        async def ask(path: str) -> None:
            async def send(message: object) -> None:
                if isinstance(message, dict) and message["type"] == "http.response.start":
                    statuses.append(message["status"])

            scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
            await limits(scope, _nothing, send)  # type: ignore[arg-type]  # as ASGI has it

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask, "/v1/log/checkpoint")
            group.start_soon(ask, "/v1/releases")
            await anyio.wait_all_tasks_blocked()
            assert statuses == [503]
            release.set()

    anyio.run(scenario)
    assert sorted(statuses) == [200, 200, 200, 503]
    assert limited == ["concurrency"]


def test_answers_that_nobody_reads_take_no_turn_from_other_requests(tmp_path: Path) -> None:
    """Each of these clients asks for the log and does not read; others get the log, and releases, all the same."""
    statuses: list[int] = []

    async def scenario() -> None:
        stuck = anyio.Event()

        async def quick(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        limits = RequestLimits(quick, settings=settings_for(tmp_path, max_concurrent=4), limited=_refused)

        async def ask(path: str, *, reads: bool) -> None:
            async def send(message: object) -> None:
                if not reads:
                    await stuck.wait()
                elif isinstance(message, dict) and message["type"] == "http.response.start":
                    statuses.append(message["status"])

            scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
            await limits(scope, _nothing, send)  # type: ignore[arg-type]  # as ASGI has it

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(partial(ask, "/v1/log/tile/0/000", reads=False))
            await anyio.wait_all_tasks_blocked()
            await ask("/v1/log/proof/consistency", reads=True)
            await ask("/v1/releases", reads=True)
            stuck.set()

    anyio.run(scenario)
    assert statuses == [200, 200]


def _refused(limit: str) -> None:
    raise AssertionError(limit)


async def _nothing() -> object:
    return {"type": "http.disconnect"}


def test_every_path_belongs_to_a_group() -> None:
    found = {path: group_of(path) for path in ("/v1/releases", "/v1/challenges", "/v1/log/tile/0/000", "/readyz", "/x")}
    assert list(found.values()) == ["releases", "challenges", "log", "health", "other"]


@pytest.mark.loopback
def test_a_head_that_never_ends_is_not_waited_for(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    from kms.running.process import Listener, _server

    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        app = create_app(harness.settings, harness.services)
        server = _server(Listener(app=app, sock=sock, connections=20), 1)

        def run() -> None:
            with asyncio.Runner(loop_factory=http_protocol.PatientLoop) as runner:
                runner.run(server.serve([sock]))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
            for before, begin in ((b"", b""), (b"", whole[:20]), (whole, whole[:20])):
                with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                    if before:
                        connection.sendall(before)
                        assert connection.recv(4096)
                    start = time.monotonic()
                    connection.sendall(begin)
                    while connection.recv(4096):
                        pass
                    assert time.monotonic() - start < 30
            with socket.create_connection(("127.0.0.1", port)) as patient:
                patient.sendall(whole)
                assert patient.recv(4096)
                time.sleep(1)
                patient.sendall(whole)
                assert patient.recv(4096), "a connection that rests between requests is kept"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.mark.loopback
def test_what_lives_as_long_as_the_process_holds_up_no_request_for_its_collection(harness: Harness) -> None:
    from kms.running.process import Listener, serve

    exempt = list[int]()
    new = list[int]()

    def ready() -> None:
        exempt.append(gc.get_freeze_count())
        new.append(gc.get_threshold()[0])
        signal.raise_signal(signal.SIGTERM)

    sock = socket.create_server(("127.0.0.1", 0))
    app = create_app(harness.settings, harness.services)
    before = gc.get_freeze_count()
    gc.set_threshold(250_000, 10, 10)  # as the commands have it
    try:
        serve(
            [Listener(app=app, sock=sock, connections=20)],
            harness.services,
            drain_seconds=1,
            report=lambda _: None,
            ready=ready,
        )
    finally:
        gc.unfreeze()
    assert exempt[0] > before + 10_000, "without it, a full collection stops the event loop for 100 ms"
    assert new[0] < 1000, "a collection of many new objects would do the same"
