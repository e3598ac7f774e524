"""The wire under any request: no answer but the protocol's, and never a 500."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kms.api.maa.messages import LARGEST_NONCE, MAX_DATA_BYTES, MAX_NONCE_CHARACTERS
from kms.config.settings import Settings
from kms.domain.errors import IntegrityError
from kms.release.attestations import Attestations
from tests.kms.maa.maa_face import Document, MaaFace, b64, maa_face_of, refusal, snp_body

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
PATHS = [
    *("/attest/SevSnpVm", "/attest/TdxVm", "/attest/AzureGuest", "/attest/SgxEnclave", "/attest/", "/attest/a/b"),
    *("/certs", "/.well-known/openid-configuration", "/attest//SevSnpVm", "/attest/SevSnpVm/"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
GOOD = snp_body(nonce="x", initTimeData={"data": "", "dataType": ""})
NAMES = st.sampled_from([*GOOD, "quote", "draftPolicyForAttestation", "data", "dataType", "SnpReport", "VcekCertChain"])
OBJECTS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=4), max_size=6)
CHANGED = OBJECTS.map(lambda changes: {**GOOD, **changes})
BODIES = st.binary(max_size=60) | (OBJECTS | CHANGED).map(lambda document: json.dumps(document).encode())


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaaFace]:
    with maa_face_of(tmp_path_factory.mktemp("wire")) as made:
        yield made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(METHODS),
    path=st.sampled_from(PATHS),
    query=st.sampled_from(["", "?api-version=2022-08-01", "?api-version=1", "?api-version="]),
    body=BODIES,
)
def test_any_request_gets_an_answer_of_the_protocol(
    face: MaaFace, method: str, path: str, query: str, body: bytes
) -> None:
    answer = face.http.request(method, path + query, content=body)
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200 and method != "HEAD":
        document = answer.json()
        assert set(document) == {"error"}
        assert set(document["error"]) == {"code", "message", "innererror"}


# -- addresses


@pytest.mark.parametrize("tee", ["AzureGuest", "azureguest"])
def test_requests_of_the_guest_library_are_refused_by_name(face: MaaFace, tee: str) -> None:
    error = face.refused({"AttestationInfo": "e30"}, 400, "maa-azure-guest-unsupported", tee)["error"]
    assert "AzureGuest" in error["message"]


@pytest.mark.parametrize("tee", ["SgxEnclave", "OpenEnclave", "", "Tpm", "SevSnpVm/more"])
def test_another_address_is_unknown(face: MaaFace, tee: str) -> None:
    face.refused(snp_body(), 404, "route-unknown", tee)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/attest/SevSnpVm"), ("PUT", "/attest/TdxVm"), ("POST", "/certs"), ("DELETE", "/certs")],
)
def test_another_method_is_refused_in_the_same_form(face: MaaFace, method: str, path: str) -> None:
    refusal(face.http.request(method, path), 405, "method-not-allowed")


@pytest.mark.parametrize("version", [None, "", "2022-08-02", "7.4"])
def test_an_unknown_version_is_refused(face: MaaFace, version: str | None) -> None:
    refusal(face.post(snp_body(), version=version), 400, "maa-version-unsupported")


def test_the_native_interface_is_served_beside_it(face: MaaFace) -> None:
    assert face.http.get("/healthz").status_code == 200
    assert face.http.get("/nosuch").json()["code"] == "route-unknown"


# -- bodies


def changed(**members: object) -> Document:
    return {**snp_body(), **members}


GIVEN = {"data": b64(b"{}"), "dataType": "JSON"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "json-invalid"),
        (b"[]", "maa-request-malformed"),
        (b'{"report": "", "report": ""}', "json-invalid"),
        (changed(report=7), "maa-request-malformed"),
        (changed(report="*"), "base64-invalid"),
        (changed(report=b64(b"{}")), "peer-form-malformed"),
        (changed(quote="AAAA"), "maa-request-malformed"),
        (changed(runtimeData=None), "maa-request-malformed"),
        (changed(runtimeData={"data": "", "dataType": "JSON"}), "maa-request-malformed"),
        (changed(runtimeData={"data": "AAAA"}), "maa-request-malformed"),
        (changed(runtimeData={**GIVEN, "more": 1}), "maa-request-malformed"),
        (changed(runtimeData={**GIVEN, "dataType": "json"}), "maa-request-malformed"),
        (changed(runtimeData={**GIVEN, "data": 7}), "maa-request-malformed"),
        (changed(runtimeData={**GIVEN, "data": "*"}), "base64-invalid"),
        (changed(runtimeData={**GIVEN, "data": b64(b"[]")}), "maa-request-malformed"),
        (changed(runtimeData={**GIVEN, "data": b64(b'{"a": 1, "a": 2}')}), "json-invalid"),
        (changed(runtimeData={**GIVEN, "data": b64(bytes(MAX_DATA_BYTES + 1))}), "maa-request-malformed"),
        (changed(initTimeData="x"), "maa-request-malformed"),
        (changed(nonce=-1), "maa-request-malformed"),
        (changed(nonce=LARGEST_NONCE + 1), "maa-request-malformed"),
        (changed(nonce=True), "maa-request-malformed"),
        (changed(nonce="x" * (MAX_NONCE_CHARACTERS + 1)), "maa-request-malformed"),
        (changed(nonce="a\nb"), "maa-request-malformed"),
        (changed(unknown=1), "maa-request-malformed"),
        (changed(draftPolicyForAttestation="version=1.0;"), "maa-draft-policy-unsupported"),
    ],
)
def test_a_body_that_is_not_as_documented_is_refused(face: MaaFace, body: object, code: str) -> None:
    face.refused(body, 400, code)


@pytest.mark.parametrize("nonce", ["x" * MAX_NONCE_CHARACTERS, LARGEST_NONCE, 0])
def test_a_nonce_at_its_limit_is_accepted(face: MaaFace, nonce: object) -> None:
    assert face.post(changed(nonce=nonce)).status_code == 200


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_empty_member_is_none(face: MaaFace, nothing: object) -> None:
    assert face.post(changed(nonce=nothing, draftPolicyForAttestation=nothing)).status_code == 200


# -- limits


def test_refusals_before_routing_have_the_same_form(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"client_requests_per_second": 1, "client_burst": 3}
    assert set(limits) <= set(Settings.model_fields)
    with maa_face_of(tmp_path, **limits) as face:
        for headers in ({"x": "y" * 20_000}, {}):
            for path in ("/attest/SevSnpVm", "/certs"):
                answer = face.http.get(path, headers=headers)
                assert answer.status_code in {HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HTTPStatus.OK, 405, 429}
                if answer.status_code != HTTPStatus.OK:
                    assert set(answer.json()["error"]) == {"code", "message", "innererror"}
        found = [face.http.get("/certs") for _ in range(4)]
        assert found[-1].status_code == HTTPStatus.TOO_MANY_REQUESTS
        assert int(found[-1].headers["Retry-After"]) > 0
        error = refusal(found[-1], 429, "rate-limited")["error"]
        assert (error["code"], "[" in error["message"]) == ("Throttled", False)


# -- failures of the service


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (RuntimeError("a secret detail"), "internal-error"),
        (IntegrityError("a secret detail", code="store-damaged"), "store-damaged"),
    ],
)
def test_a_failure_gives_no_token_and_no_detail(
    face: MaaFace, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(Attestations, "record", fail)
    error = face.refused(snp_body(), 500, code)["error"]
    assert error["code"] == "InternalError"
    assert "secret" not in error["message"]


def test_without_an_endorsement_the_same_request_may_be_sent_again(tmp_path: Path) -> None:
    with maa_face_of(tmp_path, endorsements=()) as face:
        answer = face.post(snp_body())
        refusal(answer, 503, "crl-missing")
        assert answer.headers["Retry-After"] == "1"
        assert face.attested == []
