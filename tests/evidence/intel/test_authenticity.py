"""From the quote to the pinned root: each link is checked, and the first that breaks is named."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import (
    AttestError,
    BindingError,
    EndorsementError,
    EvidenceError,
    SignatureError,
)
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import authenticate_quote, procedure_of
from tests.evidence.intel import made_quotes as made
from tests.evidence.intel.judged import authentic, chained, pool, refused
from tests.evidence.intel.made_quotes import AT, CA, CHAIN, FORMS, HELD, PCK, PINNED, ROOT, MadeQuote, pem
from tests.evidence.intel.recorded import ALTERED, RECORDED, Recorded, apply, of_id

SECOND = timedelta(seconds=1)


# -- what holds


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_quote_is_authentic_at_the_times_of_its_manifest(vector: Recorded, vectors_dir: Path) -> None:
    quote = parse_quote(vector.read(vectors_dir))
    for at in vector.times:
        found = authenticate_quote(
            procedure_of(quote.tee), quote, endorsements=NO_ENDORSEMENTS, anchors=TrustAnchors.vendors(), at=at
        )
        assert found.chain.anchor.role == "intel-sgx-root"
        assert not found.chain.anchor.simulated
        assert found.chain.pck.fmspc.hex() == vector.facts["pck"]["fmspc"]
        assert found.chain.issuer.common_name == vector.facts["pck"]["issuer_cn"]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_authentic(name: str) -> None:
    found = authentic(FORMS[name])
    assert found.quote.body.raw in FORMS[name].to_bytes()
    assert [c.der for c in found.chain.certificates] == [PCK, CA]
    assert (found.chain.anchor, found.at) == (HELD, AT)
    assert found.chain.root == HELD.held_issuer()


@pytest.mark.parametrize(
    "chain", [pem(PCK, CA), pem(PCK, CA, ROOT), pem(PCK, ROOT, CA), pem(PCK, CA) + b"\0\0\n", b"text\n" + CHAIN]
)
def test_a_held_root_needs_no_certificate_and_only_the_leaf_has_a_place(chain: bytes) -> None:
    assert authentic(MadeQuote(certification_data=chain)).chain.issuer.der == CA


def test_a_root_pinned_by_digest_comes_from_the_quote_or_the_endorsements() -> None:
    assert authentic(anchors=[PINNED]).chain.anchor == PINNED
    assert authentic(chained(PCK, CA), anchors=[PINNED], endorsements=pool(ROOT)).chain.anchor == PINNED


def test_a_chain_in_the_quote_that_does_not_reach_the_root_is_false_whatever_the_endorsements_hold() -> None:
    for endorsements in (NO_ENDORSEMENTS, pool(CA, ROOT)):
        error = refused(chained(PCK), endorsements=endorsements)
        assert (error.code, error.exit_code, error.check) == ("pck-chain-incomplete", 4, "tdx.pck_chain")


def test_of_two_issuers_with_the_name_the_one_that_signed_counts() -> None:
    stranger = made.certificate(key=made.OTHER_KEY)
    assert authentic(chained(PCK, stranger, CA)).chain.issuer.der == CA
    assert refused(chained(PCK, stranger), endorsements=pool(CA)).code == "certificate-signature-invalid"


def test_a_renewed_issuer_counts_beside_an_expired_one() -> None:
    old = made.certificate(ends=AT - SECOND)
    assert authentic(chained(PCK, old, CA)).chain.issuer.der == CA
    assert refused(chained(PCK, old), endorsements=pool(CA)).code == "certificate-expired"


def test_padding_does_not_matter() -> None:
    assert authentic(MadeQuote(padding=b"\1" * 39)).quote.padding == b"\1" * 39


# -- T03, T04, T05, T06


@pytest.mark.parametrize(
    ("quote", "error", "code", "check"),
    [
        (MadeQuote(signature=bytes(64)), SignatureError, "quote-signature-invalid", "tdx.quote_signature"),
        (MadeQuote(signature=b"\xff" * 64), SignatureError, "quote-signature-invalid", "tdx.quote_signature"),
        (
            replace(made.SGX_V3, signature=made.sign_raw(made.SGX_V3.signed(), made.PCK_KEY)),
            SignatureError,
            "quote-signature-invalid",
            "sgx.quote_signature",
        ),
        (MadeQuote(attestation_key=bytes(64)), SignatureError, "attestation-key-invalid", "tdx.quote_signature"),
        (MadeQuote(attestation_key=b"\xff" * 64), SignatureError, "attestation-key-invalid", "tdx.quote_signature"),
        (MadeQuote(qe_report=bytes(384)), BindingError, "attestation-key-mismatch", "tdx.attestation_key"),
        (
            MadeQuote(qe_report=MadeQuote().made_qe_report()[:-1] + b"\1"),
            BindingError,
            "attestation-key-mismatch",
            "tdx.attestation_key",
        ),
        (
            MadeQuote(attestation_key=made.point(made.OTHER_KEY), qe_report=MadeQuote().made_qe_report()),
            BindingError,
            "attestation-key-mismatch",
            "tdx.attestation_key",
        ),
        (
            MadeQuote(auth_data=bytes(32), qe_report=MadeQuote().made_qe_report()),
            BindingError,
            "attestation-key-mismatch",
            "tdx.attestation_key",
        ),
        (MadeQuote(qe_signature=bytes(64)), SignatureError, "qe-report-signature-invalid", "tdx.qe_report_signature"),
        (
            MadeQuote(qe_signature=made.sign_raw(MadeQuote().made_qe_report(), made.ATTESTATION_KEY)),
            SignatureError,
            "qe-report-signature-invalid",
            "tdx.qe_report_signature",
        ),
    ],
)
def test_each_link_that_breaks_is_named(quote: MadeQuote, error: type[AttestError], code: str, check: str) -> None:
    found = refused(quote)
    assert isinstance(found, error)
    assert (found.code, found.check, found.exit_code) == (code, check, 4)
    assert found.clause
    assert found.expected


def test_a_pck_extension_that_cannot_be_read_is_malformed_evidence() -> None:
    broken = made.pck(made.members(made.sgx_members(m4=None)))
    error = refused(replace(chained(broken, CA), signature=bytes(64)))
    assert isinstance(error, EvidenceError)
    assert (error.code, error.check) == ("pck-malformed", "tdx.pck_certificate")


@pytest.mark.parametrize(
    "key",
    [
        ec.derive_private_key(5, ec.SECP384R1()),
        ec.derive_private_key(5, ec.SECP256K1()),
    ],
)
def test_a_pck_of_another_curve_is_refused(key: ec.EllipticCurvePrivateKey) -> None:
    assert refused(chained(made.pck(key=key), CA)).code == "public-key-invalid"


def test_a_pck_whose_key_is_no_point_is_refused() -> None:
    off = made.spki(made.PCK_KEY)[:-1] + b"\0"
    error = refused(chained(made.pck(key=off), CA))
    assert (error.code, error.check, error.exit_code) == ("public-key-invalid", "tdx.qe_report_signature", 4)


def test_what_is_false_comes_before_what_is_missing() -> None:
    incomplete = chained(PCK)
    assert refused(incomplete).code == "pck-chain-incomplete"
    assert refused(replace(incomplete, signature=bytes(64))).code == "quote-signature-invalid"
    assert refused(replace(incomplete, qe_report=bytes(384))).code == "attestation-key-mismatch"
    assert refused(replace(incomplete, qe_signature=bytes(64))).code == "qe-report-signature-invalid"
    assert refused(chained(made.pck(ends=AT - SECOND))).code == "certificate-expired"
    without = MadeQuote(certification_type=4, certification_data=b"")
    assert refused(without).code == "pck-certificate-missing"
    assert refused(replace(without, signature=bytes(64))).code == "quote-signature-invalid"
    assert refused(replace(without, qe_report=bytes(384))).code == "attestation-key-mismatch"


# -- certification data without a chain


def ppid_data(kind: int, *, ppid: bytes = bytes(range(16)), pce_id: bytes = b"\0\1") -> bytes:
    first = {1: ppid, 2: bytes(256), 3: bytes(384)}[kind]
    return first + bytes(16) + b"\x0d\0" + pce_id


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_a_chain_given_for_a_quote_without_one_is_used(kind: int) -> None:
    quote = MadeQuote(certification_type=kind, certification_data=ppid_data(kind))
    assert authentic(quote, endorsements=pool(PCK, CA)).chain.pck.certificate.der == PCK
    assert refused(quote, endorsements=pool(CA)).code == "pck-certificate-missing"
    assert refused(quote).code == "pck-certificate-missing"


def test_a_given_chain_is_used_for_type_4_too() -> None:
    quote = MadeQuote(certification_type=4, certification_data=b"whatever")
    assert authentic(quote, endorsements=pool(PCK, CA)).chain.pck.certificate.der == PCK


@pytest.mark.parametrize(
    ("kind", "data"),
    [(1, ppid_data(1, ppid=bytes(16))), (1, ppid_data(1, pce_id=b"\1\0")), (3, ppid_data(3, pce_id=b"\1\0"))],
)
def test_a_pck_of_another_platform_does_not_belong(kind: int, data: bytes) -> None:
    quote = MadeQuote(certification_type=kind, certification_data=data)
    error = refused(quote, endorsements=pool(PCK, CA))
    assert isinstance(error, EndorsementError)
    assert error.code == "pck-certificate-missing"


def test_of_several_given_the_one_whose_key_signed_counts() -> None:
    quote = MadeQuote(certification_type=2, certification_data=ppid_data(2))
    other = made.pck(key=made.OTHER_KEY)
    assert authentic(quote, endorsements=pool(other, PCK, CA)).chain.pck.certificate.der == PCK
    assert refused(quote, endorsements=pool(other, CA)).code == "qe-report-signature-invalid"


def test_a_renewed_pck_certificate_counts_beside_an_expired_one() -> None:
    quote = MadeQuote(certification_type=2, certification_data=ppid_data(2))
    old = made.pck(ends=AT - SECOND)
    assert authentic(quote, endorsements=pool(old, PCK, CA)).chain.pck.certificate.der == PCK
    assert refused(quote, endorsements=pool(old, CA)).code == "certificate-expired"


@pytest.mark.parametrize("which", ["PCK certificate", "issuer", "root"])
def test_damaged_copies_beside_the_good_certificate_decide_nothing(which: str) -> None:
    quote = MadeQuote(certification_type=2, certification_data=ppid_data(2))
    good = {"PCK certificate": PCK, "issuer": CA, "root": ROOT}[which]
    damaged = [good[:-1] + bytes([good[-1] ^ (1 + n)]) for n in range(20)]
    for anchor in (HELD, PINNED):
        found = authentic(quote, endorsements=pool(*damaged, PCK, CA, ROOT), anchors=[anchor])
        assert [certificate.der for certificate in found.chain.certificates] == [PCK, CA]


def test_a_key_of_another_kind_in_a_copy_of_the_pck_decides_nothing() -> None:
    quote = MadeQuote(certification_type=2, certification_data=ppid_data(2))
    off = made.pck(key=made.spki(made.PCK_KEY)[:-1] + b"\0")
    assert authentic(quote, endorsements=pool(off, PCK, CA)).chain.pck.certificate.der == PCK
    assert refused(quote, endorsements=pool(off, CA)).code == "public-key-invalid"


def test_a_given_certificate_that_cannot_be_read_is_told_only_when_there_is_no_other() -> None:
    quote = MadeQuote(certification_type=2, certification_data=ppid_data(2))
    broken = made.pck(made.members({}))
    assert refused(quote, endorsements=pool(broken, CA)).code == "pck-malformed"
    assert authentic(quote, endorsements=pool(broken, PCK, CA)).chain.pck.certificate.der == PCK


def test_a_quote_with_a_chain_counts_with_its_own_pck_alone() -> None:
    forged = made.pck(key=made.OTHER_KEY)
    assert refused(chained(forged, CA), endorsements=pool(PCK, CA)).code == "qe-report-signature-invalid"


# -- the manifests' cases


CODES = {
    "quote_signature": {"quote-signature-invalid"},
    "attestation_key_binding_or_invalid_key": {"attestation-key-mismatch", "attestation-key-invalid"},
    "attestation_key_binding": {"attestation-key-mismatch"},
    "qe_report_signature": {"qe-report-signature-invalid"},
    "cert_chain_or_cert_parse": {
        "certificate-malformed",
        "certificate-signature-invalid",
        "base64-invalid",
        "pck-malformed",
        "qe-report-signature-invalid",
    },
    "unsupported_key_type": {"quote-key-type-unsupported"},
    "unsupported_tee_type": {"quote-tee-type-unsupported"},
    "unsupported_version": {"quote-version-unsupported"},
    "unsupported_certification_data": {"quote-certification-data-unsupported"},
    "qe_vendor_or_quote_signature": {"quote-vendor-unsupported"},
    "format_or_unsupported": {"quote-tee-type-unsupported"},
    "format_or_signature": {"quote-truncated", "quote-certification-data-unsupported"},
    "format": {"quote-body-type-unsupported", "quote-length-mismatch", "quote-truncated"},
    "truncated": {"quote-truncated"},
}


@pytest.mark.parametrize("case", ALTERED, ids=lambda case: case["id"])
def test_a_case_of_the_manifest_comes_out_as_it_says(case: dict[str, Any], vectors_dir: Path) -> None:
    base = of_id(case["base"])
    data, at = apply(case, base.read(vectors_dir)), base.times[0]
    if "expect_error" in case:
        assert refused(data, anchors=TrustAnchors.vendors().anchors, at=at).code in CODES[case["expect_error"]]
    else:
        assert authentic(data, anchors=TrustAnchors.vendors().anchors, at=at).quote.padding


# -- any chain at all


@given(st.integers(0, len(CHAIN) - 1), st.integers(0, 255))
def test_a_changed_chain_is_authentic_only_with_the_same_certificates(at: int, value: int) -> None:
    changed = bytearray(CHAIN)
    changed[at] = value
    try:
        found = authentic(MadeQuote(certification_data=bytes(changed)))
    except AttestError as exc:
        assert exc.exit_code in {3, 4, 5}  # noqa: PT017  either outcome is fine
    else:
        assert [certificate.der for certificate in found.chain.certificates] == [PCK, CA]
