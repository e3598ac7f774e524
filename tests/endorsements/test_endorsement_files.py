"""Files with endorsements are known by their content, and what is wrong with one never touches another."""

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.bundle import build_bundle, sign_bundle
from attest.endorsements.bundle_records import BundleEntry, BundleKeys, ParsedBundle
from attest.endorsements.chains import require_current_crl
from attest.endorsements.ocsp import require_not_revoked
from attest.endorsements.rims import MAX_RIM_ANSWER_BYTES, MAX_RIM_BYTES
from attest.endorsements.x509 import Issuer
from attest.errors import EndorsementError, RevokedError
from attest.evidence import endorsement_files
from attest.evidence.endorsement_files import MAX_FILE_BYTES, MAX_PEM_BLOCKS, EndorsementFiles, read_endorsements
from attest.evidence.snp.certificate_table import TableEntry, encode_certificate_table
from tests.endorsements import made, made_ocsp
from tests.endorsements.made_ocsp import ISSUER, SUBJECT, Made

AT = datetime(2026, 3, 10, tzinfo=UTC)
ONE, TWO = made.certificate(serial=1), made.certificate(serial=2)
LIST = made.crl(revoked=(5,))
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def read(*contents: bytes, **arguments: object) -> EndorsementFiles:
    files = [(f"file{i}", content) for i, content in enumerate(contents)]
    return read_endorsements(files, at=AT, **arguments)  # type: ignore[arg-type]  # the keyword of the caller


def serials(found: EndorsementFiles) -> list[int]:
    return [certificate.serial for certificate in found.endorsements.certificates]


def bundle(*, created: datetime = AT, days: int = 30) -> ParsedBundle:
    entries = (
        BundleEntry(kind="amd-vcek", source="https://kds.example/1", data=ONE),
        BundleEntry(kind="amd-crl", source="https://kds.example/2", data=LIST),
    )
    return build_bundle(entries, created=created, expires=created + timedelta(days=days))


def table(*entries: tuple[str, bytes]) -> bytes:
    return encode_certificate_table(tuple(TableEntry(kind=kind, data=data) for kind, data in entries))


# -- each form


def test_a_der_certificate_and_a_der_list_are_told_apart() -> None:
    found = read(ONE, LIST, TWO)
    assert serials(found) == [1, 2]
    assert [crl.der for crl in found.endorsements.crls] == [LIST]
    assert (found.warnings, found.notes) == ((), ())


def test_a_pem_file_may_mix_certificates_lists_and_text() -> None:
    text = b"Subject: x\n" + made.pem("CERTIFICATE", ONE) + b"and\n" + made.pem("X509 CRL", LIST) + b"\n"
    found = read(text + made.pem("CERTIFICATE", TWO), made.pem("CERTIFICATE", TWO).replace(b"\n", b"\r\n"))
    assert serials(found) == [1, 2]
    assert len(found.endorsements.crls) == 1
    assert (found.warnings, found.notes) == ((), ())


def test_a_certificate_table_gives_its_certificates_and_its_list() -> None:
    found = read(table(("VCEK", ONE), ("ASK", TWO), ("CRL", LIST), ("PLATFORM", bytes(8))))
    assert serials(found) == [1, 2]
    assert len(found.endorsements.crls) == 1
    assert (found.warnings, found.notes) == ((), ())


def test_a_bundle_gives_what_it_holds_signed_or_not() -> None:
    for whole in (bundle().to_bytes(), sign_bundle(bundle(), KEY).to_bytes()):
        found = read(whole)
        assert serials(found) == [1]
        assert len(found.endorsements.crls) == 1
        assert (found.warnings, found.notes) == ((), ())


def test_the_real_files_of_each_form_are_read(vectors_dir: Path) -> None:
    files = [
        (path.name, path.read_bytes())
        for path in sorted((vectors_dir / "sev-snp").rglob("*"))
        if path.suffix == ".der" or path.name == "auxblob.bin"
    ]
    found = read_endorsements(files, at=AT)
    assert (found.warnings, found.notes) == ((), ())
    names = {certificate.common_name for certificate in found.endorsements.certificates}
    assert {"ARK-Milan", "SEV-Genoa", "SEV-VLEK-Turin", "SEV-VCEK", "SEV-VLEK"} <= names
    assert {crl.issuer_common_name for crl in found.endorsements.crls} == {"ARK-Milan", "ARK-Genoa"}


