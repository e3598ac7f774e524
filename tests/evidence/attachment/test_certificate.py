"""A certificate that carries a quote: what is bound is its key, and nothing else of it."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import cbor_bytes
from attest.endorsements.x509 import Extension
from attest.errors import AttestError, UnsupportedError
from attest.evidence.input_files import read_evidence
from attest_simulator import der
from attest_simulator.intel.attested_certificate import (
    OIDS,
    CertificateForm,
    attested_certificate,
    dice_claims,
    evidence_extension,
    tls_key,
)
from attest_simulator.intel.keys import spki_of
from tests.evidence.attachment.wild import ENCLAVE, TD, ZEROS, verified
from tests.evidence.test_input_files import pem

SPKI = spki_of(tls_key())
OTHER = ec.derive_private_key(99, ec.SECP256R1())
FORMS: tuple[CertificateForm, ...] = ("dice", "ra-tls", "dstack")


def refused(data: bytes) -> AttestError:
    with pytest.raises(AttestError) as caught:
        verified(data)
    return caught.value


def held(oid: str, value: bytes) -> bytes:
    return attested_certificate(Extension(oid=oid, critical=False, value=value))


@pytest.mark.parametrize("form", FORMS)
def test_the_key_is_a_claim(form: CertificateForm) -> None:
    claims = verified(attested_certificate(evidence_extension(form, TD.quote, spki=SPKI))).items[0].claims
    names = {"dice": "TCG DICE", "ra-tls": "RA-TLS", "dstack": "dstack"}
    assert isinstance(certificate := claims["certificate"], dict)
    assert (certificate["form"], len(str(certificate["spki_sha256"]))) == (names[form], 64)


@pytest.mark.parametrize("form", FORMS)
def test_a_certificate_of_another_key_is_refused(form: CertificateForm) -> None:
    extension = evidence_extension(form, TD.quote, spki=SPKI)
    error = refused(attested_certificate(extension, key=OTHER))
    assert (error.code, error.exit_code, error.check) == ("certificate-key-mismatch", 4, "certificate.key")


def test_claims_that_name_the_key_do_not_count_when_the_quote_does_not_commit_to_them() -> None:
    quote = evidence_extension("dice", lambda _: TD.quote(ZEROS), spki=SPKI)
    error = refused(attested_certificate(quote))
    assert (error.code, error.field) == ("certificate-key-mismatch", "REPORT_DATA")


def test_the_nonce_among_the_claims_is_shown() -> None:
    extension = evidence_extension("dice", TD.quote, spki=SPKI, nonce=b"\x01\x02")
    claims = verified(attested_certificate(extension)).items[0].claims["certificate"]
    assert isinstance(claims, dict)
    assert claims["claims"] == {"nonce": "0102"}


def test_other_claims_are_shown_as_text() -> None:
    entry = cbor_bytes((1, hashlib.sha256(SPKI).digest()))
    claims = cbor_bytes({"pubkey-hash": entry, "a": "text", "b": 7, "c": True, "d": ()})
    quote = TD.quote(hashlib.sha256(claims).digest().ljust(64, b"\0"))
    data = held(OIDS["dice"], bytes.fromhex("d9ea60") + cbor_bytes((quote, claims)))
    certificate = verified(data).items[0].claims["certificate"]
    assert isinstance(certificate, dict)
    assert certificate["claims"] == {"a": "text", "b": "7", "c": "another value", "d": "another value"}


def test_of_two_forms_the_first_of_the_table_counts() -> None:
    both = [evidence_extension(form, ENCLAVE.quote, spki=SPKI) for form in ("ra-tls", "dice")]
    claims = verified(attested_certificate(*both)).items[0].claims["certificate"]
    assert isinstance(claims, dict)
    assert claims["form"] == "TCG DICE"


def test_pem_and_hex_are_read_alike_and_issuers_may_follow() -> None:
    certificate = attested_certificate(evidence_extension("ra-tls", TD.quote, spki=SPKI))
    plain = verified(certificate).items[0].claims
    assert verified(pem(certificate)).items[0].claims == plain
    assert verified(certificate.hex().encode()).items[0].claims == plain
    chain = pem(certificate, attested_certificate())
    found = read_evidence([("chain", chain)], form="tdx-quote").evidence
    assert ([item.name for item in found.items], len(found.presented.certificates)) == (["cpu", "certificate"], 1)


@pytest.mark.parametrize("digest", [1, 7, 8])
def test_three_digests_of_the_key_are_understood(digest: int) -> None:
    name = {1: "sha256", 7: "sha384", 8: "sha512"}[digest]
    claims = cbor_bytes({"pubkey-hash": cbor_bytes((digest, hashlib.new(name, SPKI).digest()))})
    quote = TD.quote(hashlib.sha256(claims).digest().ljust(64, b"\0"))
    assert verified(held(OIDS["dice"], bytes.fromhex("d9ea60") + cbor_bytes((quote, claims)))).items


TAG = bytes.fromhex("d9ea60")
MALFORMED: dict[str, tuple[str, bytes, str]] = {
    "dice, no CBOR": ("dice", b"\xff", "cbor-invalid"),
    "dice, no array": ("dice", TAG + cbor_bytes(b"x"), "certificate-evidence-malformed"),
    "dice, three members": ("dice", TAG + cbor_bytes((b"x", b"y", b"z")), "certificate-evidence-malformed"),
    "dice, claims of another type": ("dice", TAG + cbor_bytes((b"x", cbor_bytes(1))), "certificate-evidence-malformed"),
    "dice, no key": ("dice", TAG + cbor_bytes((b"x", cbor_bytes({"nonce": b""}))), "certificate-evidence-malformed"),
    "dice, unknown digest": (
        "dice",
        TAG + cbor_bytes((b"x", cbor_bytes({"pubkey-hash": cbor_bytes((2, b""))}))),
        "certificate-evidence-malformed",
    ),
    "dice, a truth for a digest": (
        "dice",
        TAG + cbor_bytes((b"x", cbor_bytes({"pubkey-hash": cbor_bytes((True, b""))}))),
        "certificate-evidence-malformed",
    ),
    "dice, quote cut": ("dice", TAG + cbor_bytes((b"x", dice_claims(SPKI))), "quote-truncated"),
    "ra-tls, quote cut": ("ra-tls", TD.quote(ZEROS)[:400], "quote-truncated"),
    "dstack, no octets": ("dstack", TD.quote(ZEROS), "certificate-evidence-malformed"),
    "dstack, octets and more": ("dstack", der.octet_string(b"x") + b"\0", "certificate-evidence-malformed"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_evidence_that_is_not_of_its_form_is_malformed(name: str) -> None:
    form, value, code = MALFORMED[name]
    error = refused(held(OIDS[form], value))  # type: ignore[index]  # a name of the table
    assert (error.code, error.exit_code) == (code, 3)


@pytest.mark.parametrize(
    ("oid", "value", "name"),
    [
        (OIDS["dice"], cbor_bytes((b"x", b"y")), "no tag"),
        (OIDS["dice"], bytes.fromhex("d9ea61") + cbor_bytes((b"x", b"y")), "tag 60001"),
        ("1.2.840.113556.10.1.1", b"x", "Open Enclave certificate"),
        ("1.3.6.1.4.1.311.105.2", b"x", "Open Enclave certificate"),
        ("1.3.6.1.5.5.7.1.35", b"x", "conceptual message wrapper"),
    ],
)
def test_evidence_of_another_kind_is_called_by_its_name(oid: str, value: bytes, name: str) -> None:
    for data in (held(oid, value), pem(held(oid, value))):
        error = refused(data)
        assert isinstance(error, UnsupportedError)
        assert (error.code, name in error.message) == ("evidence-unsupported", True)


def test_pem_that_is_no_base64_holds_no_evidence() -> None:
    assert refused(b"-----BEGIN CERTIFICATE-----\nMIIA=AAA\n-----END CERTIFICATE-----\n").exit_code == 3


def test_a_certificate_item_without_evidence_is_unsupported() -> None:
    from attest.endorsements.x509 import parse_certificate
    from attest.evidence.attachment.certificate import carried_quote

    with pytest.raises(UnsupportedError, match="without evidence"):
        carried_quote(parse_certificate(attested_certificate()))
