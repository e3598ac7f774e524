"""Every way in which Azure evidence is written, and no other."""

import base64
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.azure.forms import (
    ParsedAzureEvidence,
    RawTpmQuote,
    azure_json,
    is_azure_json,
    is_raw_tpm_quote,
    parse_azure_evidence,
    raw_tpm_quote,
    raw_tpm_quote_bytes,
)
from attest.evidence.azure.needs import needy_report
from attest.evidence.azure.structure import HclReportType
from attest.evidence.input_files import read_evidence
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip
from attest_simulator.intel import SimulatedEnclave
from attest_simulator.intel.certificates import pem_text
from tests.evidence.azure.made import CHIP, PLATFORM, AzureVm

SNP, TDX = AzureVm(), AzureVm(kind=HclReportType.TDX)
VCEK = CHIP.leaf_certificate()
SGX = SimulatedEnclave(platform=PLATFORM).quote(bytes(64))
V1 = json.loads(azure_json(hcl=SNP.hcl, tpm=SNP.raw_quote, vcek=VCEK))
TD = json.loads(TDX.json)


def parsed(document: Any) -> ParsedAzureEvidence:  # noqa: ANN401
    return parse_azure_evidence(json.dumps(document).encode())


def old(vm: AzureVm) -> dict[str, Any]:
    """The first form, of integer arrays."""
    signature, message, pcrs = vm.raw_quote
    tpm = {"signature": list(signature), "message": list(message), "pcrs": [list(pcr) for pcr in pcrs]}
    if vm.td_quote is None:
        return {"quote": tpm, "report": list(vm.hcl), "vcek": pem_text([VCEK])}
    return {"tpm_quote": tpm, "hcl_report": list(vm.hcl), "td_quote": list(vm.td_quote)}


def test_every_form_says_the_same() -> None:
    snp = [parsed(V1), parsed({"platform": "az-snp", "evidence": V1}), parsed(V1 | {"version": 2}), parsed(old(SNP))]
    assert [p.form_version for p in snp] == [1, 1, 2, 0]
    assert {(p.hcl.raw, p.tpm) for p in snp} == {(SNP.hcl, SNP.raw_quote)}
    assert {p.cpu.leaves for p in snp if isinstance(p.cpu, ParsedSnpEvidence)} == {(VCEK,)}
    tdx = [parsed(TD), parsed({"platform": "az-tdx", "evidence": TD}), parsed(old(TDX))]
    assert {(p.hcl.raw, p.tpm, p.cpu.raw) for p in tdx if isinstance(p.cpu, ParsedQuote)} == {
        (TDX.hcl, TDX.raw_quote, TDX.td_quote)
    }


def test_what_cannot_be_read_states_nothing() -> None:
    honest = parse_azure_evidence(SNP.json)
    assert (len(honest.stated_user_data), len(honest.stated_pcrs)) == (64, 24)
    silent = replace(honest, hcl=replace(honest.hcl, runtime_data=b"{"), tpm=honest.tpm._replace(message=b""))
    assert (silent.stated_user_data, silent.stated_extra_data, silent.stated_pcrs) == (b"", b"", ())


def test_a_vcek_is_a_hint_and_may_be_left_out() -> None:
    without = {name: value for name, value in V1.items() if name != "vcek"}
    found = parsed(without).cpu
    assert isinstance(found, ParsedSnpEvidence)
    assert found.leaves == ()


def test_certificates_behind_the_vcek_are_its_issuers() -> None:
    chain = pem_text(CHIP.certificates())
    found = parsed(old(SNP) | {"vcek": chain}).cpu
    assert isinstance(found, ParsedSnpEvidence)
    assert [certificate.common_name for certificate in found.issuers] == ["SEV-Genoa", "ARK-Genoa"]


