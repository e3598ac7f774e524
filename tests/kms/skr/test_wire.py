"""The wire of a vault: the challenge, the spellings of a path, permissions, and the shape of every refusal."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from attest.results import TokenKey, verify_token
from attest.results.jose import SignedToken
from kms.api.app import create_app
from kms.api.observation import Watching
from tests.kms.skr.face import HOST, VERSION, Face, creation, face_of, release_policy
from tests.kms.skr.test_releases import RELEASED, inner
from tests.kms.skr.vault import LOGIN, Workload, public_jwk, rsa_key, write_vault
from tests.kms.support import AT

CHALLENGE = f'Bearer authorization="{LOGIN}", resource="https://localhost:8443"'


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with face_of(tmp_path_factory.mktemp("wire")) as made:
        made.create()
        yield made


# -- the challenge


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/keys/k9/create"),
        ("GET", "/keys/k1/"),
        ("POST", "/keys/k1//release"),
        ("GET", "/keys"),
        ("PUT", "/keys/a_"),
    ],
)
def test_a_request_without_a_token_gets_the_challenge_before_anything_else(face: Face, method: str, path: str) -> None:
    for url in (f"{path}?{VERSION}", path):
        answer = face.http.request(method, url, headers={"Content-Length": "0"})
        assert answer.status_code == 401
        assert answer.headers.get_list("www-authenticate") == [CHALLENGE]
        error = answer.json()["error"]
        assert (error["code"], error["message"][:9]) == ("Unauthorized", "AKV10000:")


def test_a_token_that_does_not_count_gets_the_challenge(face: Face) -> None:
    now = int(AT.timestamp())
    tokens = {
        "skr-token-unverified": [
            face.bearer(audience="https://other"),
            face.bearer(iss="https://evil"),
            face.bearer()[:-4] + "AAAA",
            Workload().token(AT),
            "text",
        ],
        "skr-token-expired": [
            face.bearer(exp=now),
            face.bearer(nbf=now + 61),
            face.bearer(exp="never"),
            face.bearer(nbf=None, exp=True),
        ],
        "skr-token-missing": ["a" * (16 * 1024 + 1)],
    }
    for code, several in tokens.items():
        for token in several:
            answer = face.ask("GET", "/keys/k1", token=token)
            assert (answer.status_code, inner(answer)) == (401, code)
            assert answer.headers["www-authenticate"] == CHALLENGE
    for header in ("Basic abc", "Bearer", ""):
        assert face.http.get(f"/keys/k1?{VERSION}", headers={"Authorization": header}).status_code == 401
    assert face.ask("GET", "/keys/k1", token=face.bearer(nbf=now + 60)).status_code == 200
    lower = {"Authorization": f"bearer {face.bearer()}"}
    assert face.http.get(f"/keys/k1?{VERSION}", headers=lower).status_code == 200


def test_one_key_is_tried_for_a_token_and_not_in_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key sets are long while an issuer rotates its keys, and anyone can send a token with a wrong signature."""
    tried: list[tuple[str, ...]] = []

    def counted(token: str, *, keys: tuple[TokenKey, ...], **more: Any) -> SignedToken:  # noqa: ANN401  arguments
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        tried.append(tuple(key.kid for key in keys))
        return verify_token(token, keys=keys, **more)

    rules = write_vault(tmp_path, at=AT)
    rest = [public_jwk(rsa_key("other"), kid=f"other-{number}") for number in range(20)]
    keys = json.dumps({"keys": [*rest, public_jwk(rsa_key("login"), kid="login-1")]})
    (tmp_path / "login.jwks.json").write_text(keys)
    monkeypatch.setattr("kms.api.skr.callers.verify_token", counted)
    with face_of(tmp_path, rules=rules) as made:
        assert made.ask("GET", "/keys/k9", token=made.bearer()).status_code == 404
        for wrong in (made.bearer()[:-4] + "AAAA", made.bearer(kid="other-3"), made.bearer(kid="nosuch")):
            assert inner(made.ask("GET", "/keys/k9", token=wrong)) == "skr-token-unverified"
        assert len(tried) == 4
        made.ask("GET", "/keys/k9", token=made.bearer(iss="https://evil.example"))
        made.ask("GET", "/keys/k9", token=made.bearer(audience="https://other.example"))
        assert len(tried) == 4


