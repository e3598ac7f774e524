"""The service over HTTP: every refusal is a problem, every answer is what the OpenAPI document says."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from attest.encoding import JsonValue
from attest.release import Challenge, Release
from kms.api.app import create_app
from kms.api.models import ProblemModel, ReleaseModel
from kms.api.problems import STATUS
from kms.cli.openapi import document_text
from kms.keys.admin import set_enabled
from tests.kms.stores import write_genuine
from tests.kms.support import ACTOR, MATERIAL, MODEL, Harness, Workload, open_release, policy_text

REPOSITORY = Path(__file__).resolve().parents[2]
JSON = {"Content-Type": "application/json"}
Problem = dict[str, Any]  # Any: JSON that the tests look into
ROUTES = [
    ("POST", "/v1/challenges"),
    ("POST", "/v1/releases"),
    ("GET", "/v1/identity"),
    ("GET", "/v1/prompt-keys"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
]


def client_of(harness: Harness) -> TestClient:
    return TestClient(
        create_app(harness.settings, harness.services), raise_server_exceptions=False, base_url="http://kms.test"
    )


@pytest.fixture
def client(harness: Harness) -> Iterator[TestClient]:
    harness.add_key("model")
    with client_of(harness) as made:
        yield made


def challenge_of(client: TestClient) -> Challenge:
    answer = client.post("/v1/challenges", json={})
    assert answer.status_code == HTTPStatus.OK
    return Challenge.from_json(answer.json())


def ask(client: TestClient, workload: Workload | None = None, *key_ids: str) -> tuple[int, Problem]:
    request = (workload or Workload()).request(challenge_of(client), *(key_ids or ("model",)))
    answer = client.post("/v1/releases", json=request.to_json())
    return answer.status_code, answer.json()


def problem_of(status: int, document: Problem, expected: int, code: str) -> Problem:
    assert (status, document.get("code")) == (expected, code), document
    ProblemModel.model_validate(document)
    assert document["status"] == expected
    assert document["simulated"] is True
    return document


def test_a_workload_gets_its_key(client: TestClient, harness: Harness) -> None:
    challenge = challenge_of(client)
    request = Workload().request(challenge, "model")
    answer = client.post("/v1/releases", json=request.to_json())
    assert answer.status_code == HTTPStatus.OK
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    ReleaseModel.model_validate(answer.json())
    release = Release.from_json(answer.json())
    assert open_release(Workload(), challenge, request, release, harness) == {"model": MATERIAL}


def test_the_client_of_the_library_gets_its_key(client: TestClient, harness: Harness) -> None:
    from attest.release.client import KeyReleaseClient

    released = KeyReleaseClient(client, service=harness.services.identity.public).release(  # type: ignore[arg-type]
        ("model",), attester=Workload().attest
    )
    assert [key.material for key in released] == [MATERIAL]


def test_the_service_says_who_it_is_and_how_it_is(client: TestClient, harness: Harness) -> None:
    identity = client.get("/v1/identity").json()
    assert identity["verifier_key"] == harness.audience
    assert identity["simulated"] is True
    assert client.get("/healthz").json() == {"status": "ok", "simulated": True}
    ready = ["database", "key-encryption-key", "endorsements", "stored-state"]
    assert client.get("/readyz").json() == {"status": "ok", "simulated": True, "ready": ready}


# -- refusals, each with its status


def test_what_the_policy_refuses_is_403_with_the_failed_checks(client: TestClient) -> None:
    document = problem_of(*ask(client, Workload().with_measurement(b"\x01" * 48)), 403, "policy-not-met")
    (check,) = document["failed_checks"]
    assert check["id"] == "policy.snp.measurement"
    assert "got" not in check  # which the key does not disclose


def test_what_is_not_genuine_is_403_with_the_failed_check(client: TestClient) -> None:
    document = problem_of(*ask(client, Workload(nonce=b"\x01" * 32)), 403, "nonce-mismatch")
    assert [check["id"] for check in document["failed_checks"]] == ["freshness"]


def test_a_used_challenge_is_409(client: TestClient) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    assert client.post("/v1/releases", json=request).status_code == HTTPStatus.OK
    answer = client.post("/v1/releases", json=request)
    problem_of(answer.status_code, answer.json(), 409, "challenge-used")


def test_an_expired_challenge_is_410(client: TestClient, harness: Harness) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    harness.clock.forward(seconds=300)
    answer = client.post("/v1/releases", json=request)
    problem_of(answer.status_code, answer.json(), 410, "challenge-expired")


def test_a_challenge_that_is_none_is_400(client: TestClient) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    answer = client.post("/v1/releases", json={**request, "challenge": "A" * 104})
    problem_of(answer.status_code, answer.json(), 400, "challenge-invalid")


def test_an_unknown_key_is_404(client: TestClient) -> None:
    problem_of(*ask(client, None, "nothing"), 404, "key-unknown")


def test_a_disabled_key_is_403(client: TestClient, harness: Harness) -> None:
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())
    problem_of(*ask(client), 403, "key-disabled")


def test_missing_endorsements_are_503_and_the_same_request_may_come_again(client: TestClient, harness: Harness) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    crl = harness.folder / "endorsements" / "crl.der"
    content = crl.read_bytes()
    crl.unlink()
    harness.services.endorsements.reload(at=harness.clock())
    answer = client.post("/v1/releases", json=request)
    document = problem_of(answer.status_code, answer.json(), 503, "crl-missing")
    assert document["retryable"] is True
    assert answer.headers["retry-after"] == "1"
    crl.write_bytes(content)
    harness.services.endorsements.reload(at=harness.clock())
    assert client.post("/v1/releases", json=request).status_code == HTTPStatus.OK


def test_a_database_in_use_is_503(client: TestClient, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.store.database.BUSY_MILLISECONDS", 20)
    request = Workload().request(challenge_of(client), "model").to_json()
    with harness.services.store.writing():
        answer = client.post("/v1/releases", json=request)
        ready = client.get("/readyz")
    problem_of(answer.status_code, answer.json(), 503, "store-busy")
    problem_of(ready.status_code, ready.json(), 503, "store-busy")
    assert client.get("/readyz").status_code == HTTPStatus.OK


def test_damaged_data_is_500_and_says_nothing_more(client: TestClient, harness: Harness) -> None:
    write_genuine(harness, "key_versions", wrapped=b"\0")
    status, document = ask(client)
    problem_of(status, document, 500, "wrapped-key-invalid")
    harness.alter("UPDATE key_versions SET wrapped = ?", b"\1")
    status, document = ask(client)
    problem_of(status, document, 500, "state-forged")
    assert set(document) == {"type", "title", "status", "detail", "code", "simulated", "request_id"}


def test_a_bug_is_500_without_a_traceback(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def issue(self, *, at: object) -> None:
            raise RuntimeError("a text of ours")

    broken = replace(harness.services, challenges=Broken())  # type: ignore[arg-type]
    with TestClient(create_app(harness.settings, broken), raise_server_exceptions=False) as client:
        answer = client.post("/v1/challenges", json={})
    problem_of(answer.status_code, answer.json(), 500, "internal-error")
    assert "a text of ours" not in answer.text
    assert "a text of ours" in caplog.text
    assert answer.headers["cache-control"] == "no-store"


def test_work_that_takes_too_long_is_503(harness: Harness) -> None:
    answered = threading.Event()

    class Slow:
        def open(self, token: str, *, at: object) -> None:
            answered.wait(60)
            raise RuntimeError("nobody waits for this")

    slow = replace(harness.services, challenges=Slow())  # type: ignore[arg-type]
    impatient = harness.settings.model_copy(update={"request_seconds": 1})
    request = Workload().request(harness.releases.challenge(), "model").to_json()
    with TestClient(create_app(impatient, slow), raise_server_exceptions=False) as client:
        answer = client.post("/v1/releases", json=request)
        answered.set()
    problem_of(answer.status_code, answer.json(), 503, "request-timeout")


def test_unknown_routes_and_methods_are_problems(client: TestClient) -> None:
    for method, path in [("GET", "/"), ("POST", "/v1/keys"), ("POST", "/v1/releases/"), ("GET", "/docs")]:
        answer = client.request(method, path)
        problem_of(answer.status_code, answer.json(), 404, "route-unknown")
    for method, path in ROUTES:
        other = "GET" if method == "POST" else "POST"
        answer = client.request(other, path)
        problem_of(answer.status_code, answer.json(), 405, "method-not-allowed")
        assert answer.headers["allow"] == method


# -- bodies


@pytest.mark.parametrize("path", ["/v1/challenges", "/v1/releases"])
@pytest.mark.parametrize(
    ("content", "headers", "refusal"),
    [
        (b"{}", {"Content-Type": "text/plain"}, (415, "media-type-unsupported")),
        (b"{}", {}, (415, "media-type-unsupported")),
        (b"{}", {"Content-Type": "application/json; charset=latin-1"}, (415, "media-type-unsupported")),
        (b"{}", JSON | {"Content-Encoding": "gzip"}, (415, "media-type-unsupported")),
        (b"", JSON, (400, "request-malformed")),
        (b"{", JSON, (400, "request-malformed")),
        (b"\xff", JSON, (400, "request-malformed")),
        (b"{} {}", JSON, (400, "request-malformed")),
        (b'{"a": 1, "a": 2}', JSON, (400, "request-malformed")),
        (b'{"a": NaN}', JSON, (400, "request-malformed")),
        (b'{"a": ' + b"9" * 900 + b"}", JSON, (422, "request-schema")),
        (b'{"a": "\\ud800"}', JSON, (400, "request-malformed")),
        (b"[" * 400 + b"]" * 400, JSON, (400, "request-malformed")),
        (b"[]", JSON, (422, "request-schema")),
        (b"null", JSON, (422, "request-schema")),
        (b'{"a": 1}', JSON, (422, "request-schema")),
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_refused(
    client: TestClient, path: str, content: bytes, headers: dict[str, str], refusal: tuple[int, str]
) -> None:
    answer = client.post(path, content=content, headers=headers)
    problem_of(answer.status_code, answer.json(), *refusal)


@pytest.mark.parametrize(
    "changes",
    [
        {"keys": []},
        {"keys": ["model", "model"]},
        {"keys": ["../model"]},
        {"keys": ["MODEL"]},
        {"keys": "model"},
        {"keys": [1]},
        {"keys": None},
        {"keys": [f"k{number}" for number in range(17)]},
        {"challenge": 1},
        {"challenge": None},
        {"challenge": "A" * 1000},
        {"evidence": "text"},
        {"evidence": None},
        {"more": 1},
    ],
)
def test_mc_34_a_request_of_another_shape_is_422(client: TestClient, changes: dict[str, JsonValue]) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    answer = client.post("/v1/releases", json={**request, **changes})
    problem_of(answer.status_code, answer.json(), 422, "request-schema")


@pytest.mark.parametrize("name", ["challenge", "evidence", "keys"])
def test_a_request_without_a_member_is_422(client: TestClient, name: str) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    answer = client.post("/v1/releases", json={key: value for key, value in request.items() if key != name})
    problem_of(answer.status_code, answer.json(), 422, "request-schema")


@pytest.mark.parametrize(
    "evidence", [{}, [], {"cpu": []}, {"cpu": ["text/plain", "!"]}, {"cpu": {"a": {"b": {"c": {}}}}}]
)
def test_an_envelope_that_is_none_is_400(client: TestClient, evidence: JsonValue) -> None:
    request = Workload().request(challenge_of(client), "model").to_json()
    answer = client.post("/v1/releases", json={**request, "evidence": evidence})
    assert answer.status_code == HTTPStatus.BAD_REQUEST
    ProblemModel.model_validate(answer.json())


def test_a_body_may_be_as_long_as_the_limit_and_not_a_byte_longer(harness: Harness) -> None:
    small = harness.settings.model_copy(update={"max_body_bytes": 4096})
    with TestClient(create_app(small, harness.services), raise_server_exceptions=False) as client:
        for size, status, code in ((4096, 422, "request-schema"), (4097, 413, "body-too-large")):
            body = b'{"a":"' + b"x" * (size - 8) + b'"}'
            assert len(body) == size
            answer = client.post("/v1/releases", content=body, headers=JSON)
            problem_of(answer.status_code, answer.json(), status, code)
            pieces = (body[at : at + 100] for at in range(0, size, 100))
            answer = client.post("/v1/releases", content=pieces, headers=JSON)
            problem_of(answer.status_code, answer.json(), status, code)


@pytest.mark.parametrize(
    "body", [b"[" + b"0," * 200_000 + b"0]", b"[" * 60 + b"[]," * 200_000, b'{"a":"' + b"[" * 200_000 + b'"}']
)
def test_a_body_of_more_values_than_any_evidence_has_is_refused_before_it_is_parsed(
    client: TestClient, body: bytes
) -> None:
    answer = client.post("/v1/releases", content=body, headers=JSON)
    problem_of(answer.status_code, answer.json(), 400, "request-malformed")
    assert "more than 10000 values" in answer.json()["detail"]


def test_requests_whose_bodies_never_end_make_room_for_those_that_do(harness: Harness) -> None:
    """Sixty of them took a gigabyte; now the oldest is answered 503, and a release is decided meanwhile."""
    tight = harness.settings.model_copy(update={"max_bodies_bytes": 64 * 1024, "max_body_bytes": 32 * 1024})
    statuses: list[int] = []

    async def scenario() -> None:
        app = create_app(tight, harness.services)

        async def endless() -> AsyncIterator[bytes]:
            yield b"[" + b" " * 20_000
            await held.wait()
            yield b"]"

        async def hold() -> None:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kms") as http:
                answer = await http.post("/v1/releases", content=endless(), headers=JSON)
                statuses.append(answer.status_code)
                if answer.status_code == 503:
                    assert answer.json()["code"] == "too-busy"
                    assert answer.headers["Retry-After"] == "1"

        held = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            assert statuses == [503] * 7
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kms") as http:
                assert (await http.post("/v1/challenges", json={})).status_code == 200
            held.set()

    anyio.run(scenario)
    assert sorted(statuses) == [422] * 3 + [503] * 7


@pytest.mark.parametrize("length", ["99999999999999999999999999", "16777217"])
def test_a_length_that_is_declared_too_great_is_not_waited_for(client: TestClient, length: str) -> None:
    answer = client.post("/v1/releases", content=b"{}", headers=JSON | {"Content-Length": length})
    problem_of(answer.status_code, answer.json(), 413, "body-too-large")


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "challenge": st.text(max_size=120) | _JSON_VALUES,
        "evidence": _JSON_VALUES
        | st.dictionaries(st.text(max_size=8), st.lists(_JSON_VALUES, max_size=4), min_size=1, max_size=3),
        "keys": st.lists(st.text(max_size=10), max_size=3) | _JSON_VALUES,
        "other": _JSON_VALUES,
    },
)
_BODIES = st.binary(max_size=300) | (_JSON_VALUES | _REQUESTS).map(lambda value: json.dumps(value).encode())
_HEADERS = st.sampled_from([JSON, {}, {"Content-Type": "text/plain"}, JSON | {"Content-Length": "3"}])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(ROUTES), method=st.sampled_from(["", "PUT", "DELETE"]), body=_BODIES, headers=_HEADERS)
def test_any_body_at_all_gets_an_answer_that_is_documented(
    client: TestClient, route: tuple[str, str], method: str, body: bytes, headers: dict[str, str]
) -> None:
    answer = client.request(method or route[0], route[1], content=body, headers=headers)
    assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    if answer.status_code != HTTPStatus.OK:
        ProblemModel.model_validate(answer.json())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=_REQUESTS, data=st.data())
def test_a_request_with_anything_in_a_members_place_gets_an_answer_that_is_documented(
    client: TestClient, document: dict[str, JsonValue], data: st.DataObject
) -> None:
    good = Workload().request(challenge_of(client), "model").to_json()
    kept = data.draw(st.sets(st.sampled_from(sorted(good))))
    answer = client.post("/v1/releases", json={**document, **{name: good[name] for name in kept}})
    assert answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    if answer.status_code != HTTPStatus.OK:
        ProblemModel.model_validate(answer.json())


# -- the document


def test_the_openapi_document_is_the_one_that_is_checked_in() -> None:
    checked_in = (REPOSITORY / "docs" / "openapi.json").read_text(encoding="utf-8")
    assert document_text() == checked_in, "run `make openapi`"


def test_every_route_is_in_the_document_with_a_stable_name() -> None:
    paths = json.loads(document_text())["paths"]
    named = {
        (method.upper(), path): member["operationId"] for path, item in paths.items() for method, member in item.items()
    }
    assert named == {
        ("POST", "/v1/challenges"): "createChallenge",
        ("POST", "/v1/releases"): "createRelease",
        ("GET", "/v1/identity"): "readIdentity",
        ("GET", "/v1/prompt-keys"): "listPromptKeys",
        ("GET", "/v1/prompt-keys/{tenant}/{key}"): "readPromptKey",
        ("GET", "/v1/attestation"): "readAttestation",
        ("GET", "/v1/log/checkpoint"): "readCheckpoint",
        ("GET", "/v1/log/tile/{path}"): "readTile",
        ("GET", "/v1/log/proof/inclusion"): "readInclusionProof",
        ("GET", "/v1/log/proof/consistency"): "readConsistencyProof",
        ("GET", "/healthz"): "readHealth",
        ("GET", "/readyz"): "readReadiness",
    }


def test_every_status_of_the_table_is_documented_for_releases() -> None:
    documented = json.loads(document_text())["paths"]["/v1/releases"]["post"]["responses"]
    of_limits = {"414", "429", "431"}
    assert {str(int(status)) for _, status in STATUS} | of_limits | {"200"} == set(documented)


def test_a_strict_service_says_nothing_of_simulation(tmp_path: Path) -> None:
    harness = Harness.make(tmp_path, allow_simulated=False)
    harness.add_key("model", policy=policy_text())
    with client_of(harness) as client:
        assert client.get("/healthz").json() == {"status": "ok", "simulated": False}
        status, document = ask(client)
    assert (status, document["code"]) == (403, "simulated-root-refused")
    assert "simulated" not in document
    harness.close()