def test_eight_certificates_may_come_with_the_report() -> None:
    found = parsed(old(SNP) | {"vcek": pem_text([VCEK] * 8)}).cpu
    assert isinstance(found, ParsedSnpEvidence)
    assert len(found.issuers) == 7


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("strip", [b"", b"="])
def test_base64_of_either_alphabet_padded_or_not(encode: Callable[[bytes], bytes], strip: bytes) -> None:
    for extra in range(3):
        data = AzureVm(runtime=b"{" + b"?>~" * 9 + b"x" * extra).hcl + bytes(extra)
        assert parsed(V1 | {"hcl_report": encode(data).rstrip(strip).decode()}).hcl.raw == data


def test_hex_of_either_case() -> None:
    upper = {**V1["tpm_quote"], "message": V1["tpm_quote"]["message"].upper()}
    assert parsed(V1 | {"tpm_quote": upper}).tpm == SNP.raw_quote


def tpm(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {**V1, "tpm_quote": V1["tpm_quote"] | changes}


B64 = V1["hcl_report"]
BAD: list[tuple[str, Any]] = [
    ("no object", []),
    ("an outer object of another platform", {"platform": "az-sgx", "evidence": V1}),
    ("an outer object of no platform", {"platform": None, "evidence": V1}),
    ("an outer object with more in it", {"platform": "az-snp", "evidence": V1, "more": 1}),
    ("an outer object of nothing", {"platform": "az-snp"}),
    ("version 3", V1 | {"version": 3}),
    ("version true", V1 | {"version": True}),
    ("version as text", V1 | {"version": "1"}),
    ("an unknown member", V1 | {"more": 1}),
    ("both", V1 | {"td_quote": TD["td_quote"]}),
    ("SNP as TDX", {"platform": "az-tdx", "evidence": V1}),
    ("TDX as SNP", {"platform": "az-snp", "evidence": TD}),
    ("a TD quote beside an SNP report", {**{k: v for k, v in V1.items() if k != "vcek"}, "td_quote": TD["td_quote"]}),
    ("a TDREPORT with a VCEK", {**{k: v for k, v in TD.items() if k != "td_quote"}, "vcek": V1["vcek"]}),
    ("a TDREPORT without its quote", {k: v for k, v in TD.items() if k != "td_quote"}),
    ("an SGX quote", TD | {"td_quote": base64.b64encode(SGX).decode()}),
    ("no report", {k: v for k, v in V1.items() if k != "hcl_report"}),
    ("a report that is no text", V1 | {"hcl_report": 5}),
    ("a report of both alphabets", V1 | {"hcl_report": "+-" + B64}),
    ("a report with too much padding", V1 | {"hcl_report": B64 + "==="}),
    ("a report with wrong padding", V1 | {"hcl_report": B64.rstrip("=") + "=" * (len(B64.rstrip("=")) % 4 == 0)+"==" }),
    ("a report that is no base64", V1 | {"hcl_report": "*" + B64}),
    ("no quote", {k: v for k, v in V1.items() if k != "tpm_quote"}),
    ("a quote with more in it", tpm(more=1)),
    ("a signature that is no text", tpm(signature=None)),
    ("a signature that is no hex", tpm(signature="xy")),
    ("a long signature", tpm(signature="00" * 513)),
    ("a long message", tpm(message="00" * 1025)),
    ("registers that are no array", tpm(pcrs={})),
    ("registers as text", tpm(pcrs="00" * 32)),
    ("registers as one number", tpm(pcrs=0)),
    ("25 registers", tpm(pcrs=["00" * 32] * 25)),
    ("a short register", tpm(pcrs=["00" * 31])),
    ("no certificate", old(SNP) | {"vcek": ""}),
    ("another kind of PEM", old(SNP) | {"vcek": "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"}),
    ("a certificate in another form", old(SNP) | {"vcek": [1]}),
    ("nine certificates", old(SNP) | {"vcek": pem_text([VCEK] * 9)}),
    ("text among the numbers", old(SNP) | {"report": ["1"]}),
    ("a truth among the numbers", old(SNP) | {"report": [True]}),
    ("256 among the numbers", old(SNP) | {"report": [256]}),
    ("no array", old(SNP) | {"report": {}}),
]  # fmt: skip


@pytest.mark.parametrize("document", [d for _, d in BAD], ids=[name for name, _ in BAD])
def test_what_no_form_allows_is_refused(document: Any) -> None:  # noqa: ANN401
    with pytest.raises(EvidenceError) as outcome:
        parsed(document)
    assert outcome.value.exit_code == 3


def test_a_vcek_beside_a_td_quote_is_called_that() -> None:
    with pytest.raises(EvidenceError) as outcome:
        parsed(V1 | {"td_quote": TD["td_quote"]})
    assert outcome.value.expected == "either vcek or td_quote"


@pytest.mark.parametrize("document", [{"platform": "az-tdx", "evidence": V1}, {"platform": "az-snp", "evidence": TD}])
def test_evidence_relabelled_as_of_the_other_platform_is_called_that(document: Any) -> None:  # noqa: ANN401
    with pytest.raises(EvidenceError) as outcome:
        parsed(document)
    assert outcome.value.code == "hcl-report-type-mismatch"


def test_an_unknown_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        parsed(V1 | {"version": 7})


def test_a_form_is_recognised_by_its_members() -> None:
    for document in (V1, TD, old(SNP), old(TDX), {"platform": "az-snp", "evidence": V1}):
        assert is_azure_json(document)
    others: list[Any] = [[], {}, {"evidence": V1}, {"platform": "az-snp", "evidence": 5}, {"quote": "x", "report": 1}]
    for other in others:
        assert not is_azure_json(other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 300) | st.sampled_from(["00", "AA", "az-snp", B64]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["version", "tpm_quote", "hcl_report", "vcek", "platform", "pcrs"]), inner)
    ),
    max_leaves=10,
)
CHANGED = st.tuples(st.sampled_from([V1, TD, old(SNP)]), st.sampled_from(["version", *V1, "td_quote"]), JSON)


