"""An answer is kept only when it is what was asked for, by its own words."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdRequest, AmdVcekRequest
from attest.errors import EndorsementError
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.needs import needed_endorsements, vcek_request
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.fetch.answers import describe, max_answer_bytes, read_answer
from attest_simulator.certificates import vlek_template
from attest_simulator.keys import CaRole, simulated_ca_key
from tests.endorsements.made import pem
from tests.fetch.conftest import simulated

TCB = SnpTcbVersion(bootloader=4, tee=0, snp=24, microcode=219)
VCEK = vcek_request(product=SnpProduct.MILAN, hwid=b"c" * 64, tcb=TCB)
TURIN = vcek_request(
    product=SnpProduct.TURIN, hwid=b"t" * 8, tcb=SnpTcbVersion(fmc=1, bootloader=2, tee=0, snp=3, microcode=77)
)
CHAIN = AmdChainRequest(product="Milan", kind="vcek")
VLEK_CHAIN = AmdChainRequest(product="Milan", kind="vlek")
CRL = AmdCrlRequest(product="Milan", kind="vcek")
ALL = (VCEK, TURIN, CHAIN, VLEK_CHAIN, CRL)


def body(request: AmdRequest) -> bytes:
    match request:
        case AmdVcekRequest():
            query = "&".join(f"{name}={level:02d}" for name, level in request.spls)
            return simulated()(f"/vcek/v1/{request.product}/{request.hwid.hex()}", query).body
        case AmdChainRequest():
            return simulated()(f"/{request.kind}/v1/{request.product}/cert_chain", "").body
        case AmdCrlRequest():
            return simulated()(f"/{request.kind}/v1/{request.product}/crl", "").body


def refused(request: AmdRequest, data: bytes) -> str:
    with pytest.raises(EndorsementError) as raised:
        read_answer(request, data, source="https://kds.example/x")
    assert raised.value.code == "kds-answer-invalid"
    return raised.value.message


@pytest.mark.parametrize("request_", ALL, ids=describe)
def test_what_was_asked_for_is_read(request_: AmdRequest) -> None:
    data = body(request_)
    answer = read_answer(request_, data, source="https://kds.example/x")
    assert (answer.data, answer.cached) == (data, False)
    assert (len(answer.certificates), len(answer.crls)) == {
        AmdVcekRequest: (1, 0),
        AmdChainRequest: (2, 0),
        AmdCrlRequest: (0, 1),
    }[type(request_)]
    kinds = {AmdVcekRequest: "amd-vcek", AmdChainRequest: "amd-chain", AmdCrlRequest: "amd-crl"}
    assert answer.entry() == BundleEntry(kind=kinds[type(request_)], source="https://kds.example/x", data=data)  # type: ignore[arg-type]  # of the table above


REAL = (("milan-v2-vcek", SnpProduct.MILAN), ("milan-v2-debug", SnpProduct.MILAN), ("genoa-v5-vcek", SnpProduct.GENOA))


@pytest.mark.parametrize(("name", "product"), REAL)
def test_the_real_vcek_answers_the_request_that_its_report_makes(
    vectors_dir: Path, name: str, product: SnpProduct
) -> None:
    folder = vectors_dir / "sev-snp" / name
    evidence = parse_snp_evidence((folder / "report.bin").read_bytes())
    request = needed_endorsements(evidence, product=product)[0]
    assert read_answer(request, (folder / "vcek.der").read_bytes(), source="x").certificates


@pytest.mark.parametrize("product", list(SnpProduct))
@pytest.mark.parametrize(("kind", "name"), [("vcek", "ask"), ("vlek", "asvk")])
def test_the_real_chains_and_lists_are_read(vectors_dir: Path, product: SnpProduct, kind: str, name: str) -> None:
    folder = vectors_dir / "sev-snp" / "certs" / product.lower()
    chain = b"".join(pem("CERTIFICATE", (folder / f"{each}.der").read_bytes()) for each in (name, "ark"))
    request = AmdChainRequest(product=str(product), kind=kind)  # type: ignore[arg-type]  # of the list above
    assert len(read_answer(request, chain, source="x").certificates) == 2
    for path in (vectors_dir / "sev-snp" / "crl").glob(f"{product.lower()}-*.der"):
        listed = AmdCrlRequest(product=str(product), kind=kind)  # type: ignore[arg-type]  # likewise
        assert read_answer(listed, path.read_bytes(), source="x").crls


@pytest.mark.parametrize(
    ("request_", "other"),
    [(asked, got) for asked in ALL for got in ALL if asked is not got],
    ids=lambda request: describe(request)[:24],
)
def test_an_answer_to_another_request_is_refused(request_: AmdRequest, other: AmdRequest) -> None:
    refused(request_, body(other))


@pytest.mark.parametrize(
    "other",
    [
        replace(VCEK, hwid=b"d" * 64),
        replace(VCEK, spls=(("blSPL", 4), ("teeSPL", 0), ("snpSPL", 24), ("ucodeSPL", 218))),
        replace(VCEK, product="Genoa"),
    ],
)
def test_the_vcek_of_another_chip_tcb_or_line_is_refused(other: AmdVcekRequest) -> None:
    refused(VCEK, body(other))


def test_a_vlek_is_no_vcek() -> None:
    vlek = vlek_template(product=SnpProduct.MILAN, csp_id="CN=cloud.example", tcb=TCB)
    whole = vlek.issue(simulated_ca_key(SnpProduct.MILAN, CaRole.ASVK))
    assert "SEV-VLEK" in refused(VCEK, whole)


def test_chains_and_lists_of_another_line_or_kind_are_refused() -> None:
    refused(CHAIN, body(replace(CHAIN, product="Genoa")))
    refused(CRL, body(replace(CRL, product="Genoa")))
    first, second = body(CHAIN).split(b"-----END CERTIFICATE-----\n")[:2]
    end = b"-----END CERTIFICATE-----\n"
    assert read_answer(CHAIN, first + end + second + end, source="x").certificates
    for other in (b"", first + end, second + end + first + end, body(CHAIN) + body(CHAIN), first + second + end):
        refused(CHAIN, other)
    label = body(CHAIN) + b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
    refused(CHAIN, label)


@pytest.mark.parametrize("request_", ALL, ids=describe)
def test_truncated_lengthened_and_too_long_answers_are_refused(request_: AmdRequest) -> None:
    data = body(request_)
    refused(request_, data[: len(data) // 2])
    refused(request_, b"")
    refused(request_, bytes(max_answer_bytes(request_) + 1))
    if request_ not in (CHAIN, VLEK_CHAIN):  # text may follow PEM
        refused(request_, data + b"\0")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_documented_refusal(data: bytes) -> None:
    for request in ALL:
        refused(request, data)


def test_a_line_that_does_not_exist_is_a_programmers_error() -> None:
    with pytest.raises(ValueError, match="Naples"):
        read_answer(replace(CHAIN, product="Naples"), body(CHAIN), source="x")