RIM = b'<?xml version="1.0" encoding="UTF-8"?>\n<SoftwareIdentity xmlns="x"/>'
ANSWER = Made().der()


def rim_answer(xml: bytes = RIM, **members: object) -> bytes:
    whole = {"id": "NV_GPU_DRIVER_GH100_575.57.08", "rim": b64encode(xml).decode(), "sha256": sha256(xml).hexdigest()}
    return json.dumps({**whole, "request_id": "x", "rim_format": "SWID", **members}).encode()


@pytest.mark.parametrize("content", [RIM, rim_answer(), b" \n" + rim_answer()], ids=["xml", "json", "blanks"])
def test_a_rim_is_found_as_it_was_signed_or_in_the_answer_of_the_service(content: bytes) -> None:
    found = read(content, ONE)
    assert [rim.xml for rim in found.endorsements.rims] == [RIM]
    assert serials(found) == [1]
    assert (found.warnings, found.notes) == ((), ())


@pytest.mark.parametrize("content", [ANSWER, ANSWER.hex().encode() + b"\n"], ids=["der", "hex"])
def test_an_ocsp_answer_is_told_from_certificates_and_lists(content: bytes) -> None:
    found = read(ONE, content, LIST)
    assert [answer.der for answer in found.endorsements.ocsp] == [ANSWER]
    assert (serials(found), len(found.endorsements.crls)) == ([1], 1)
    assert (found.warnings, found.notes) == ((), ())


def test_a_bundle_gives_its_rims_and_answers_and_an_expired_one_only_what_it_revokes() -> None:
    negative = replace(Made(), status="revoked", reason=1)
    entries = (
        BundleEntry(kind="nvidia-rim", source="https://rim.example/1", data=rim_answer()),
        BundleEntry(kind="nvidia-ocsp", source="https://ocsp.example/", data=ANSWER),
        BundleEntry(kind="nvidia-ocsp", source="https://ocsp.example/", data=negative.der()),
    )
    whole = build_bundle(entries, created=AT, expires=AT + timedelta(days=30)).to_bytes()
    found = read(whole)
    assert ([rim.xml for rim in found.endorsements.rims], len(found.endorsements.ocsp)) == ([RIM], 2)
    assert found.warnings == ()
    expired = build_bundle(entries, created=AT - timedelta(days=2), expires=AT).to_bytes()
    for contents in ((expired,), (expired, ANSWER), (ANSWER, expired)):
        late = read(*contents).endorsements
        assert late.rims == ()
        with pytest.raises(RevokedError):
            require_not_revoked(SUBJECT, ISSUER, answers=late.ocsp, crls=(), at=made_ocsp.AT)
        current = [answer.status for answer in late.ocsp if answer.is_current(made_ocsp.AT)]
        assert current == ([] if contents == (expired,) else ["good"])


def test_the_recorded_rims_are_found_as_files_and_as_answers_of_the_service(vectors_dir: Path) -> None:
    files = [
        (path.name, path.read_bytes())
        for path in sorted((vectors_dir / "nvidia").rglob("*.xml"))
        if "negative" not in path.parent.name
    ]
    found = read_endorsements(files, at=AT)
    assert {rim.xml for rim in found.endorsements.rims} == {data for _, data in files} != set()
    assert (found.warnings, found.notes) == ((), ())
    again = read_endorsements([(name, rim_answer(data)) for name, data in files], at=AT)
    assert again.endorsements.rims == found.endorsements.rims


# -- what does not belong


def private_key() -> bytes:
    return made.ROOT_KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"0",
        b"0\x80",
        b"hello",
        b"{}",
        b'{"vcekCert": "-----BEGIN CERTIFICATE-----\\nMIIE\\n-----END CERTIFICATE-----"}',
        bytes(1184),
        bytes([2]) + bytes(1183),
        private_key(),
        made.spki(made.ROOT_KEY),
        b"\xa1\x61a\x01",
    ],
    ids=made.label,
)
def test_what_is_no_endorsement_is_passed_over_with_a_note(content: bytes) -> None:
    found = read(content, ONE)
    assert serials(found) == [1]
    assert found.warnings == ()
    assert found.notes == (
        "file0: no certificate, revocation list, certificate table, RIM, OCSP answer or endorsement bundle",
    )