def test_a_caller_does_what_its_roles_and_its_application_permit(face: Face) -> None:
    reader, workload = face.bearer(role="reader"), face.bearer(role="none", appid="workload-1")
    assert face.ask("GET", "/keys/k1", token=reader).status_code == 200
    target = {"target": Workload().token(AT)}
    assert face.ask("POST", "/keys/k1/release", target, token=workload).status_code == RELEASED
    by_azp = face.bearer(role="none", azp="workload-1")
    assert face.ask("POST", "/keys/k1/release", target, token=by_azp).status_code == RELEASED
    for method, path, token in (
        ("GET", "/keys/k1", workload),
        ("GET", "/keys", reader),
        ("GET", "/keys/k1/versions", reader),
        ("POST", "/keys/k1/release", reader),
        ("POST", "/keys/k2/create", reader),
        ("PUT", "/keys/k2", reader),
        ("PATCH", "/keys/k1", reader),
        ("POST", "/keys/k1/rotate", reader),
        ("DELETE", "/keys/k1", reader),
        ("GET", "/keys/k1", face.bearer(role="none")),
        ("POST", "/keys/k1/release", face.bearer(role="none", appid="workload-1", scp="user_impersonation")),
        ("GET", "/keys/k1", face.bearer(roles="officer")),
    ):
        answer = face.ask(method, path, b"not looked at", token=token)
        assert (answer.status_code, inner(answer)) == (403, "skr-permission-missing")


def test_two_callers_have_two_names_in_the_log(face: Face) -> None:
    callers: tuple[dict[str, str], ...] = (
        {"sub": "workload-1"},
        {"sub": "", "appid": "workload-1"},
        {"sub": "someone", "appid": "workload-1"},
        {"sub": "s" * 300 + "1"},
        {"sub": "s" * 300 + "2"},
    )
    names = set[str]()
    for claims in callers:
        target = {"target": Workload().token(AT)}
        assert face.ask("POST", "/keys/k1/release", target, token=face.bearer(**claims)).status_code == RELEASED
        last: Any = face.harness.decisions()[-1]
        names.add(last["asked_by"]["name"])
    assert len(names) == len(callers)


# -- addresses


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/keys/k1//release", "api-version=2025-07-01"),
        ("/keys/k1/release", "api%2Dversion=2025-07-01"),
        ("/keys/k1/release", "api-version=7.6"),
        ("/keys//k1/release/", "api-version=7.3"),
    ],
)
def test_each_spelling_of_a_release_arrives(face: Face, path: str, query: str) -> None:
    answer = face.ask("POST", path, {"target": Workload().token(AT)}, query=query)
    assert answer.status_code == RELEASED
    payload, _ = Workload().open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
    assert payload["request"]["api-version"] == query.partition("=")[2]
    assert payload["request"]["kid"] == "https://v1.localhost:8443/keys/k1"


@pytest.mark.parametrize("query", ["", "api-version=7.2", "api-version=7.3-preview", "api-version", "api-version=7.4 "])
def test_another_version_of_the_protocol_is_refused(face: Face, query: str) -> None:
    answer = face.ask("GET", "/keys/k1", query=query)
    assert (answer.status_code, inner(answer)) == (400, "skr-api-version-unsupported")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/keys/k1/nosuch", 404, "key-unknown"),
        ("POST", "/keys/k1/nosuch", 404, "key-unknown"),
        ("GET", "/keys/nosuch", 404, "key-unknown"),
        ("GET", f"/keys/k1/{'0' * 32}", 404, "key-unknown"),
        ("POST", f"/keys/k1/{'0' * 32}/release", 404, "key-unknown"),
        ("GET", "/keys/%6b1", 400, "skr-name-invalid"),
        ("GET", "/keys/k1%2F", 400, "skr-name-invalid"),
        ("GET", f"/keys/k1/{'0' * 32}/x", 404, "route-unknown"),
        ("GET", f"/keys/k1/{'0' * 32}/versions", 404, "route-unknown"),
        ("GET", "/keys/a/b/c/d/e", 404, "route-unknown"),
        ("POST", "/keys/k1", 405, "method-not-allowed"),
        ("POST", "/keys", 405, "method-not-allowed"),
        ("OPTIONS", "/keys/k1/release", 405, "method-not-allowed"),
        ("GET", "/keys/k1/release", 405, "method-not-allowed"),
        ("PUT", f"/keys/k1/{'0' * 32}", 405, "method-not-allowed"),
    ],
)
def test_an_address_or_a_method_that_there_is_not(face: Face, method: str, path: str, status: int, code: str) -> None:
    answer = face.ask(method, path)
    assert (answer.status_code, inner(answer)) == (status, code)
    assert ("allow" in answer.headers) is (status == 405)


