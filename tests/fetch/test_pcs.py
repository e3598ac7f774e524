"""The client of Intel's provisioning certification service, and of a PCCS: an answer is body and issuer chain."""

from dataclasses import replace
from urllib.parse import quote, unquote

import pytest

from attest.endorsements.intel_answers import MAX_CHAIN_BYTES, intel_answer_bytes, parse_intel_crl, parse_intel_document
from attest.endorsements.requests import (
    AmdCrlRequest,
    EndorsementRequest,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
)
from attest.endorsements.x509 import MAX_CRL_BYTES
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import PCS_URL, FetchClocks, KdsClient, PcsClient
from attest.fetch.answers import describe, read_answer
from attest.fetch.client import MAX_ATTEMPTS
from attest.fetch.pcs import PCS_ROOT_CRL_URL
from attest_simulator.intel import SIMULATED_FMSPC, SimulatedPcs
from tests.fetch.conftest import AT, PLATFORM, Reply, Server, Watch, simulated_pcs

TDX_INFO = IntelTcbInfoRequest(tee="tdx", fmspc=SIMULATED_FMSPC)
SGX_INFO = IntelTcbInfoRequest(tee="sgx", fmspc=SIMULATED_FMSPC)
TD_QE = IntelQeIdentityRequest(tee="tdx")
QE = IntelQeIdentityRequest(tee="sgx")
PLATFORM_CRL = IntelPckCrlRequest(ca="platform")
PROCESSOR_CRL = IntelPckCrlRequest(ca="processor")
ROOT_CRL = IntelRootCrlRequest()
ALL = (TDX_INFO, SGX_INFO, TD_QE, QE, PLATFORM_CRL, PROCESSOR_CRL, ROOT_CRL)
FMSPC = SIMULATED_FMSPC.hex()


def quiet(_: str) -> None:
    """Say nothing."""


def client_of(**arguments: object) -> PcsClient:
    return PcsClient(timing=FetchClocks(now=lambda: AT), **arguments)  # type: ignore[arg-type]  # the test's keywords


def refused(client: PcsClient, request: EndorsementRequest = TDX_INFO) -> EndorsementError:
    with pytest.raises(EndorsementError) as raised:
        client.get(request, progress=quiet)
    assert raised.value.exit_code == 5
    assert raised.value.hint
    return raised.value


# -- addresses


@pytest.mark.parametrize(
    ("request_", "address"),
    [
        (TDX_INFO, f"{PCS_URL}/tdx/certification/v4/tcb?fmspc={FMSPC}"),
        (SGX_INFO, f"{PCS_URL}/sgx/certification/v4/tcb?fmspc={FMSPC}"),
        (TD_QE, f"{PCS_URL}/tdx/certification/v4/qe/identity"),
        (QE, f"{PCS_URL}/sgx/certification/v4/qe/identity"),
        (PLATFORM_CRL, f"{PCS_URL}/sgx/certification/v4/pckcrl?ca=platform&encoding=der"),
        (PROCESSOR_CRL, f"{PCS_URL}/sgx/certification/v4/pckcrl?ca=processor&encoding=der"),
        (ROOT_CRL, PCS_ROOT_CRL_URL),
    ],
    ids=lambda value: "" if isinstance(value, str) else describe(value),
)
def test_addresses_are_those_of_intels_service(request_: EndorsementRequest, address: str) -> None:
    assert client_of().url_of(request_) == address


def test_a_pccs_has_the_same_addresses_and_the_list_of_the_root() -> None:
    pccs = client_of(base_url="https://pccs.example:8081/")
    assert pccs.url_of(TD_QE) == "https://pccs.example:8081/tdx/certification/v4/qe/identity"
    assert pccs.url_of(ROOT_CRL) == "https://pccs.example:8081/sgx/certification/v4/rootcacrl"


def test_the_early_evaluation_is_asked_for_by_name_and_cached_apart() -> None:
    early = client_of(update="early")
    assert early.url_of(TDX_INFO).endswith(f"/tcb?fmspc={FMSPC}&update=early")
    assert early.url_of(QE).endswith("/qe/identity?update=early")
    assert early.url_of(PLATFORM_CRL) == client_of().url_of(PLATFORM_CRL)
    assert client_of().service == PCS_URL
    assert early.service != client_of().service


