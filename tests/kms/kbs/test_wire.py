"""The wire under any request: no answer but the protocol's, and never a 500."""

import json
from collections.abc import Iterator

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.kbs.client import Guest
from tests.kms.kbs.face import Face, face_of

METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
SEGMENTS = [
    "auth",
    "attest",
    "resource",
    "resource-policy",
    "attestation-policy",
    "reference-value",
    "nosuch",
    "jwks.json",
    "",
    "default",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = """version tee extra-params init-data runtime-data tee-evidence nonce tee-pubkey policy primary_evidence
additional_evidence policy_id type payload kty crv x y alg"""
NAMES = st.sampled_from(MEMBERS.split())
OBJECTS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=4), max_size=6)
BODIES = st.binary(max_size=60) | OBJECTS.map(lambda document: json.dumps(document).encode())


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with face_of(tmp_path_factory.mktemp("wire")) as made:
        made.allow_all()
        yield made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.tuples(st.sampled_from(METHODS), st.lists(st.sampled_from(SEGMENTS), max_size=5)),
    body=BODIES,
    authorised=st.booleans(),
    cookie=st.none() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40),
)
def test_any_request_gets_an_answer_of_the_protocol(
    face: Face, line: tuple[str, list[str]], body: bytes, *, authorised: bool, cookie: str | None
) -> None:
    headers = {"Authorization": f"Bearer {face.token()}"} if authorised else {}
    headers |= {} if cookie is None else {"Cookie": f"kbs-session-id={cookie}"}
    answer = face.http.request(line[0], "/kbs/v0/" + "/".join(line[1]), content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        assert set(answer.json()) == {"type", "detail"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=OBJECTS)
def test_any_attestation_in_a_good_session_gets_an_answer_of_the_protocol(face: Face, body: dict[str, object]) -> None:
    guest = Guest(face.http)
    good = guest.attestation(guest.auth().json()["nonce"])
    answer = guest.send("POST", "attest", {**good, **body})
    assert answer.status_code in {200, 401}, answer.text
    if answer.status_code == 401:
        assert set(answer.json()) == {"type", "detail"}


def test_the_path_without_a_slash_is_answered_by_the_protocol(face: Face) -> None:
    answer = face.http.get("/kbs/v0")
    assert answer.status_code == 404
    assert set(answer.json()) == {"type", "detail"}


def test_others_verify_tokens_by_the_published_key_set(face: Face) -> None:
    guest = Guest(face.http)
    token = str(guest.attest().json()["token"])
    answer = face.http.get("/kbs/v0/jwks.json")
    keys = jwt.PyJWKSet.from_dict(answer.json())
    (published,) = answer.json()["keys"]
    assert set(published) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, key.key, algorithms=["ES256"], options={"verify_exp": False, "verify_iat": False})
    assert claims["iss"] == face.harness.audience
    assert claims["iss"].startswith(face.harness.settings.origin)
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(token[:-8] + "AAAAAAAA", key.key, algorithms=["ES256"])
    for method, path in (("POST", "jwks.json"), ("GET", "jwks.json/more"), ("GET", "jwks.json/")):
        refused = face.http.request(method, f"/kbs/v0/{path}")
        assert (refused.status_code, set(refused.json())) == (404, {"type", "detail"})
