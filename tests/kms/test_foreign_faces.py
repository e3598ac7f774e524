"""Refusals at the routes of foreign protocols: each has the form of its protocol, whatever refuses the request."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message

from kms.api.app import create_app
from kms.api.context import Workroom
from kms.api.limits import ForeignFace
from kms.api.observation import Watching
from kms.domain.errors import UnavailableError
from tests.kms.kbs import face as kbs
from tests.kms.maa import maa_face as maa
from tests.kms.skr.vault import bearer, write_vault
from tests.kms.support import AT, Harness

HOST = "v1.localhost:8443"
Document = dict[str, Any]  # Any: JSON that the tests look into


def of_kbs(document: Document) -> str:
    """Return the code of a refusal, which has the form of the protocol."""
    assert set(document) == {"type", "detail"}
    assert document["type"].startswith("https://github.com/confidential-containers/kbs/errors/")
    return str(document["detail"]).rpartition("[")[2].removesuffix("]")


def of_azure(document: Document) -> str:
    """Return the innermost code of a refusal, which has the form of Azure's services."""
    assert set(document) == {"error"}
    inner = document["error"]
    assert isinstance(inner["message"], str)
    while "innererror" in inner:
        inner = inner["innererror"]
    return str(inner["code"])


@dataclass(frozen=True)
class Protocol:
    """A route that reads a body, one that there is not, and the reader of refusals."""

    route: str
    absent: str
    code: Callable[[Document], str]
    header_bytes: int
    body_bytes: int


PROTOCOLS = {
    "kbs": Protocol("/kbs/v0/attest", "/kbs/v0/nosuch", of_kbs, 128 * 1024, 2 * 1024 * 1024),
    "skr": Protocol("/keys/k1/release?api-version=7.4", "/keys/a/b/c/d?api-version=7.4", of_azure, 32_768, 262_144),
    "maa": Protocol("/attest/SevSnpVm?api-version=2022-08-01", "/attest/nosuch", of_azure, 16 * 1024, 512 * 1024),
}
EACH = pytest.mark.parametrize("name", PROTOCOLS)


def served(folder: Path, **changes: Any) -> tuple[Harness, ASGIApp]:  # noqa: ANN401  settings
    """A service with all protocols."""
    for name in PROTOCOLS:
        (folder / name).mkdir()
    files: dict[str, Any] = {
        "kbs_file": kbs.write_rules(folder / "kbs"),
        "skr_file": write_vault(folder / "skr", at=AT),
        "maa_file": maa.write_rules(folder / "maa"),
    }
    harness = Harness.make(folder, **files, **changes)
    return harness, create_app(harness.settings, harness.services)


def headers(name: str) -> dict[str, str]:
    return {"Host": HOST, **({"Authorization": f"Bearer {bearer(AT)}"} if name == "skr" else {})}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    harness, app = served(tmp_path_factory.mktemp("faces"))
    with TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client:
        yield client
    harness.close()


def refused(answer: Any, name: str) -> tuple[int, str]:  # noqa: ANN401  a response
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, PROTOCOLS[name].code(answer.json())


@EACH
def test_an_address_or_a_method_that_there_is_not(http: TestClient, name: str) -> None:
    one = PROTOCOLS[name]
    status, code = refused(http.post(one.absent, headers=headers(name)), name)
    assert (status, code) == (404, "plugin-unknown" if name == "kbs" else "route-unknown")
    method = "PATCH" if name != "skr" else "PUT"
    status, code = refused(http.request(method, one.route, headers=headers(name)), name)
    assert (status, code) == (405, "method-not-allowed")


@pytest.mark.parametrize("path", ["/kbs/v0/a%0Ab", "/keys/a%0Ab", "/attest/a%0Ab", "/kbs/v0", "/keys", "/attest"])
def test_a_path_with_any_character_and_without_a_slash_is_of_the_protocol(http: TestClient, path: str) -> None:
    name = {"k": "kbs", "e": "skr", "t": "maa"}[path[1] if path.startswith("/kb") else path[2]]
    assert refused(http.post(path, headers=headers(name)), name)[0] in {400, 404, 405}


@pytest.mark.parametrize("path", ["/keysx", "/kbs/v0x", "/attestx", "/certsx"])
def test_a_path_beside_a_protocol_is_of_the_service(http: TestClient, path: str) -> None:
    assert http.post(path).json()["title"] == "Not Found"