def test_a_request_for_the_service_of_another_vendor_is_a_programmers_error() -> None:
    with pytest.raises(TypeError, match="AmdCrlRequest"):
        client_of().url_of(AmdCrlRequest(product="Milan", kind="vcek"))
    with pytest.raises(TypeError, match="IntelRootCrlRequest"):
        KdsClient(timing=FetchClocks(now=lambda: AT)).url_of(ROOT_CRL)


@pytest.mark.parametrize("url", ["", "pccs.example", "http://pccs.example", "https://user@pccs.example", "https://x?y"])
def test_an_address_that_leads_elsewhere_or_is_unprotected_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        client_of(base_url=url)
    assert raised.value.code == "pcs-url-invalid"


# -- answers


@pytest.mark.loopback
@pytest.mark.parametrize("request_", ALL, ids=describe)
def test_an_answer_comes_with_its_issuer_chain_and_is_what_was_asked_for(
    server: Server, pcs: PcsClient, request_: EndorsementRequest
) -> None:
    told: list[str] = []
    data = pcs.get(request_, progress=told.append)
    answer = read_answer(request_, data, source=pcs.url_of(request_))
    assert len(answer.certificates) == (0 if request_ == ROOT_CRL else 2)
    assert answer.is_current(AT)
    assert told == [f"fetching the {describe(request_)} from {server.url}"]


@pytest.mark.loopback
@pytest.mark.parametrize("name", ["TCB-Info-Issuer-Chain", "SGX-TCB-Info-Issuer-Chain", "sgx-tcb-info-issuer-chain"])
def test_both_spellings_of_the_header_count(server: Server, pcs: PcsClient, name: str) -> None:
    whole = simulated_pcs()("/tdx/certification/v4/tcb", f"fmspc={FMSPC}")
    chain = next(value for header, value in whole.headers if "Chain" in header)
    server.queue = [Reply(body=whole.body, headers=((name, chain),))]
    _, certificates = parse_intel_document(pcs.get(TDX_INFO, progress=quiet), kind="tcb-info")
    assert len(certificates) == 2


@pytest.mark.loopback
@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("SGX-Enclave-Identity-Issuer-Chain", "-----BEGIN%20CERTIFICATE-----"),),
        (("TCB-Info-Issuer-Chain", ""),),
        (("TCB-Info-Issuer-Chain", "garbage"),),
        (("TCB-Info-Issuer-Chain", "-----BEGIN CERTIFICATE-----"),),
        (("TCB-Info-Issuer-Chain", "-----BEGIN%20CERTIFICATE-----" + "A" * MAX_CHAIN_BYTES),),
    ],
    ids=["none", "of another document", "empty", "garbage", "not encoded", "too long"],
)
def test_an_answer_without_its_issuer_chain_is_none(
    server: Server, pcs: PcsClient, headers: tuple[tuple[str, str], ...]
) -> None:
    server.queue = [Reply(body=b"{}", headers=headers)]
    error = refused(pcs)
    assert (error.code, error.retryable) == ("pcs-answer-invalid", False)
    assert "TCB-Info-Issuer-Chain" in error.message


@pytest.mark.loopback
def test_a_list_may_come_as_der_padded_der_or_hex(server: Server, pcs: PcsClient) -> None:
    der = SimulatedPcs.of(PLATFORM, at=AT).answer("/IntelSGXRootCA.der").body
    server.queue = [
        Reply(body=body) for body in (der, der + b"\0", der.hex().encode(), der.hex().upper().encode() + b"\n")
    ]
    for _ in range(4):
        crl, chain = parse_intel_crl(pcs.get(ROOT_CRL, progress=quiet))
        assert (crl.der, chain) == (der, ())


@pytest.mark.loopback
def test_an_answer_may_be_as_long_as_its_kind_allows_and_no_byte_longer(server: Server, pcs: PcsClient) -> None:
    server.queue = [Reply(body=bytes(2 * MAX_CRL_BYTES + 1))]
    assert refused(pcs, ROOT_CRL).code == "pcs-answer-invalid"


# -- refusals


