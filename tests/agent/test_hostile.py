"""Peers that send too much, too little, too slowly, or read nothing."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.agent.answers import AgentRequest
from attest.agent.config import AgentLimits
from attest.agent.http import MAX_HEAD_BYTES
from attest.agent.keys import AgentKeys
from attest.agent.logs import RateLimitedLog
from attest.agent.models import Model
from attest.agent.peers import Peer
from attest.agent.routes import Routes
from tests.agent.running import BIG, FILES, KEY, ME, QUICK, FakeSession, Place, Raw, Running, usual
from tests.kms.support import MATERIAL

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def sent(running: Running, data: bytes) -> Raw:
    raw = running.connect()
    with suppress(BrokenPipeError):  # it was refused before it had come whole
        raw.send(data)
    return raw


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 of TLS\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "agent-request-invalid"),  # no Host
        (b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /healthz\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET  /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET http://a/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /healthz?x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /v1/keys/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /v1/keys/%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"GET /v2/keys/a HTTP/1.1\r\nHost: a\r\n\r\n", 404, "agent-unknown"),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "agent-request-invalid"),
        (b"POST /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method-not-allowed"),
        (b"HEAD /v1/keys/acme/llama HTTP/1.1\r\nHost: a\r\n\r\n", 405, None),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 413, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", 413, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         413, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
         400, "agent-request-invalid"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n", 431, "agent-head-too-large"),
        (b"GET /" + b"y" * (1 << 20), 431, "agent-head-too-large"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * MAX_HEAD_BYTES, 431, "agent-head-too-large"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_harms_nobody(
    running: Running, data: bytes, status: int, code: str | None
) -> None:
    with sent(running, data) as raw:
        said = raw.said(bodiless=data.startswith(b"HEAD"))
        assert said.status == status
        assert code is None or said.code == code
    assert running.ask(f"/v1/keys/{KEY}").body == MATERIAL


def of_bytes(size: int) -> bytes:
    start = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: "
    return start + b"y" * (size - len(start) - 4) + b"\r\n\r\n"


@pytest.mark.parametrize("first", [0, 5, 15 * 1024])
@pytest.mark.parametrize(
    ("size", "status"), [(MAX_HEAD_BYTES, 200), (MAX_HEAD_BYTES + 1, 431), (20 * 1024, 431), (2 * MAX_HEAD_BYTES, 431)]
)
def test_a_head_has_16_kib_at_most_however_it_arrives(running: Running, size: int, status: int, first: int) -> None:
    head = of_bytes(size)
    assert len(head) == size
    with sent(running, head[:first]) as raw:
        with suppress(BrokenPipeError):
            raw.send(head[first:])
        assert raw.said().status == status
    assert running.ask(f"/v1/keys/{KEY}").body == MATERIAL


def test_a_request_may_come_byte_by_byte_and_two_at_once(running: Running) -> None:
    with running.connect() as raw:
        for byte in HEALTH:
            raw.send(bytes([byte]))
        assert raw.said().status == 200
        raw.send(HEALTH + f"GET /v1/keys/{KEY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        everything = raw.rest()
        assert everything.count(b"HTTP/1.1 200") == 2
        assert everything.endswith(MATERIAL)


def test_a_head_that_never_ends_is_given_up(folder: Path, place: Place) -> None:
    with Running.start(folder, place, limits=replace(QUICK, head_seconds=1)) as running:
        with running.connect() as raw:
            raw.send(HEALTH[:-2])
            said = raw.said()
            assert (said.status, said.code) == (408, "agent-request-slow")
            assert raw.rest() == b""
        assert running.ask(f"/v1/keys/{KEY}").body == MATERIAL


def test_a_trickle_does_not_buy_time(folder: Path, place: Place) -> None:
    """Slow-loris: each byte is in time, the head is not."""
    with Running.start(folder, place, limits=replace(QUICK, head_seconds=1)) as running, running.connect() as raw:
        raw.sock.settimeout(0.05)
        answer = b""
        raw.send(HEALTH[:20])
        for _ in range(400):
            try:
                raw.send(b"X")
                answer = raw.sock.recv(100)
            except TimeoutError:
                continue
            except BrokenPipeError:
                raw.sock.settimeout(30)
                answer = raw.sock.recv(100)
            break
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_connection_on_which_nothing_comes_is_ended_without_a_word(folder: Path, place: Place) -> None:
    with (
        Running.start(folder, place, limits=replace(QUICK, idle_seconds=0.1)) as running,
        running.connect() as raw,
    ):
        assert raw.rest() == b""


def test_a_peer_that_does_not_take_its_answer_is_let_go(folder: Path, place: Place) -> None:
    with Running.start(folder, place, limits=replace(QUICK, stall_seconds=0.2, streams=1)) as running:
        with running.connect() as raw:
            raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status, headers, begun = raw.head()
            assert status == 200
            for one in threading.enumerate():
                if one.name == "agent-connection":
                    one.join(30)
            body = begun + raw.rest()
        assert len(body) < int(headers["content-length"])
        assert running.ask(f"/v1/models/llama/files/{BIG}", "Range: bytes=0-3").body == FILES[BIG][:4]


@pytest.mark.parametrize("limits", [{"streams": 1}, {"streams_per_uid": 1}])
def test_too_many_files_at_a_time_wait_elsewhere(folder: Path, place: Place, limits: dict[str, int]) -> None:
    with Running.start(folder, place, limits=replace(QUICK, wait_seconds=0.01, **limits)) as running:
        with running.connect() as raw:
            raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            _, headers, begun = raw.head()
            said = running.ask(f"/v1/models/llama/files/{BIG}")
            assert (said.status, said.code, said.headers["retry-after"]) == (503, "agent-busy", "1")
            assert running.ask(f"/v1/keys/{KEY}").status == 200
            body = begun
            while len(body) < int(headers["content-length"]):
                body += raw.sock.recv(1 << 20)
            assert raw.ask(f"/v1/models/llama/files/{BIG}", "Range: bytes=0-3").body == FILES[BIG][:4]
        assert body == FILES[BIG]


@pytest.mark.parametrize("limits", [{"connections": 2}, {"connections_per_uid": 2}])
def test_too_many_connections_are_turned_away_at_once(folder: Path, place: Place, limits: dict[str, int]) -> None:
    with Running.start(folder, place, limits=replace(QUICK, **limits)) as running:
        with running.connect() as one, running.connect() as two:
            assert (one.ask("/healthz").status, two.ask("/healthz").status) == (200, 200)
            with running.connect() as three:
                said = three.said()
                assert (said.status, said.code) == (503, "agent-busy")
        for thread in threading.enumerate():
            if thread.name == "agent-connection":
                thread.join(30)
        assert running.ask("/healthz").status == 200


def test_a_peer_that_goes_while_it_is_answered_harms_nobody(running: Running) -> None:
    for _ in range(20):
        with running.connect() as raw:
            raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    for _ in range(5):
        running.connect().sock.close()
    assert running.ask("/healthz").status == 200


def test_ending_lets_begun_answers_be_finished_and_ends_idle_connections(folder: Path, place: Place) -> None:
    with Running.start(folder, place) as running, running.connect() as raw, running.connect() as idle:
        assert idle.ask("/healthz").status == 200
        raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        _, headers, begun = raw.head()
        running.agent.stop()
        assert idle.rest() == b""
        body = begun + raw.rest()
        assert (len(body), body) == (int(headers["content-length"]), FILES[BIG])
        running.thread.join(30)
        assert not running.thread.is_alive()


def test_ending_breaks_off_what_takes_too_long(folder: Path, place: Place) -> None:
    with (
        Running.start(folder, place, limits=replace(QUICK, drain_seconds=0.1)) as running,
        running.connect() as raw,
    ):
        raw.send(f"GET /v1/models/llama/files/{BIG} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        _, headers, begun = raw.head()
        running.agent.stop()
        running.thread.join(30)
        assert not running.thread.is_alive()
        assert len(begun + raw.rest()) < int(headers["content-length"])


def test_messages_that_somebody_can_cause_are_seldom() -> None:
    now = [0.0]
    seldom = RateLimitedLog(lambda: now[0], times=2, seconds=10)
    assert [seldom.admits() for _ in range(5)] == [1, 1, 0, 0, 0]
    now[0] = 10
    assert [seldom.admits() for _ in range(3)] == [4, 1, 0]


def test_whoever_is_turned_away_again_and_again_fills_no_log(
    folder: Path, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(usual(place), peers=())
    with Running.start(folder, place, config=config, own_uid=4_000_000) as running:
        for _ in range(30):
            with running.connect() as raw:
                assert raw.said().status == 403
    assert sum(record.message == "a connection was turned away" for record in caplog.records) == 10


# -- any bytes at all


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routes]:
    made = Place.make(tmp_path_factory.mktemp("sealed"))
    keyring = AgentKeys(FakeSession({KEY: MATERIAL, "model@1": made.key}), ticks=lambda: 0.0)
    config = usual(made)
    models = {one.name: Model(config=one, keyring=keyring, service=None) for one in config.models}
    yield Routes(config=config, keyring=keyring, models=models, own_uid=0)
    for model in models.values():
        model.close()


TARGETS = st.one_of(
    st.text(),
    st.text().map(lambda text: f"/{text}"),
    st.text().map(lambda text: f"/v1/keys/{text}"),
    st.text().map(lambda text: f"/v1/models/llama/files/{text}"),
)


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT"]) | st.text(max_size=5),
    target=TARGETS,
    headers=st.dictionaries(st.sampled_from(["range", "if-range"]), st.text()),
)
@settings(max_examples=300)
def test_every_request_is_answered_or_refused(
    routes: Routes, method: str, target: str, headers: dict[str, str]
) -> None:
    peer = Peer(uid=ME.uid or 0, gid=0, pid=1)
    answer = routes.answer(peer, AgentRequest(method=method, target=target, headers=headers))
    answer.close()
    assert 200 <= answer.status < 600
    assert answer.status == 200 or MATERIAL not in bytes(answer.body)


@given(text=st.text() | st.from_regex(r"bytes=\d{0,8}-\d{0,8}", fullmatch=True))
def test_a_range_is_within_the_file_or_refused(routes: Routes, text: str) -> None:
    from attest.agent import AgentRefusedError
    from attest.agent.ranges import wanted_range

    try:
        part = wanted_range(text, if_range=None, etag='"x"', size=1000)
    except AgentRefusedError as exc:
        assert exc.code == "agent-range-invalid"  # noqa: PT017  either is right
    else:
        assert 0 <= part.first < part.end <= 1000


def test_limits_have_the_defaults_that_the_page_states() -> None:
    import tomllib

    page = (Path(__file__).resolve().parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")
    document = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    assert AgentLimits(**document["limits"]) == AgentLimits()