def test_other_pem_blocks_are_passed_over_with_a_note() -> None:
    found = read(made.pem("PRIVATE KEY", private_key()) + made.pem("CERTIFICATE", ONE))
    assert serials(found) == [1]
    assert found.warnings == ()
    assert found.notes == ("file0, PEM block 1: PRIVATE KEY is not an endorsement",)


# -- what is malformed


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (ONE[:-1], "file0: certificate cannot be read"),
        (ONE + b"\n", "file0: certificate cannot be read"),
        (LIST[:-1], "file0: crl cannot be read"),
        (made.pem("CERTIFICATE", b"garbage"), "file0, PEM block 1: certificate cannot be read"),
        (made.pem("X509 CRL", ONE), "file0, PEM block 1: crl cannot be read"),
        (made.pem("CERTIFICATE", ONE)[:-20], "file0, PEM block 1: CERTIFICATE without its end"),
        (
            b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
            "file0, PEM block 1: CERTIFICATE without its end",
        ),
        (b"-----BEGIN X509 CRL-----\nA\n-----END X509 CRL-----", "file0, PEM block 1: PEM X509 CRL: expected base64"),
        (table(("VCEK", b"garbage")), "file0, VCEK of the certificate table: certificate cannot be read"),
        (table(("CRL", ONE)), "file0, CRL of the certificate table: crl cannot be read"),
        (table(("VCEK", ONE))[:40], "file0: certificate table"),
        (bundle().to_bytes()[:-1], "file0: bundle is not canonical CBOR"),
        (RIM + b" " * MAX_RIM_BYTES, f"file0: rim: expected at most {MAX_RIM_BYTES} bytes"),
        (rim_answer(sha256="00" * 32), "file0: sha256 of the RIM service's answer: expected"),
        (rim_answer(sha256="00"), "file0: sha256: expected 32 bytes of hex"),
        (rim_answer(rim="?"), "file0: rim: expected base64"),
        (rim_answer(xml=b"<html/>"), "file0: rim: expected the element SoftwareIdentity"),
        (rim_answer(id="../ids"), "file0: id of the RIM service's answer: expected the id of a RIM"),
        (rim_answer(id=None), "file0: body of the RIM service's answer: expected texts"),
        (rim_answer() + b"}", "file0: answer of the RIM service is not one strict JSON document"),
        (rim_answer() + b" " * MAX_RIM_ANSWER_BYTES, "file0: body of the RIM service's answer: expected at most"),
        (ANSWER[:-1], "file0: ocsp answer cannot be read"),
        (ANSWER + b"\0", "file0: ocsp answer cannot be read"),
        (b"\x30\x03\x0a\x01\x06", "file0: ocsp answer cannot be read: the responder refused: unauthorized"),
    ],
    ids=made.label,
)
def test_what_is_recognised_and_malformed_is_passed_over_with_a_warning(content: bytes, warning: str) -> None:
    found = read(content, TWO)
    assert serials(found) == [2]
    assert found.endorsements.crls == ()
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(warning)
    assert found.notes == ()


def test_one_broken_block_takes_none_of_its_neighbours_along() -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"
    open_end = b"-----BEGIN CERTIFICATE-----\nAAAA\n"
    found = read(made.pem("CERTIFICATE", ONE) + broken + open_end + made.pem("CERTIFICATE", TWO))
    assert serials(found) == [1, 2]
    assert len(found.warnings) == 2


# -- bundles that must not be used


@pytest.mark.parametrize(
    ("whole", "keys", "code"),
    [
        (bundle(created=AT - timedelta(days=30)), None, "bundle-expired"),
        (bundle(created=AT + timedelta(seconds=1)), None, "bundle-not-yet-valid"),
        (bundle(), BundleKeys(keys=(KEY.public_key(),)), "bundle-unsigned"),
        (sign_bundle(bundle(), KEY), BundleKeys(keys=()), "bundle-signature-invalid"),
    ],
    ids=made.label,
)
def test_a_bundle_that_must_not_be_used_gives_nothing_but_what_its_lists_revoke(
    whole: ParsedBundle, keys: BundleKeys | None, code: str
) -> None:
    found = read(whole.to_bytes()) if keys is None else read(whole.to_bytes(), bundle_keys=keys)
    assert serials(found) == []
    assert len(found.warnings) == 1
    assert found.warnings[0].endswith(f"({code})")
    root = Issuer(name="Made Root", subject=made.ROOT_NAME, spki=made.spki(made.ROOT_KEY))
    with pytest.raises(RevokedError):
        require_current_crl(found.endorsements.crls, root, serials=(5,), at=AT)
    with pytest.raises(EndorsementError) as refusal:
        require_current_crl(found.endorsements.crls, root, serials=(6,), at=AT)
    assert refusal.value.code == "crl-expired"


