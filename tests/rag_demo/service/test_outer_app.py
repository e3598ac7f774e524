"""What is told in the clear, to whom, and how much of anybody's requests is held."""

import asyncio
import contextlib
import http.client
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from attest.channel import ChannelExpectation, ChannelKey, KeyDocument, KeyOffer, verify_offer
from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH
from attest.channel.ohttp import MessageForm
from attest.clock import system_clock
from attest.encoding import base64url_text, json_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import CollectionError, ConfigurationError
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_ENDORSEMENTS, Evidence
from attest.page import PageFile
from attest.policy import load_policy
from attest_simulator.machines import MachineKind, SimulatedMachine
from rag_demo.enclave.service.assembly import RagService, attester_of
from rag_demo.enclave.service.attestation import KEPT, Offers, Vendors, files_of
from rag_demo.enclave.service.outer_app import OuterApp
from rag_demo.enclave.service.settings import MachineSettings, ServiceLimits
from tests.rag_demo.service.parts import Workshop
from tests.rag_demo.service.support import NAME, Site, machine, serving, settings_of, source_nowhere

PAGE = PageFile(
    media_type="text/html", body=b"<!doctype html>", headers={"content-security-policy": "default-src 'none'"}
)


@pytest.fixture(scope="module")
def locked() -> Iterator[Site]:
    """A service without keys, with narrow limits and a page."""
    limits = ServiceLimits(document_bytes=1000, body_seconds=0.5, offers_per_minute_each=8, retry_seconds=60)
    settings = settings_of(source_nowhere("model"), source_nowhere("database"), limits=limits)
    workshop = Workshop()
    service = RagService(settings, open_bench=workshop, pages={"/": PAGE})
    with serving(service, workshop) as site:
        yield site


@pytest.fixture(scope="module")
def narrow() -> Iterator[Site]:
    """A service without keys that holds few bytes of requests."""
    limits = ServiceLimits(document_bytes=1000, waiting_bytes=4000, retry_seconds=60)
    settings, workshop = settings_of(source_nowhere("model"), source_nowhere("database"), limits=limits), Workshop()
    with serving(RagService(settings, open_bench=workshop), workshop) as site:
        yield site


def get(site: Site, path: str, method: str = "GET", **more: str) -> httpx.Response:
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    return httpx.request(method, site.url + path, headers=headers, trust_env=False)


@pytest.mark.loopback
def test_any_page_may_ask_for_evidence_keys_and_state_and_for_nothing_else(locked: Site) -> None:
    for path in (GATEWAY_PATH, f"{OFFER_PATH}?nonce={base64url_text(os.urandom(32))}", "/v1/state"):
        answer = get(locked, path, origin="http://localhost:5173")
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
    for path in (GATEWAY_PATH, OFFER_PATH, "/v1/state"):
        asked = get(
            locked,
            path,
            method="OPTIONS",
            origin="null",
            access_control_request_method="POST",
            access_control_request_headers="content-type",
        )
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == "*"
        assert asked.headers["access-control-allow-methods"] == "GET, POST"
        assert asked.headers["access-control-allow-headers"] == "content-type, incremental"
    for path in ("/", "/healthz", "/readyz", "/v1/documents"):
        assert "access-control-allow-origin" not in get(locked, path, origin="http://x").headers
        assert get(locked, path, method="OPTIONS").status_code in {404, 405}


