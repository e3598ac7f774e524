"""The service beside the VM answers what it is asked rightly, and nothing else."""

import base64
import http.client
import json
from urllib.parse import urlsplit

import pytest

from attest.evidence.intel.quote import parse_quote
from attest_simulator.azure import SimulatedImds, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.azure.imds import MAX_BODY_BYTES, QUOTE_PATH, THIM_PATH
from attest_simulator.azure.metadata_service import serving_imds
from attest_simulator.intel.td_report import td_report

SNP_HOST, TDX_HOST = SimulatedSnpHost.of(), SimulatedTdxHost.of()
SNP, TDX = SimulatedImds(host=SNP_HOST), SimulatedImds(host=TDX_HOST)
ASKED = {"metadata": "true"}
JSON = {"content-type": "application/json"}
REPORT = td_report(TDX_HOST.td, bytes(64))


def request_of(report: bytes) -> bytes:
    return json.dumps({"report": base64.urlsafe_b64encode(report).rstrip(b"=").decode()}).encode()


def test_thim_answers_with_the_certificates_of_the_host() -> None:
    answer = SNP.get(THIM_PATH, ASKED)
    assert (answer.status, answer.body) == (200, SNP_HOST.certification())
    assert answer.headers["Content-Type"].startswith("application/json")
    assert SNP.get(THIM_PATH, {"metadata": "True"}) == answer


@pytest.mark.parametrize(
    "headers", [{}, {"metadata": "false"}, {"metadata": ""}, {**ASKED, "x-forwarded-for": "203.0.113.1"}]
)
def test_a_request_that_a_proxy_might_have_made_is_refused(headers: dict[str, str]) -> None:
    assert SNP.get(THIM_PATH, headers).status == 400


@pytest.mark.parametrize(("service", "path"), [(SNP, "/"), (SNP, "/metadata/instance"), (TDX, THIM_PATH)])
def test_what_it_does_not_have_is_404(service: SimulatedImds, path: str) -> None:
    assert service.get(path, ASKED).status == 404


def test_a_tdreport_becomes_a_quote() -> None:
    answer = TDX.post(QUOTE_PATH, JSON, request_of(REPORT))
    assert answer.status == 200
    text = json.loads(answer.body)["quote"]
    quote = base64.urlsafe_b64decode(text + "==")
    assert "=" not in text
    assert quote == TDX_HOST.quote(REPORT)
    assert parse_quote(quote).body.report_data == bytes(64)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"report": 1}',
        b'{"report": "*"}',
        request_of(b""),
        request_of(bytes(1024)),
        request_of(REPORT + b"\0"),
        request_of(REPORT)[:-1] + b', "more": 1}',
    ],
)
def test_what_is_no_tdreport_of_this_host_is_400(body: bytes) -> None:
    answer = TDX.post(QUOTE_PATH, JSON, body)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]


def test_other_requests_for_quotes_are_refused() -> None:
    body = request_of(REPORT)
    assert SNP.post(QUOTE_PATH, JSON, body).status == 404
    assert TDX.post(THIM_PATH, JSON, body).status == 404
    assert TDX.post(QUOTE_PATH, {}, body).status == 415
    assert TDX.post(QUOTE_PATH, {"content-type": "text/plain"}, body).status == 415
    assert TDX.post(QUOTE_PATH, {"content-type": "application/json; charset=utf-8"}, body).status == 200
    assert TDX.post(QUOTE_PATH, JSON, b" " * MAX_BODY_BYTES + b"1").status == 413


# -- over HTTP


def asked(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body=body or None, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers["Retry-After"]
    finally:
        connection.close()


@pytest.mark.loopback
def test_the_service_answers_over_http() -> None:
    with serving_imds(SNP) as url:
        assert asked(url, "GET", THIM_PATH, {"Metadata": "true"}) == (200, SNP_HOST.certification(), None)
        assert asked(url, "GET", THIM_PATH, {})[0] == 400
    with serving_imds(TDX) as url:
        status, body, _ = asked(url, "POST", QUOTE_PATH, {"Content-Type": "application/json"}, request_of(REPORT))
        assert (status, set(json.loads(body))) == (200, {"quote"})
        assert asked(url, "POST", QUOTE_PATH, {"Content-Type": "application/json"})[0] == 400


@pytest.mark.loopback
def test_a_body_that_is_too_long_is_not_read_to_its_end() -> None:
    with serving_imds(TDX) as url:
        headers = {"Content-Type": "application/json", "Content-Length": str(MAX_BODY_BYTES + 1)}
        assert asked(url, "POST", QUOTE_PATH, headers, b" " * (MAX_BODY_BYTES + 1))[0] == 413


@pytest.mark.loopback
def test_it_can_be_busy_before_it_answers() -> None:
    with serving_imds(SNP, busy=(429, 503)) as url:
        answers = [asked(url, "GET", THIM_PATH, {"Metadata": "true"}) for _ in range(3)]
    assert [(status, after) for status, _, after in answers] == [(429, "1"), (503, None), (200, None)]