def test_a_list_that_is_also_at_hand_on_its_own_counts_in_full() -> None:
    expired = bundle(created=AT - timedelta(days=60)).to_bytes()
    for contents in ((expired, LIST), (LIST, expired)):
        (crl,) = read(*contents).endorsements.crls
        assert crl.is_current(AT)


def test_a_signed_bundle_of_a_listed_key_is_used() -> None:
    found = read(sign_bundle(bundle(), KEY).to_bytes(), bundle_keys=BundleKeys(keys=(KEY.public_key(),)))
    assert serials(found) == [1]
    assert found.warnings == ()


# -- limits


def test_the_moment_needs_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        read_endorsements([], at=AT.replace(tzinfo=None))


def test_a_file_that_is_too_long_is_passed_over() -> None:
    text = made.pem("CERTIFICATE", ONE)
    longest = text + b"\n" * (MAX_FILE_BYTES - len(text))
    assert serials(read(longest)) == [1]
    found = read(longest + b"\n", b"x" * (MAX_FILE_BYTES + 1))
    assert serials(found) == []
    assert found.warnings == (f"file0: {MAX_FILE_BYTES + 1} bytes, more than {MAX_FILE_BYTES}",)
    assert len(found.notes) == 1


def test_a_pem_file_with_too_many_blocks_is_passed_over() -> None:
    block = b"-----BEGIN X-----\n"
    assert len(read(block * MAX_PEM_BLOCKS).notes) == MAX_PEM_BLOCKS
    found = read(block * (MAX_PEM_BLOCKS + 1))
    assert found.warnings == (f"file0: {MAX_PEM_BLOCKS + 1} PEM blocks, more than {MAX_PEM_BLOCKS}",)
    assert found.notes == ()


def test_files_beyond_the_limit_are_left_out_with_one_warning() -> None:
    limit = endorsement_files.MAX_FILES
    found = read_endorsements([("x", b"")] * (limit + 5), at=AT)
    assert len(found.notes) == limit
    assert found.warnings == (f"x: this file and those after it are left out: more than {limit} files",)
    assert read_endorsements([("x", b"")] * limit, at=AT).warnings == ()


def test_endorsements_beyond_the_limit_are_left_out_with_one_warning() -> None:
    limit = endorsement_files.MAX_ENDORSEMENTS
    many = made.pem("CERTIFICATE", ONE) * 4096
    found = read_endorsements([("many", many)] * (limit // 4096) + [("more", TWO), ("most", TWO)], at=AT)
    assert serials(found) == [1]
    assert found.warnings == (
        f"more: this file and those after it are left out: more than {limit} certificates and lists",
    )


# -- anything at all


@given(st.lists(st.binary(max_size=120), max_size=3))
def test_any_files_at_all_give_a_result(contents: list[bytes]) -> None:
    read(*contents)
    read(*(bundle().to_bytes()[:60] + content for content in contents))


@pytest.mark.parametrize(
    "whole",
    [
        ONE,
        LIST,
        RIM,
        rim_answer(),
        ANSWER,
        made.pem("CERTIFICATE", ONE),
        table(("ASK", ONE), ("CRL", LIST)),
        bundle().to_bytes(),
    ],
    ids=made.label,
)
@given(data=st.data())
def test_damage_anywhere_gives_a_result_with_a_reason(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]
    found = read(damaged)
    pool = found.endorsements
    assert pool.certificates or pool.crls or pool.rims or pool.ocsp or found.warnings or found.notes


def test_the_order_of_files_decides_nothing_but_the_order() -> None:
    contents = [ONE, LIST, RIM, ANSWER, made.pem("CERTIFICATE", TWO), bundle().to_bytes()]
    forwards, backwards = read(*contents), read(*reversed(contents))
    assert sorted(serials(forwards)) == sorted(serials(backwards)) == [1, 2]
    assert {crl.der for crl in forwards.endorsements.crls} == {crl.der for crl in backwards.endorsements.crls}


def test_a_result_is_a_value() -> None:
    found = read(ONE)
    assert replace(found, notes=("x",)).notes == ("x",)
