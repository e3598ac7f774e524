"""Simulated quotes: put together right, signed right, accepted where they are honest, refused where they are not."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.errors import AttestError
from attest.evidence.intel.authenticity import AuthenticQuote
from attest.evidence.intel.evaluation import TcbEvaluation, platform_facts
from attest.evidence.intel.judgement import CollateralAtHand
from attest.evidence.intel.quote import Tee, parse_quote
from attest.evidence.intel.verify import authenticate_quote, judge_collateral, procedure_of
from attest.evidence.sgx.structure import ParsedEnclaveReport
from attest.evidence.tdx.structure import layout_of_type
from attest_simulator.intel import (
    IntelAuthority,
    IntelCollateral,
    QuoteTemplate,
    SimulatedEnclave,
    SimulatedPlatform,
    SimulatedTd,
)
from attest_simulator.intel.collateral import QE_MR_SIGNER, current_period, default_qe_identity
from attest_simulator.intel.keys import p256_key, raw_public_key
from attest_simulator.intel.quote_template import QE_AUTH_DATA, Values, quote_header, sgx_report
from attest_simulator.intel.structure import HEADER_V3, HEADER_V4, SGX_REPORT, TD_REPORTS

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
REPORT_DATA = bytes(range(64))
PLATFORM = SimulatedPlatform.of()
TD = SimulatedTd(platform=PLATFORM)
ENCLAVE = SimulatedEnclave(platform=PLATFORM)
OLDER = (2, 2, 2, 2, 3, 1, 0, 5, *(8 * [0]))
HONEST = {
    "tdx-4": TD.quote(REPORT_DATA),
    "tdx-5-2": TD.quote(REPORT_DATA, version=5, body_type=2),
    "tdx-5-3": TD.quote(REPORT_DATA, version=5),
    "sgx-3": ENCLAVE.quote(REPORT_DATA),
    "sgx-4": ENCLAVE.quote(REPORT_DATA, version=4),
    "sgx-5": ENCLAVE.quote(REPORT_DATA, version=5),
}
QUOTES = {
    "tdx/v4-b0c06f000000-uptodate/quote.bin": 4,
    "tdx/v5-90c06f000000-uptodate/quote.bin": 5,
    "sgx/v3-00a067110000-confswh/quote.bin": 3,
}


def authentic(quote: bytes, endorsements: Endorsements, anchors: TrustAnchors) -> AuthenticQuote:
    parsed = parse_quote(quote)
    return authenticate_quote(procedure_of(parsed.tee), parsed, endorsements=endorsements, anchors=anchors, at=AT)


def evaluated(quote: bytes, collateral: IntelCollateral) -> TcbEvaluation:
    endorsements = collateral.endorsements()
    checked = authentic(quote, endorsements, TrustAnchors.simulation())
    at_hand = CollateralAtHand(
        platform=platform_facts(checked.quote, checked.chain.pck),
        qe=checked.quote.qe_report,
        pck=checked.chain.pck.certificate,
        ca=checked.chain.issuer,
        root=checked.chain.root,
        endorsements=endorsements,
        at=AT,
    )
    outcome = judge_collateral(procedure_of(checked.quote.tee), at_hand)
    assert outcome.evaluation is not None
    return outcome.evaluation


def of_tee(name: str) -> Tee:
    return "tdx" if name.startswith("tdx") else "sgx"


def refusal(quote: bytes, collateral: IntelCollateral | None = None) -> str:
    with pytest.raises(AttestError) as refused:
        evaluated(quote, collateral or PLATFORM.collateral("tdx", at=AT))
    return refused.value.code


# -- structure


def test_our_layouts_and_the_parsers_have_the_same_fields_in_the_same_places() -> None:
    for body_type in (2, 3, 4):
        theirs = [(f.offset, f.size) for f in layout_of_type(body_type)]
        assert [(f.offset, f.size) for f in TD_REPORTS[body_type]] == theirs
    assert (SGX_REPORT.size, HEADER_V3.size, HEADER_V4.size) == (384, 48, 48)


@pytest.mark.parametrize(("name", "version"), QUOTES.items())
def test_a_template_with_the_parts_of_a_real_quote_gives_its_bytes_but_for_signatures_and_keys(
    vectors_dir: Path, name: str, version: int
) -> None:
    raw = (vectors_dir / name).read_bytes()
    genuine = parse_quote(raw)
    template = QuoteTemplate(
        header=genuine.signed_bytes[:48],
        descriptor=genuine.signed_bytes[48:54] if version == 5 else b"",
        body=genuine.signed_bytes[54 if version == 5 else 48 :],
        attestation_key=p256_key("stranger"),
        pck_key=p256_key("another stranger"),
        qe_fields=dict(zip(SGX_REPORT.names, SGX_REPORT.decode(genuine.qe_report.to_bytes()), strict=True)),
        certification_data=genuine.certification_data,
        certification_type=genuine.certification_type,
        outer_type=None if version == 3 else 6,
        qe_auth_data=genuine.qe_auth_data,
        padding=genuine.padding,
    )
    ours = parse_quote(template.issue())
    masked = replace(
        ours,
        raw=raw,
        signature=genuine.signature,
        attestation_key=genuine.attestation_key,
        qe_report_signature=genuine.qe_report_signature,
    )
    assert masked.to_bytes() == raw == genuine.to_bytes()


def test_a_header_of_ours_is_that_of_a_real_quote(vectors_dir: Path) -> None:
    for name, version in QUOTES.items():
        genuine = parse_quote((vectors_dir / name).read_bytes())
        svns = {"qe_svn": genuine.qe_svn, "pce_svn": genuine.pce_svn} if version == 3 else {}
        header = quote_header(version=version, tdx=genuine.tee == "tdx", qe_id=genuine.user_data[:16], override=svns)
        assert header == genuine.signed_bytes[:48]


@pytest.mark.parametrize("name", HONEST)
def test_a_quote_parses_and_is_encoded_to_the_same_bytes(name: str) -> None:
    parsed = parse_quote(HONEST[name])
    assert parsed.to_bytes() == HONEST[name]
    assert parsed.version == int(name.split("-")[1])
    assert parsed.body.report_data == REPORT_DATA
    assert parsed.qe_auth_data == QE_AUTH_DATA
    assert parsed.certification_data.endswith(b"-----\n\0")


@pytest.mark.parametrize("name", HONEST)
def test_the_three_links_of_a_quote_hold_by_plain_cryptography(name: str) -> None:
    quote = parse_quote(HONEST[name])
    point = b"\x04" + quote.attestation_key
    attestation_key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    pck = x509.load_der_x509_certificate(pem_blocks(quote.certification_data)[0][1]).public_key()
    assert isinstance(pck, ec.EllipticCurvePublicKey)
    for key, signature, message in (
        (attestation_key, quote.signature, quote.signed_bytes),
        (pck, quote.qe_report_signature, quote.qe_report.to_bytes()),
    ):
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        key.verify(encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
    commitment = sha256(quote.attestation_key + quote.qe_auth_data).digest()
    assert quote.qe_report.report_data == commitment + bytes(32)


def test_the_extended_body_has_its_descriptor() -> None:
    quote = TD.quote(REPORT_DATA, version=5, body_type=4)
    assert quote[48:54] == bytes.fromhex("040075030000")
    assert quote[54 + 520 : 54 + 584] == REPORT_DATA


def test_the_same_td_gives_the_same_quote() -> None:
    again = SimulatedTd(platform=SimulatedPlatform.of())
    assert again.quote(REPORT_DATA) == HONEST["tdx-4"]
    assert SimulatedTd(platform=SimulatedPlatform.of("other")).quote(REPORT_DATA) != HONEST["tdx-4"]


def test_the_bytes_of_today_are_the_bytes_of_any_day() -> None:
    made = (HONEST["tdx-4"], HONEST["sgx-3"], PLATFORM.collateral("tdx", at=AT).to_json(), TD.event_log())
    assert [sha256(each).hexdigest() for each in made] == [
        "6da14cb5ba63027cdfb6f0a875a557df06df9e38af2164ad11247b3c13987929",
        "fb0a1ef813e7ad356dbf0688c9682c55e6e91b8a0e63f2a9d796964db94816ac",
        "0d8726e345fd84276e41abc5a36083f146421a35228a292330334bb0bda110eb",
        "7dbb376dabcc278c9bda1e7c0d87dd52565fdcb63a91fceb042c810a9528a20c",
    ]


# -- honest quotes


@pytest.mark.parametrize("ca", [IntelAuthority.PLATFORM, IntelAuthority.PROCESSOR])
@pytest.mark.parametrize("name", HONEST)
def test_a_default_machine_is_up_to_date(name: str, ca: IntelAuthority) -> None:
    platform = SimulatedPlatform.of(ca=ca)
    version = int(name.split("-")[1])
    if of_tee(name) == "tdx":
        quote = SimulatedTd(platform=platform).quote(REPORT_DATA, version=version)
    else:
        quote = SimulatedEnclave(platform=platform).quote(REPORT_DATA, version=version)
    outcome = evaluated(quote, platform.collateral(of_tee(name), at=AT))
    assert outcome.tcb_status == "UpToDate"
    assert outcome.advisory_ids == ()


def test_an_older_machine_is_out_of_date_by_the_same_collateral() -> None:
    platform = SimulatedPlatform.of(components=OLDER)
    older = replace(platform, tee_tcb_svn=bytes((4, 1, 2)).ljust(16, b"\0"))
    outcome = evaluated(SimulatedTd(platform=older).quote(REPORT_DATA), platform.collateral("tdx", at=AT))
    assert (outcome.tcb_status, outcome.tdx_module_status) == ("OutOfDate", "OutOfDate")
    assert outcome.advisory_ids == ("INTEL-SA-01036", "INTEL-SA-01079", "INTEL-SA-01099")


def test_an_older_qe_is_out_of_date() -> None:
    platform = replace(PLATFORM, qe_isv_svn=6)
    outcome = evaluated(SimulatedEnclave(platform=platform).quote(REPORT_DATA), platform.collateral("sgx", at=AT))
    assert (outcome.tcb_status, outcome.qe_status) == ("OutOfDate", "OutOfDate")


def test_a_relaunch_can_be_staged() -> None:
    older = replace(PLATFORM, tee_tcb_svn=bytes((4, 1, 3)).ljust(16, b"\0"))
    td = SimulatedTd(platform=older, tee_tcb_svn_2=PLATFORM.tee_tcb_svn)
    assert evaluated(td.quote(REPORT_DATA, version=5), PLATFORM.collateral("tdx", at=AT)).tcb_status == (
        "TDRelaunchAdvised"
    )
    assert evaluated(td.quote(REPORT_DATA), PLATFORM.collateral("tdx", at=AT)).tcb_status == "OutOfDate"


@pytest.mark.parametrize("status", ["SWHardeningNeeded", "ConfigurationNeeded", "Revoked"])
def test_the_status_of_a_level_can_be_chosen(status: str) -> None:
    info = PLATFORM.tcb_info("tdx", at=AT)
    first = replace(info.levels[0], status=status, advisory_ids=("INTEL-SA-99999",))
    collateral = PLATFORM.collateral("tdx", at=AT, tcb_info=replace(info, levels=(first, *info.levels[1:])))
    if status == "Revoked":
        assert refusal(HONEST["tdx-4"], collateral) == "tcb-revoked"
    else:
        outcome = evaluated(HONEST["tdx-4"], collateral)
        assert (outcome.tcb_status, outcome.advisory_ids) == (status, ("INTEL-SA-99999",))


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_a_quote_without_a_chain_is_authentic_with_the_chain_from_elsewhere(kind: int) -> None:
    template = replace(
        TD.quote_template(REPORT_DATA), certification_type=kind, certification_data=PLATFORM.certification_data(kind)
    )
    with_chain = replace(PLATFORM.collateral("tdx", at=AT), pck_certificate_chain=PLATFORM.pck_chain())
    assert evaluated(template.issue(), with_chain).tcb_status == "UpToDate"


def test_certification_data_has_the_sizes_of_its_types() -> None:
    assert [len(PLATFORM.certification_data(kind)) for kind in (1, 2, 3)] == [36, 276, 404]
    with pytest.raises(ValueError, match="type 7"):
        PLATFORM.certification_data(7)


# -- hostile quotes


def changed(**parts: Any) -> bytes:  # noqa: ANN401  any part of a template
    return replace(TD.quote_template(REPORT_DATA), **parts).issue()


def qe(**fields: int | bytes) -> Values:
    return dict(PLATFORM.qe_fields("tdx")) | fields


DEBUG_QE = bytes.fromhex("1700000000000000e700000000000000")


@pytest.mark.parametrize(
    ("quote", "code"),
    [
        (changed(bound_key=raw_public_key(p256_key("stranger"))), "attestation-key-mismatch"),
        (changed(qe_fields=qe(report_data=bytes(64))), "attestation-key-mismatch"),
        (changed(pck_key=p256_key("stranger")), "qe-report-signature-invalid"),
        (changed(qe_fields=qe(attributes=DEBUG_QE)), "qe-identity-mismatch"),
        (changed(qe_fields=qe(mr_signer=bytes(32))), "qe-identity-mismatch"),
        (changed(qe_fields=qe(isv_prod_id=1)), "qe-identity-mismatch"),
        (changed(qe_fields=qe(isv_svn=3)), "tcb-not-supported"),
        (TD.quote(REPORT_DATA, override={"mr_signer_seam": b"\1" * 48}), "tdx-module-mismatch"),
        (TD.quote(REPORT_DATA, override={"tee_tcb_svn": bytes((6, 9)).ljust(16, b"\0")}), "tdx-module-unknown"),
    ],
)
def test_a_quote_that_no_quoting_enclave_would_sign_is_refused(quote: bytes, code: str) -> None:
    assert refusal(quote) == code


@pytest.mark.parametrize(
    "quote",
    [
        TD.quote(REPORT_DATA, header={"qe_vendor_id": bytes(16)}),
        TD.quote(REPORT_DATA, header={"version": 6}),
        TD.quote(REPORT_DATA, header={"attestation_key_type": 3}),
        TD.quote(REPORT_DATA, header={"tee_type": 1}),
        changed(outer_type=5),
        changed(outer_type=None),
        changed(descriptor=b"\2\0\x48\2\0\0"),
    ],
)
def test_a_quote_of_another_form_is_refused_by_the_parser(quote: bytes) -> None:
    with pytest.raises(AttestError):
        parse_quote(quote)


def test_another_attestation_key_signs_as_well_when_the_qe_commits_to_it() -> None:
    quote = changed(attestation_key=p256_key("second attestation key"))
    assert evaluated(quote, PLATFORM.collateral("tdx", at=AT)).tcb_status == "UpToDate"


@pytest.mark.parametrize("auth_data", [b"", b"\0" * 32, b"x" * 300])
def test_authentication_data_may_have_any_length(auth_data: bytes) -> None:
    quote = changed(qe_auth_data=auth_data, padding=b"\1" * 39)
    assert parse_quote(quote).padding == b"\1" * 39
    assert evaluated(quote, PLATFORM.collateral("tdx", at=AT)).tcb_status == "UpToDate"


def test_every_field_of_a_report_can_be_overridden() -> None:
    for body_type, layout in TD_REPORTS.items():
        values = {f.name: (b"\xaa" * f.size if f.kind == "bytes" else 0xAA) for f in layout}
        assert TD.report(REPORT_DATA, body_type=body_type, override=values) == layout.encode(values)
    values = {f.name: (b"\xaa" * f.size if f.kind == "bytes" else 0xAA) for f in SGX_REPORT}
    assert ENCLAVE.report(REPORT_DATA, override=values) == SGX_REPORT.encode(values) == sgx_report(values)
    for version, layout in ((3, HEADER_V3), (4, HEADER_V4)):
        header = {f.name: (b"\xbb" * f.size if f.kind == "bytes" else 0xBB) for f in layout}
        assert ENCLAVE.quote(REPORT_DATA, version=version, header=header)[:48] == layout.encode(header)


def test_a_revoked_platform_is_refused() -> None:
    serial = parse_certificate(PLATFORM.pck_certificate()).serial
    assert refusal(HONEST["tdx-4"], PLATFORM.collateral("tdx", at=AT, revoked=(serial,))) == "certificate-revoked"


def test_a_list_of_the_other_ca_does_not_serve() -> None:
    processor = SimulatedPlatform.of(ca=IntelAuthority.PROCESSOR)
    assert refusal(HONEST["tdx-4"], processor.collateral("tdx", at=AT)) == "crl-missing"


def test_collateral_of_another_platform_does_not_serve() -> None:
    other = SimulatedPlatform.of(fmspc=bytes(6))
    assert refusal(HONEST["tdx-4"], other.collateral("tdx", at=AT)) == "tcb-info-missing"
    sgx = PLATFORM.collateral("tdx", at=AT, qe_identity=default_qe_identity("sgx", period=current_period(AT)))
    assert refusal(HONEST["tdx-4"], sgx) == "qe-identity-missing"


def test_altered_collateral_is_refused() -> None:
    good = PLATFORM.collateral("tdx", at=AT)
    forged = replace(good, tcb_info=good.tcb_info.replace("OutOfDate", "UpToDate"))
    assert refusal(HONEST["tdx-4"], forged) == "collateral-signature-invalid"


def test_the_vendors_roots_accept_no_simulated_quote() -> None:
    with pytest.raises(AttestError):
        authentic(HONEST["tdx-4"], PLATFORM.collateral("tdx", at=AT).endorsements(), TrustAnchors.vendors())


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        TD.quote(bytes(63))
    with pytest.raises(ValueError, match="64 bytes"):
        ENCLAVE.quote(bytes(65))
    with pytest.raises(ValueError, match="body type 1"):
        TD.quote(REPORT_DATA, version=5, body_type=1)
    with pytest.raises(ValueError, match="expected the fields"):
        TD.quote(REPORT_DATA, override={"mrtd": bytes(48)})


def test_an_enclave_says_who_it_is() -> None:
    enclave = replace(ENCLAVE, mr_enclave=b"\1" * 32, mr_signer=b"\2" * 32, isv_prod_id=3, isv_svn=4)
    debug = replace(enclave, attributes=bytes.fromhex("0700000000000000e700000000000000"))
    body = parse_quote(debug.quote(REPORT_DATA)).body
    assert isinstance(body, ParsedEnclaveReport)
    assert (body.mr_enclave, body.mr_signer, body.isv_prod_id, body.isv_svn) == (b"\1" * 32, b"\2" * 32, 3, 4)
    assert body.debug
    assert parse_quote(debug.quote(REPORT_DATA)).qe_report.mr_signer == QE_MR_SIGNER["sgx"]