def test_another_host_is_no_vault(face: Face) -> None:
    for host in ("v2.localhost:8443", "localhost", ""):
        answer = face.ask("GET", "/keys/k1", headers={"Host": host})
        assert (answer.status_code, inner(answer)) == (404, "skr-vault-unknown")
    assert face.ask("GET", "/keys/k1", headers={"Host": "V1.LocalHost:8443"}).status_code == 200


def test_the_default_port_is_no_part_of_a_vaults_name(tmp_path: Path) -> None:
    with face_of(tmp_path, rules=write_vault(tmp_path, at=AT, host="v1.localhost")) as face:
        token = face.bearer(audience="https://localhost")
        for host in ("v1.localhost", "v1.localhost:443"):
            made = face.ask("POST", f"/keys/k{len(host)}/create", creation(), token=token, headers={"Host": host})
            assert made.json()["key"]["kid"].startswith("https://v1.localhost/keys/k")


# -- refusals before the protocol


def test_limits_refuse_in_the_form_of_the_protocol(face: Face) -> None:
    long_url = face.ask("GET", f"/keys/{'a' * 3000}")
    assert (long_url.status_code, inner(long_url)) == (414, "url-too-long")
    headers = face.ask("GET", "/keys/k1", headers={"x-long": "a" * 40_000})
    assert (headers.status_code, inner(headers)) == (431, "headers-too-large")
    body = face.ask("POST", "/keys/k1/release", b" " * (256 * 1024 + 1))
    assert (body.status_code, inner(body)) == (413, "body-too-large")


def test_a_caller_that_asks_too_often_is_throttled(tmp_path: Path) -> None:
    with face_of(tmp_path, identity_requests_per_second=1, identity_burst=2) as face:
        answers = [face.ask("GET", "/keys/k1") for _ in range(3)]
        assert [one.status_code for one in answers] == [404, 404, 429]
        error = answers[-1].json()["error"]
        assert (error["code"], inner(answers[-1])) == ("Throttled", "rate-limited")
        assert int(answers[-1].headers["retry-after"]) >= 1


def test_an_address_that_sends_too_much_is_throttled(tmp_path: Path) -> None:
    with face_of(tmp_path, client_requests_per_second=1, client_burst=1) as face:
        answers = [face.ask("GET", "/keys/k1") for _ in range(2)]
        assert (answers[1].status_code, answers[1].json()["error"]["code"]) == (429, "Throttled")


