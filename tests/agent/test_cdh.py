"""The interface of the Confidential Data Hub: keys over HTTP on the loopback, and nothing for pages in a browser."""

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.agent.cdh import foreign, listen_for_cdh
from attest.agent.cdh_config import CdhConfig
from attest.agent.config import AgentConfig
from attest.errors import ConfigurationError
from attest.release.names import KeyReference
from tests.agent.running import KEY, Place, Raw, Running, Said
from tests.kms.support import MATERIAL

pytestmark = pytest.mark.loopback
RESOURCE = "/cdh/resource/default/model-key/llama"
CONFIG = AgentConfig(
    cdh=CdhConfig(
        anyone_here="a test",
        resources={
            "default/model-key/llama": KeyReference.parse(KEY),
            "default/secret/short": KeyReference.parse("acme/short"),
            "default/model-key/none": KeyReference.parse("acme/none"),
        },
    )
)


@pytest.fixture
def running(folder: Path, place: Place, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    caplog.set_level(logging.DEBUG)
    with Running.start(folder, place, config=CONFIG, materials={"acme/short": b"a secret"}) as made:
        yield made


def ask(running: Running, target: str, *headers: str, method: str = "GET", host: str | None = None) -> Said:
    assert running.cdh is not None
    with socket.create_connection(("127.0.0.1", running.cdh), 30) as sock:
        lines = "".join(f"{line}\r\n" for line in (f"Host: {host or f'127.0.0.1:{running.cdh}'}", *headers))
        sock.sendall(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode())
        return Raw(sock).said()


def test_a_resource_is_the_bytes_of_its_key(running: Running) -> None:
    said = ask(running, RESOURCE)
    assert (said.status, said.body) == (200, MATERIAL)
    assert said.headers["content-type"] == "application/octet-stream"
    assert said.headers["cache-control"] == "no-store"
    assert said.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8006", "127.0.0.1"])
def test_each_name_of_the_loopback_is_served(running: Running, host: str) -> None:
    assert ask(running, RESOURCE, host=host).body == MATERIAL


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "localhost:x", "127.0.0.1@e", "::1"]
)
def test_a_page_whose_name_was_made_to_point_here_gets_nothing(running: Running, host: str) -> None:
    said = ask(running, RESOURCE, host=host)
    assert (said.status, MATERIAL in said.body) == (403, False)
    assert said.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "header", ["Origin: http://127.0.0.1", "Origin: null", "Sec-Fetch-Site: same-origin", "Referer: http://localhost/"]
)
def test_a_request_of_a_browser_is_refused(running: Running, header: str) -> None:
    assert ask(running, RESOURCE, header).status == 403


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/cdh",
        "/cdh/resource",
        "/cdh/resource/",
        "/cdh/resource/default/model-key",
        "/cdh/resource/default/model-key/other",
        "/cdh/resource//default/model-key/llama",
        "/cdh/resource/default/model-key/llama/",
        "/cdh/resource/default/model-key/../model-key/llama",
        "/cdh/resource/default/model-key/ll%61ma",
        "/cdh/resource/default/model-key/llama?x=1",
        f"/cdh/resource/{KEY}",
        f"/v1/keys/{KEY}",
        "/healthz",
        "/aa/evidence?runtime_data=AAAA&encoding=base64",
    ],
)
def test_nothing_else_is_there(running: Running, target: str) -> None:
    said = ask(running, target)
    assert (said.status, MATERIAL in said.body) == (404, False)


def test_a_key_that_the_service_refuses_is_500_with_the_reason(running: Running) -> None:
    said = ask(running, "/cdh/resource/default/model-key/none")
    assert (said.status, said.body) == (500, b"no such key [key-unknown]\n")


def test_a_lost_lease_is_500_at_once(running: Running) -> None:
    assert ask(running, RESOURCE).status == 200
    running.session.lose(KEY)
    said = ask(running, RESOURCE)
    assert (said.status, b"lease-renewal-refused" in said.body) == (500, True)


def test_tokens_are_refused_with_a_reason(running: Running) -> None:
    assert ask(running, "/aa/token").status == 400
    said = ask(running, "/aa/token?token_type=kbs")
    assert (said.status, b"no issuer" in said.body) == (500, True)


def test_info_names_the_feature(running: Running) -> None:
    document = json.loads(ask(running, "/info").body)
    assert document["feature"] == "resource"
    assert document.keys() == {"version", "feature"}


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "PUT"])
def test_only_get_is_possible(running: Running, method: str) -> None:
    assert running.cdh is not None
    with socket.create_connection(("127.0.0.1", running.cdh), 30) as sock:
        sock.sendall(f"{method} {RESOURCE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status, headers, _ = Raw(sock).head()
    assert (status, headers["allow"]) == (405, "GET")


def test_what_is_no_request_is_refused_as_text(running: Running) -> None:
    assert ask(running, RESOURCE, "Content-Length: 3", method="POST").headers["content-type"].startswith("text/plain")
    assert ask(running, RESOURCE, "no field").status == 400


def test_several_requests_are_answered_on_one_connection(running: Running) -> None:
    assert running.cdh is not None
    with socket.create_connection(("127.0.0.1", running.cdh), 30) as sock:
        raw = Raw(sock)
        for _ in range(3):
            assert raw.ask(RESOURCE).status == 403  # its host is another
            raw.send(f"GET {RESOURCE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert raw.said().body == MATERIAL


def test_the_log_has_the_request_and_no_size_of_a_secret(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(running, "/cdh/resource/default/secret/short").body == b"a secret"
    assert ask(running, "/info").status == 200
    (logged,) = [one for one in caplog.records if getattr(one, "target", "").endswith("/short")]
    assert logged.__dict__["bytes"] is None
    assert MATERIAL.hex() not in caplog.text


def test_the_table_gives_nothing_to_the_other_socket(running: Running) -> None:
    assert running.ask(f"/v1/keys/{KEY}").status == 404  # the agent's own user, whom no rule names


def test_a_peer_of_another_machine_is_refused() -> None:
    class Foreign:
        @staticmethod
        def getpeername() -> tuple[str, int]:
            return "192.0.2.1", 1234

    class Local:
        @staticmethod
        def getpeername() -> tuple[str, int]:
            return "127.0.0.1", 1234

    refusal = foreign(Foreign())  # type: ignore[arg-type]  # as far as it is used
    assert refusal is not None
    assert refusal.status == 403
    assert foreign(Local()) is None  # type: ignore[arg-type]  # as above


def test_it_listens_on_the_loopback_alone_and_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = CdhConfig(anyone_here="a test", resources={}, port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError) as caught:
            listen_for_cdh(config)
    assert caught.value.code == "address-in-use"
    with listen_for_cdh(config) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