@given(st.binary(max_size=64) | CHANGED.map(lambda c: json.dumps(c[0] | {c[1]: c[2]}).encode()))
def test_any_bytes_are_evidence_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        parse_azure_evidence(data)


# -- raw pieces


def test_a_raw_quote_is_written_as_it_is_read() -> None:
    data = raw_tpm_quote_bytes(SNP.raw_quote)
    assert is_raw_tpm_quote(data)
    assert not is_raw_tpm_quote(data[:7] + b"\1" + data[8:])
    assert raw_tpm_quote(data) == SNP.raw_quote


@pytest.mark.parametrize(
    ("length", "begins", "expected"),
    [
        *((length, b"\xffTCG", True) for length in (256, 384, 512)),
        *((length, b"\xffTCG", False) for length in (255, 257, 511, 513, 0)),
        (256, b"\xffTCH", False),
    ],
)
def test_a_raw_quote_is_known_by_the_length_of_its_signature_and_its_first_words(
    length: int, begins: bytes, expected: bool
) -> None:
    signature = length.to_bytes(8, "little") + bytes(length)
    assert is_raw_tpm_quote(signature + bytes(8) + begins + bytes(100)) is expected


@given(st.binary(max_size=400) | st.integers(0, 1200).map(lambda n: raw_tpm_quote_bytes(SNP.raw_quote)[:n]))
def test_any_bytes_are_a_raw_quote_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert raw_tpm_quote_bytes(raw_tpm_quote(data)) == data


@pytest.mark.parametrize("changed", [(513, 122, 24), (256, 1025, 24), (256, 122, 25)])
def test_lengths_of_a_raw_quote_are_bounded(changed: tuple[int, int, int]) -> None:
    signature, message, pcrs = (bytes(changed[0]), bytes(changed[1]), (bytes(32),) * changed[2])
    with pytest.raises(EvidenceError) as outcome:
        raw_tpm_quote(raw_tpm_quote_bytes(RawTpmQuote(signature, message, pcrs)))
    assert outcome.value.code == "azure-form-malformed"