def test_a_bug_is_refused_in_the_form_of_the_protocol(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kms.api.skr.app.list_of", fails)
    answer = face.ask("GET", "/keys")
    assert (answer.status_code, inner(answer)) == (500, "internal-error")
    assert answer.json()["error"]["code"] == "InternalServerError"


def test_outcomes_of_releases_are_counted(face: Face) -> None:
    counted: list[tuple[str, int]] = []
    watching = Watching(answered=lambda route, status, _: counted.append((route, status)))
    app = create_app(face.harness.settings, face.harness.services, watching=watching)
    with TestClient(app, base_url=f"https://{HOST}") as http:
        headers = {"Authorization": f"Bearer {face.bearer()}"}
        assert http.get(f"/keys?{VERSION}", headers=headers).status_code == 200
        assert http.get(f"/keys/k1/?{VERSION}", headers=headers).status_code == 200
    assert [status for _, status in counted] == [200, 200]


# -- bodies of releases


@pytest.mark.parametrize(
    "change",
    [
        {"target": None},
        {"target": ""},
        {"target": 7},
        {"target": "a" * (64 * 1024 + 1)},
        {"target": "ä"},
        {"nonce": 7},
        {"nonce": "a" * 257},
        {"enc": "none"},
        {"enc": 1},
        {"more": 1},
    ],
)
def test_a_malformed_release_is_refused_and_decides_nothing(face: Face, change: dict[str, Any]) -> None:
    before = len(face.harness.decisions())
    answer = face.ask("POST", "/keys/k1/release", {"target": Workload().token(AT), **change})
    assert (answer.status_code, inner(answer)) == (400, "skr-body-invalid")
    assert len(face.harness.decisions()) == before


def test_the_longest_nonce_is_echoed(face: Face) -> None:
    answer = face.release(nonce="ä" * 256)
    payload, _ = Workload().open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
    assert payload["request"]["nonce"] == "ä" * 256


# -- any request

METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]
SEGMENTS = ["k1", "k2", "create", "release", "rotate", "versions", "rotationpolicy", "", "0" * 32, "%2e", "a_b"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=12), inside, max_size=3),
    max_leaves=8,
)
MEMBERS = """kty key_size crv key_ops attributes tags release_policy public_exponent key hsm Hsm target nonce enc data
contentType immutable exportable enabled nbf exp n e d p q dp dq qi k x y"""
NAMES = st.sampled_from(MEMBERS.split())
IMPORTED = {"kty": "oct", "k": "AAAA"}
GOOD = st.sampled_from(
    [
        "RSA",
        "EC",
        "oct",
        "P-256",
        2048,
        True,
        {"exportable": True},
        release_policy(),
        ["sign"],
        {"kty": "oct", "k": "AAAA"},
    ]
)
INNER = st.dictionaries(NAMES, VALUES | GOOD, max_size=4)
OBJECTS = st.dictionaries(NAMES, VALUES | GOOD | INNER, max_size=6)
BODIES = st.binary(max_size=60) | OBJECTS.map(lambda document: json.dumps(document).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    method=st.sampled_from(METHODS),
    segments=st.lists(st.sampled_from(SEGMENTS), max_size=5),
    body=BODIES,
    authorised=st.booleans(),
    query=st.sampled_from([VERSION, "", "api-version=1"]),
)
def test_any_request_gets_an_answer_of_the_protocol(
    face: Face, method: str, segments: list[str], body: bytes, *, authorised: bool, query: str
) -> None:
    headers = {"Authorization": f"Bearer {face.bearer()}"} if authorised else {}
    answer = face.http.request(method, "/keys/" + "/".join(segments) + f"?{query}", content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200 and method != "HEAD":
        assert set(answer.json()) == {"error"}
        assert {"code", "message"} <= set(answer.json()["error"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(change=OBJECTS)
def test_any_creation_gets_an_answer_of_the_protocol(face: Face, change: dict[str, Any]) -> None:
    answer = face.ask("POST", "/keys/k1/create", {**creation(kty="EC"), **change})
    assert answer.status_code in {400, 409}, answer.text
    assert inner(answer)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(claims=st.dictionaries(st.sampled_from(["iss", "exp", "x-ms-runtime", "x-ms-attestation-type", "aud"]), VALUES))
def test_any_claims_get_an_answer_of_the_protocol(face: Face, claims: dict[str, Any]) -> None:
    answer = face.release(target=Workload().token(AT, claims))
    assert answer.status_code in {200, 403}, answer.text
    if answer.status_code == 403:
        assert inner(answer) in face.reasons()


def test_a_key_of_a_token_may_have_4096_bits(face: Face) -> None:
    workload = Workload(kek=rsa_key("long kek", 4096))
    answer = face.release(target=workload.token(AT))
    workload.open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