@pytest.mark.loopback
def test_an_fmspc_that_the_service_does_not_know_is_named(server: Server, pcs: PcsClient, watch: Watch) -> None:
    error = refused(pcs, IntelTcbInfoRequest(tee="tdx", fmspc=bytes.fromhex("00906ed50000")))
    assert (error.code, error.retryable) == ("pcs-not-found", False)
    assert "fmspc=00906ed50000" in error.message
    assert (len(server.requests), watch.slept) == (1, [])


@pytest.mark.loopback
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_waited_for_as_long_as_it_says(
    server: Server, pcs: PcsClient, watch: Watch, status: int
) -> None:
    server.queue = [Reply(status=status, headers=(("Retry-After", "7"),))]
    assert pcs.get(TDX_INFO, progress=quiet)
    assert watch.slept == [7.0]
    server.answering = lambda path, query: Reply(status=status)
    error = refused(pcs)
    assert (error.code, error.retryable) == ("pcs-throttled", True)
    assert len(server.requests) == 2 + MAX_ATTEMPTS


@pytest.mark.loopback
def test_an_unwell_service_is_out_of_reach_and_a_redirect_is_not_followed(server: Server, pcs: PcsClient) -> None:
    server.queue = [Reply(status=502)] * MAX_ATTEMPTS
    assert refused(pcs).code == "pcs-unreachable"
    server.queue = [Reply(status=302, headers=(("Location", f"{server.url}/elsewhere"),))]
    assert refused(pcs).code == "pcs-answer-invalid"
    assert not any("elsewhere" in path for path in server.requests)


@pytest.mark.loopback
def test_closing_is_temporary(server: Server, pcs: PcsClient) -> None:
    assert pcs.get(TD_QE, progress=quiet)
    pcs.close()
    assert pcs.get(TD_QE, progress=quiet)


# -- what an answer says of itself


def body_of(path: str, query: str) -> tuple[bytes, bytes]:
    reply = simulated_pcs()(path, query)
    chain = next(unquote(value) for header, value in reply.headers if "Chain" in header)
    return reply.body, chain.encode()


def read_refused(request: EndorsementRequest, data: bytes) -> str:
    with pytest.raises(EndorsementError) as raised:
        read_answer(request, data, source="https://pcs.example/x")
    assert raised.value.code == "pcs-answer-invalid"
    return raised.value.message


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("asked", "got"),
    [(asked, got) for asked in ALL for got in ALL if asked != got],
    ids=lambda request: describe(request)[:24],
)
def test_an_answer_to_another_request_is_refused(
    pcs: PcsClient, asked: EndorsementRequest, got: EndorsementRequest
) -> None:
    read_refused(asked, pcs.get(got, progress=quiet))


@pytest.mark.loopback
def test_the_tcb_info_of_another_platform_is_refused(pcs: PcsClient) -> None:
    data = pcs.get(TDX_INFO, progress=quiet)
    assert FMSPC in read_refused(replace(TDX_INFO, fmspc=b"\0" * 6), data)


def test_a_document_or_list_of_another_signer_than_its_chain_is_refused() -> None:
    info, signing = body_of("/tdx/certification/v4/tcb", f"fmspc={FMSPC}")
    crl, ca = body_of("/sgx/certification/v4/pckcrl", "ca=platform&encoding=der")
    assert read_answer(TDX_INFO, intel_answer_bytes(info, issuer_chain=signing), source="x").documents
    assert read_answer(PLATFORM_CRL, intel_answer_bytes(crl, issuer_chain=ca), source="x").crls
    assert "none of its issuer chain signed" in read_refused(TDX_INFO, intel_answer_bytes(info, issuer_chain=ca))
    for chain in (b"", body_of("/sgx/certification/v4/pckcrl", "ca=processor&encoding=der")[1].split(b"-----END")[0]):
        read_refused(PLATFORM_CRL, intel_answer_bytes(crl, issuer_chain=chain))
    altered = info.replace(b'"version":3', b'"version": 3')
    assert altered != info
    assert "signed" in read_refused(TDX_INFO, intel_answer_bytes(altered, issuer_chain=signing))
    unreadable = info.replace(b'"version":3', b'"version":9')
    read_refused(TDX_INFO, intel_answer_bytes(unreadable, issuer_chain=signing))


def test_garbage_is_a_documented_refusal() -> None:
    for request in ALL:
        for data in (b"", b"<html>welcome</html>", quote("{}").encode(), bytes(2 * 1024 * 1024)):
            read_refused(request, data)
