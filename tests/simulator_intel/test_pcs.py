"""The software PCS and PCCS: right answers to right requests, and refusals that a client can tell apart."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from attest.endorsements.intel import parse_pcs_answer
from attest.endorsements.x509 import parse_crl, pem_blocks
from attest.evidence.intel.tcb_info import parse_tcb_info
from attest_simulator.intel import IntelAuthority, PcsAnswer, SimulatedPcs, SimulatedPlatform
from attest_simulator.intel.certificates import issuer_chain
from attest_simulator.intel.keys import authority_key

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLATFORM = SimulatedPlatform.of()
CLIENT = SimulatedPlatform.of("client", ca=IntelAuthority.PROCESSOR, fmspc=bytes.fromhex("00a067110000"))
PCS = SimulatedPcs.of(PLATFORM, CLIENT, at=AT)
PCCS = SimulatedPcs.of(PLATFORM, at=AT, pccs=True)
SGX, TDX = "/sgx/certification/v4/", "/tdx/certification/v4/"
FMSPC = f"fmspc={PLATFORM.sgx.fmspc.hex()}"
IDENTITY_CHAIN = "SGX-Enclave-Identity-Issuer-Chain"


def require_chain(answer: PcsAnswer, header: str, authority: IntelAuthority) -> None:
    value = answer.headers[header]
    assert unquote(value) == issuer_chain(authority)
    assert not set(value) & set(" \n+/=")


@pytest.mark.parametrize(("base", "tee"), [(SGX, "sgx"), (TDX, "tdx")])
def test_tcb_info_is_that_of_the_platforms_collateral(base: str, tee: str) -> None:
    answer = PCS.answer(base + "tcb", FMSPC.upper().replace("FMSPC", "fmspc"))
    assert answer.status == 200
    require_chain(answer, "TCB-Info-Issuer-Chain", IntelAuthority.TCB_SIGNING)
    collateral = PLATFORM.collateral("sgx" if tee == "sgx" else "tdx", at=AT)
    assert answer.body == collateral.files()["tcb_info.json"]
    assert parse_tcb_info(parse_pcs_answer(answer.body).body).fmspc == PLATFORM.sgx.fmspc


@pytest.mark.parametrize(("base", "kind"), [(SGX, "QE"), (TDX, "TD_QE")])
def test_qe_identity_needs_no_platform(base: str, kind: str) -> None:
    answer = PCS.answer(base + "qe/identity")
    require_chain(answer, IDENTITY_CHAIN, IntelAuthority.TCB_SIGNING)
    assert json.loads(answer.body)["enclaveIdentity"]["id"] == kind
    assert PCS.answer(base + "qe/identity", "update=standard") == answer


def test_a_number_or_a_channel_chooses_among_documents() -> None:
    old, new = (replace(PCS.tcb_infos[1], evaluation_data_number=number) for number in (19, 20))
    service = replace(PCS, tcb_infos=(old, new), standard_number=19)

    def number(query: str) -> int:
        answer = service.answer(TDX + "tcb", f"{FMSPC}&{query}" if query else FMSPC)
        assert answer.status == 200
        found: int = json.loads(answer.body)["tcbInfo"]["tcbEvaluationDataNumber"]
        return found

    assert [number(query) for query in ("", "update=standard", "update=early")] == [19, 19, 20]
    assert number("tcbEvaluationDataNumber=20") == 20
    assert service.answer(TDX + "tcb", FMSPC + "&tcbEvaluationDataNumber=18").status == 404
    listed = json.loads(service.answer(TDX + "tcbevaluationdatanumbers").body)["tcbEvaluationDataNumbers"]
    assert [row["tcbEvaluationDataNumber"] for row in listed["tcbEvalNumbers"]] == [20, 19]
    assert listed["id"] == "TDX"


@pytest.mark.parametrize(
    ("name", "ca"), [("platform", IntelAuthority.PLATFORM), ("processor", IntelAuthority.PROCESSOR)]
)
def test_lists_come_in_both_encodings(name: str, ca: IntelAuthority) -> None:
    service = replace(PCS, revoked={ca: (77,)})
    answer = service.answer(SGX + "pckcrl", f"ca={name}&encoding=der")
    require_chain(answer, "SGX-PCK-CRL-Issuer-Chain", ca)
    loaded = x509.load_der_x509_crl(answer.body)
    assert loaded.is_signature_valid(authority_key(ca).public_key())
    assert parse_crl(answer.body).revoked == {77}
    pem = service.answer(SGX + "pckcrl", f"ca={name}")
    assert x509.load_pem_x509_crl(pem.body).public_bytes(Encoding.DER) == answer.body


def test_the_list_of_the_root_is_der_at_intel_and_hex_at_a_pccs() -> None:
    answer = PCS.answer("/IntelSGXRootCA.der")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/pkix-crl")
    crl = parse_crl(answer.body)
    assert crl.issuer_common_name == IntelAuthority.ROOT
    assert crl.this_update <= AT <= crl.next_update
    assert bytes.fromhex(PCCS.answer(SGX + "rootcacrl").body.decode()) == answer.body
    assert PCS.answer(SGX + "rootcacrl").status == 404
    assert PCCS.answer(TDX + "rootcacrl").status == 404


def test_a_pccs_names_its_header_in_its_own_way() -> None:
    answer = PCCS.answer(TDX + "tcb", FMSPC)
    require_chain(answer, "SGX-TCB-Info-Issuer-Chain", IntelAuthority.TCB_SIGNING)
    assert "TCB-Info-Issuer-Chain" not in answer.headers


@pytest.mark.parametrize("platform", [PLATFORM, CLIENT])
def test_a_pck_certificate_is_found_by_its_encrypted_ppid(platform: SimulatedPlatform) -> None:
    sgx = platform.sgx
    tcb = f"cpusvn={sgx.cpu_svn.hex()}&pcesvn={sgx.pce_svn.to_bytes(2, 'little').hex()}"
    query = f"encrypted_ppid={platform.encrypted_ppid().hex()}&{tcb}&pceid=0000"
    answer = PCS.answer(SGX + "pckcert", query)
    assert [block for _, block in pem_blocks(answer.body)] == [platform.pck_certificate()]
    require_chain(answer, "SGX-PCK-Certificate-Issuer-Chain", platform.ca)
    assert answer.headers["SGX-TCBm"] == sgx.cpu_svn.hex() + "0d00"
    assert answer.headers["SGX-FMSPC"] == sgx.fmspc.hex()
    assert PCS.answer(SGX + "pckcert", query.replace("pceid=0000", "pceid=0001")).status == 404


def test_a_pccs_finds_a_pck_certificate_by_the_qe_too() -> None:
    query = f"qeid={PLATFORM.qe_id('tdx').hex()}&cpusvn=00&pcesvn=00&pceid=0000"
    assert PCCS.answer(SGX + "pckcert", query).status == 200
    assert PCS.answer(SGX + "pckcert", query).status == 404


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        (TDX + "tcb", "fmspc=ffffffffffff", 404),
        (TDX + "tcb", "", 400),
        (TDX + "tcb", "fmspc=53494d", 400),
        (TDX + "tcb", f"{FMSPC}&{FMSPC}", 400),
        (TDX + "tcb", f"{FMSPC}&update=later", 400),
        (TDX + "tcb", f"{FMSPC}&tcbEvaluationDataNumber=x", 400),
        (TDX + "tcb", f"{FMSPC}&tcbEvaluationDataNumber=18&update=early", 400),
        (TDX + "tcb", "fmspc", 400),
        (SGX + "pckcrl", "ca=other", 400),
        (SGX + "pckcrl", "ca=platform&encoding=hex", 400),
        (TDX + "pckcrl", "ca=platform", 404),
        (TDX + "pckcert", "", 404),
        (SGX + "pckcert", "encrypted_ppid=00", 400),
        (SGX + "tcbevaluationdatanumbers", "x=1", 400),
        (SGX + "nothing", "", 404),
        ("/sgx/certification/v3/tcb", FMSPC, 404),
        ("/", "", 404),
    ],
)
def test_everything_else_is_refused(path: str, query: str, status: int) -> None:
    assert PCS.answer(path, query) == PcsAnswer(status, {}, b"")