HCL, QUOTE = ("hcl-report.bin", SNP.hcl), ("quote.bin", raw_tpm_quote_bytes(SNP.raw_quote))


def test_raw_pieces_together_are_one_piece_of_evidence() -> None:
    (item,) = read_evidence([HCL, QUOTE]).evidence.items
    assert parse_azure_evidence(item.value).tpm == SNP.raw_quote
    files = [("td-quote.bin", TDX.td_quote or b""), ("q", raw_tpm_quote_bytes(TDX.raw_quote)), ("h", TDX.hcl)]
    for order in (files, files[::-1]):
        (item,) = read_evidence(order).evidence.items
        assert parse_azure_evidence(item.value).hcl.raw == TDX.hcl
    certified = read_evidence([HCL, QUOTE, ("vcek.der", VCEK)], form="hcl").evidence
    assert [certificate.der for certificate in certified.presented.certificates] == [VCEK]


def test_the_form_of_raw_pieces_is_that_of_the_paravisors_report_and_nothing_else_may_lie_beside() -> None:
    quote = TDX.td_quote or b""
    files = [("td-quote.bin", quote), ("q", raw_tpm_quote_bytes(TDX.raw_quote)), ("h", TDX.hcl)]
    (item,) = read_evidence(files, form="hcl").evidence.items
    assert parse_azure_evidence(item.value).hcl.raw == TDX.hcl
    with pytest.raises(EvidenceError) as outcome:
        read_evidence(files, form="tdx-quote")
    assert (outcome.value.code, outcome.value.got) == ("evidence-form-mismatch", "hcl")
    with pytest.raises(EvidenceError) as outcome:
        read_evidence([HCL, QUOTE, ("enclave.bin", SGX)])
    assert (outcome.value.code, outcome.value.got) == ("evidence-ambiguous", "2")


def test_one_piece_without_the_other_says_nothing() -> None:
    for files in ([HCL], [QUOTE, ("azure.json", SNP.json)]):
        with pytest.raises(EvidenceError) as outcome:
            read_evidence(files)
        assert outcome.value.code == "azure-incomplete"
    with pytest.raises(EvidenceError) as outcome:
        read_evidence([QUOTE])
    assert outcome.value.code == "evidence-empty"
    for files in ([HCL, HCL, QUOTE], [HCL, QUOTE, QUOTE]):
        with pytest.raises(EvidenceError) as outcome:
            read_evidence(files)
        assert outcome.value.code == "evidence-ambiguous"


# -- needs


def test_a_vcek_for_another_tcb_is_asked_for_anew() -> None:
    updated = SimulatedChip.of(SnpProduct.GENOA, tcb=replace(CHIP.current_tcb, microcode=1))
    other = V1 | {"vcek": base64.b64encode(updated.leaf_certificate()).decode()}
    fitting, unreadable = parsed(V1), parsed(V1 | {"vcek": "AAAA"})
    assert needy_report(fitting) == fitting.cpu
    assert needy_report(parsed(TD)) == parsed(TD).cpu
    for misfit in (unreadable, parsed(other)):
        assert isinstance(misfit.cpu, ParsedSnpEvidence)
        assert misfit.cpu.leaves != ()
        assert needy_report(misfit) == misfit.cpu._replace(leaves=())


def test_recorded_raw_pieces_are_evidence(vectors_dir: Path) -> None:
    root = vectors_dir / "azure/raw-snp"
    recognised = read_evidence([(path.name, path.read_bytes()) for path in sorted(root.iterdir())])
    (item,) = recognised.evidence.items
    assert parse_azure_evidence(item.value).stated_extra_data == b"challenge"
    assert len(recognised.evidence.presented.certificates) == 3