@EACH
def test_a_request_that_is_too_long(http: TestClient, name: str) -> None:
    one = PROTOCOLS[name]
    address = refused(http.post(f"{one.route.partition('?')[0]}?{'a' * 3000}", headers=headers(name)), name)
    assert address == (414, "url-too-long")
    head = refused(http.post(one.route, headers={**headers(name), "x-long": "a" * one.header_bytes}), name)
    assert head == (431, "headers-too-large")
    body = refused(http.post(one.route, headers=headers(name), content=b" " * (one.body_bytes + 1)), name)
    assert body == (413, "body-too-large")
    chunks = iter([b" " * one.body_bytes, b" "])
    assert refused(http.post(one.route, headers=headers(name), content=chunks), name) == (413, "body-too-large")


@EACH
def test_requests_that_are_too_many(tmp_path: Path, name: str) -> None:
    harness, app = served(tmp_path, client_requests_per_second=1, client_burst=1)
    with TestClient(app, raise_server_exceptions=False) as client:
        answers = [client.post(PROTOCOLS[name].route, headers=headers(name)) for _ in range(2)]
    harness.close()
    assert refused(answers[1], name) == (429, "rate-limited")
    assert int(answers[1].headers["retry-after"]) >= 1


@EACH
def test_a_body_that_does_not_arrive(tmp_path: Path, name: str) -> None:
    harness, app = served(tmp_path, request_seconds=1)
    status, content = asyncio.run(asked_slowly(app, name))
    harness.close()
    assert (status, PROTOCOLS[name].code(json.loads(content))) == (400, "request-timeout")


async def asked_slowly(app: ASGIApp, name: str) -> tuple[int, bytes]:
    """Send a head, and never a body."""
    path, _, query = PROTOCOLS[name].route.partition("?")
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(30)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    named = {"host": HOST, **{key.lower(): value for key, value in headers(name).items()}}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode()) for key, value in named.items()],
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
        "root_path": "",
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


def test_answers_are_counted_under_the_path_of_their_protocol(tmp_path: Path) -> None:
    counted: list[tuple[str, int]] = []
    watching = Watching(answered=lambda route, status, _: counted.append((route, status)))
    harness, _ = served(tmp_path)
    app = create_app(harness.settings, harness.services, watching=watching)
    with TestClient(app) as client:
        for name, one in PROTOCOLS.items():
            client.post(one.absent, headers=headers(name))
        client.get("/kbs")
    harness.close()
    assert counted == [("/kbs/v0", 404), ("/keys", 404), ("/attest/", 404), ("none", 404)]


@EACH
def test_work_that_does_not_end_in_time(http: TestClient, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def late(self: Workroom, work: object) -> None:
        raise UnavailableError("no answer within 1 s", code="request-timeout", retryable=True)

    monkeypatch.setattr(Workroom, "run", late)
    answer = http.post(PROTOCOLS[name].route, headers=headers(name), content=b"{}")
    assert refused(answer, name) == (503, "request-timeout")
    assert answer.headers["retry-after"] == "1"


@EACH
def test_a_service_that_is_too_busy(http: TestClient, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("attest.concurrency.ConcurrencyLimit.acquire", lambda _: False)
    answer = http.post(PROTOCOLS[name].route, headers=headers(name), content=b"{}")
    assert refused(answer, name) == (503, "too-busy")


LINES = st.tuples(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"]),
    st.sampled_from(["/kbs/v0/", "/keys/", "/attest/", "/certs/"]),
    st.text(st.characters(codec="ascii"), max_size=24).map(lambda text: quote(text, safe="/%")),
    st.sampled_from(["", "?api-version=7.4", "?api%2Dversion=2022-08-01", "?%ff=%00&&="]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(line=LINES, body=st.binary(max_size=40), authorised=st.booleans())
def test_any_request_below_a_protocols_paths_gets_an_answer_of_its_form(
    http: TestClient, line: tuple[str, str, str, str], body: bytes, *, authorised: bool
) -> None:
    method, begin, rest, query = line
    name = {"/kbs/v0/": "kbs", "/keys/": "skr"}.get(begin, "maa")
    path = "/certs" if begin == "/certs/" else begin + rest
    known = headers(name) if authorised else {"Host": HOST}
    answer = http.request(method, path + query, content=body, headers=known)
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200 and method != "HEAD" and answer.request.url.path.startswith(begin.rstrip("/")):
        PROTOCOLS[name].code(answer.json())


def test_every_foreign_protocol_of_the_service_is_among_these() -> None:
    from kms.api.kbs.opening import kbs_face
    from kms.api.maa.opening import maa_face
    from kms.api.skr.opening import skr_face

    faces: tuple[ForeignFace, ...] = (kbs_face(Path()), skr_face(Path()), maa_face(Path()))
    for face, one in zip(faces, PROTOCOLS.values(), strict=True):
        assert face.serves(one.route.partition("?")[0])
        assert face.serves(one.absent.partition("?")[0])