@pytest.mark.loopback
def test_refusals_in_the_clear_may_be_read_by_any_page_too(locked: Site) -> None:
    answer = httpx.post(locked.url + GATEWAY_PATH, content=b"x", headers={"origin": "http://x"}, trust_env=False)
    assert answer.status_code == 415
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.loopback
def test_a_page_is_served_as_it_was_given_and_only_read(locked: Site) -> None:
    answer = get(locked, "/")
    assert (answer.content, answer.headers["content-type"]) == (PAGE.body, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert get(locked, "/", method="HEAD").content == b""
    assert get(locked, "/", method="POST").status_code == 405
    assert get(locked, "/index.html").status_code == 404
    assert (get(locked, "/healthz").text, get(locked, "/readyz").status_code) == ("alive\n", 503)


@pytest.mark.loopback
def test_who_asks_too_often_for_evidence_waits_and_nobody_else_does(locked: Site) -> None:
    codes = [get(locked, f"{OFFER_PATH}?nonce={base64url_text(os.urandom(32))}").status_code for _ in range(12)]
    assert codes[-1] == 429
    refused = get(locked, OFFER_PATH)
    assert (refused.json()["code"], int(refused.headers["retry-after"]) > 0) == ("rag-rate-limited", True)
    assert get(locked, GATEWAY_PATH).status_code == 200


@pytest.mark.loopback
def test_a_request_that_does_not_arrive_in_time_is_held_no_longer(locked: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", locked.port, timeout=60)
    connection.putrequest("POST", GATEWAY_PATH)
    connection.putheader("content-type", MessageForm.CHUNKED.request_type)
    connection.putheader("content-length", "1000")
    connection.endheaders(b"\0" * 10)
    answer = connection.getresponse()
    assert (answer.status, b"rag-too-busy" in answer.read()) == (503, True)
    connection.close()


@pytest.mark.loopback
def test_one_of_more_requests_than_fit_makes_room_and_its_bytes_are_given_back(narrow: Site) -> None:
    def begun(size: int) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=60)
        connection.putrequest("POST", GATEWAY_PATH)
        connection.putheader("content-type", MessageForm.CHUNKED.request_type)
        connection.putheader("content-length", "100000")
        connection.endheaders(b"\0" * size)
        return connection

    both = begun(3000), begun(3000)
    readable, _, _ = select.select([each.sock for each in both], [], [], 60)
    (refused,) = [each for each in both if each.sock in readable]
    answered = refused.getresponse()
    assert (answered.status, json.loads(answered.read())["code"]) == (503, "too-busy")
    for each in both:
        each.close()
    # What was held is free again, once the server has noticed that they left.
    headers, end = {"content-type": MessageForm.CHUNKED.request_type}, time.monotonic() + 60
    while (answer := httpx.post(narrow.url + GATEWAY_PATH, content=b"\0" * 3000, headers=headers)).status_code == 503:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert answer.status_code == 422


@pytest.mark.loopback
@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /v1/state HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"GET " + b"/" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST " + GATEWAY_PATH.encode() + b" HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n",
        b"GET " + OFFER_PATH.encode() + b"?nonce=" + b"%ff" * 100 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_a_connection_and_nothing_else(locked: Site, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", locked.port), timeout=60) as raw:
        raw.sendall(request_)
        raw.shutdown(socket.SHUT_WR)
        answer = raw.recv(200)
    assert not answer.startswith(b"HTTP/1.1 500")
    assert get(locked, "/healthz").status_code == 200


class _Rest:
    """Where an answer is put."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, message: Any) -> None:  # noqa: ANN401  ASGI's own
        self.messages.append(dict(message))


def at_the_doors(channel: Any, *, begin: bool = False) -> _Rest:  # noqa: ANN401  ASGI's own
    async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  as above
        if begin:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise channel

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    doors = OuterApp(
        channel=lambda: application,
        state=Response,
        is_ready=lambda: True,
        life=contextlib.nullcontext,
        limits=ServiceLimits(),
        ticks=time.monotonic,
    )
    rest = _Rest()
    scope: dict[str, Any] = {
        "type": "http",
        "path": GATEWAY_PATH,
        "method": "POST",
        "client": None,
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(doors(scope, receive, rest))
    return rest


def test_a_memory_of_requests_that_fails_and_a_defect_are_told_in_a_word(caplog: pytest.LogCaptureFixture) -> None:
    refused = at_the_doors(ConfigurationError("the database is gone", code="replay-window-unusable"))
    assert refused.messages[0]["status"] == 503
    assert json.loads(refused.messages[1]["body"])["code"] == "rag-unavailable"
    broken = at_the_doors(ValueError("zebra"))
    assert broken.messages[0]["status"] == 500
    assert b"zebra" not in broken.messages[1]["body"]
    # An answer that has begun is broken off, and never ended as if it were whole.
    for error in (ConfigurationError("gone", code="x-y"), ValueError("zebra")):
        with pytest.raises(Exception, match=r"^$"):
            at_the_doors(error, begin=True)
    assert "zebra" not in " ".join(caplog.messages)


# -- evidence for whoever asks


def offers(*, vendors: Vendors | None = None, per_minute: int = 600, fail: bool = False) -> Offers:
    made = machine()

    def attest(binding: Binding) -> Evidence:
        if fail:
            raise CollectionError("no device", code="tsm-unavailable")
        return made(binding)

    return Offers(
        attest, audience=NAME, vendors=vendors, clock=system_clock, ticks=time.monotonic, per_minute=per_minute
    )


def document() -> KeyDocument:
    return ChannelKey.born(random=os.urandom, at=system_clock()).document


def endorsements(offer: KeyOffer) -> list[bytes]:
    return [item.value for item in offer.evidence.items if item.media_type == MEDIA_ENDORSEMENTS]


@pytest.mark.parametrize(("kind", "gpus"), [("snp", 1), ("tdx", 0), ("azure-snp", 0), ("azure-tdx", 0)])
def test_an_offer_of_every_machine_can_be_verified_with_nothing_but_what_it_carries(
    kind: MachineKind, gpus: int
) -> None:
    attester, vendors = attester_of(MachineSettings(simulate=kind, gpus=gpus), clock=system_clock)
    desk = Offers(attester, audience=NAME, vendors=vendors, clock=system_clock, ticks=time.monotonic, per_minute=60)
    keys, nonce = document(), os.urandom(32)
    offer = KeyOffer.from_json(json_value(json.dumps(desk(keys, nonce).to_json()).encode(), what="offer"))
    made = SimulatedMachine.of(kind, gpus=gpus)
    expect = ChannelExpectation(
        audience=NAME,
        policy=load_policy(made.policy(), name="policy"),
        anchors=TrustAnchors.simulation(),
        endorsements=NO_ENDORSEMENTS,
    )
    record = verify_offer(offer, expect=expect, nonce=nonce, at=system_clock())
    assert record.keys == keys
    assert record.result.verified.simulated


def test_one_question_is_answered_once_and_another_one_anew() -> None:
    desk, keys = offers(), document()
    first = desk(keys, b"1" * 32)
    assert desk(keys, b"1" * 32) is first
    assert desk(keys, b"2" * 32) is not first
    assert desk(document(), b"1" * 32) is not first
    assert desk.made == 3


def test_only_so_many_are_made() -> None:
    desk, keys = offers(per_minute=10), document()
    desk(keys, b"1" * 32)
    with pytest.raises(CollectionError) as refused:
        desk(keys, b"2" * 32)
    assert refused.value.code == "rag-evidence-limited"
    assert desk(keys, b"1" * 32).keys == keys.to_bytes()  # what is there costs nothing


def test_a_machine_that_gives_no_evidence_says_so() -> None:
    with pytest.raises(CollectionError) as refused:
        offers(fail=True)(document(), b"1" * 32)
    assert refused.value.code == "tsm-unavailable"


def test_what_vendors_say_travels_along_and_is_read_again_after_a_while() -> None:
    said, asked = [b"old"], []

    def vendors(at: object) -> dict[str, bytes]:
        asked.append(at)
        if not said[0]:
            raise ConfigurationError("gone", code="file-unreadable")
        return {"b": b"second", "a": said[0]}

    clock = [system_clock()]
    desk = offers(vendors=vendors, per_minute=100_000)
    desk._clock = lambda: clock[0]  # noqa: SLF001  the moment of the test
    keys = document()
    assert endorsements(desk(keys, b"1" * 32)) == [b"old", b"second"]
    said[0] = b"new"
    assert endorsements(desk(keys, b"2" * 32)) == [b"old", b"second"]
    clock[0] += timedelta(minutes=11)
    assert endorsements(desk(keys, b"3" * 32)) == [b"new", b"second"]
    # What cannot be read again counts as it was: clients judge how old it is.
    said[0] = b""
    clock[0] += timedelta(minutes=11)
    assert endorsements(desk(keys, b"4" * 32)) == [b"new", b"second"]
    assert len(asked) == 3


def test_what_no_client_would_take_is_refused_by_name() -> None:
    for files in ({"a": bytes(3 << 20)}, {str(n): b"x" for n in range(25)}):
        with pytest.raises(ConfigurationError) as refused:
            offers(vendors=lambda _, files=files: files)(document(), b"1" * 32)  # type: ignore[misc]  # mypy infers no default of a lambda
        assert refused.value.code == "rag-endorsements-too-large"


def test_files_and_folders_are_read_anew_each_time(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "vendors").mkdir()
    (folder / "vendors" / "a.crl").write_bytes(b"a")
    (folder / "one.cbor").write_bytes(b"one")
    read = files_of((folder / "vendors", folder / "one.cbor"))
    assert sorted(read(system_clock()).values()) == [b"a", b"one"]
    (folder / "vendors" / "b.crl").write_bytes(b"b")
    assert sorted(read(system_clock()).values()) == [b"a", b"b", b"one"]
    (folder / "one.cbor").unlink()
    with pytest.raises(ConfigurationError) as refused:
        read(system_clock())
    assert refused.value.code == "file-unreadable"


def test_memory_of_what_was_made_is_bounded_and_shared_by_threads() -> None:
    desk, keys = offers(per_minute=1_000_000), document()
    threads = [
        threading.Thread(target=lambda part=part: [desk(keys, bytes((part, n)) * 16) for n in range(80)])
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert desk.made == 320
    assert len(desk._kept) == KEPT  # noqa: SLF001  what it keeps is not shown
