"""Intel's collateral is found in every form in which others keep it."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.x509 import parse_crl
from attest.evidence.endorsement_files import EndorsementFiles, read_endorsements
from attest.evidence.intel.collateral_forms import (
    MAX_COLLATERAL_BYTES,
    der_without_padding,
    hex_text_of,
    looks_like_collateral,
    read_collateral,
)
from tests.endorsements import made as made_pem
from tests.evidence.intel_collateral import made_intel as made

CHAIN = (made_pem.pem("CERTIFICATE", made.SIGNING.der) + made_pem.pem("CERTIFICATE", made.PLATFORM_CA.der)).decode()
LIST = made.PCK_CRL.der
INFO, IDENTITY = made.INFO, made.IDENTITY
NOTHING = "no certificate, revocation list, certificate table, RIM, OCSP answer or endorsement bundle"


def answer(member: str, body: bytes, signature: bytes) -> bytes:
    return b'{"%s":%s,"signature":"%s"}' % (member.encode(), body, signature.hex().encode())


TCB_ANSWER = answer("tcbInfo", INFO.body, INFO.signature)
QE_ANSWER = answer("enclaveIdentity", IDENTITY.body, IDENTITY.signature)
PHALA: dict[str, Any] = {
    "pck_crl_issuer_chain": CHAIN,
    "root_ca_crl": made.ROOT_CRL.der.hex(),
    "pck_crl": LIST.hex(),
    "tcb_info_issuer_chain": CHAIN,
    "tcb_info": INFO.body.decode(),
    "tcb_info_signature": INFO.signature.hex(),
    "qe_identity_issuer_chain": CHAIN,
    "qe_identity": IDENTITY.body.decode(),
    "qe_identity_signature": IDENTITY.signature.hex(),
    "pck_certificate_chain": None,
}
PEM_LIST = made_pem.pem("X509 CRL", LIST).decode()
QVE: dict[str, Any] = {
    "version": 0x10003,
    "tee_type": 0x81,
    "pck_crl_issuer_chain": CHAIN + "\0",
    "root_ca_crl": made.ROOT_CRL.der.hex() + "\0",
    "pck_crl": PEM_LIST + "\0",
    "tcb_info_issuer_chain": quote(CHAIN) + "\0",
    "tcb_info": TCB_ANSWER.decode() + "\0",
    "qe_identity_issuer_chain": CHAIN,
    "qe_identity": QE_ANSWER.decode(),
}


def read(*contents: bytes | dict[str, Any]) -> EndorsementFiles:
    files = [(f"file{i}", c if isinstance(c, bytes) else json.dumps(c).encode()) for i, c in enumerate(contents)]
    return read_endorsements(files, at=made.MIDDLE)


def held(found: EndorsementFiles) -> tuple[set[str | None], set[bytes], set[bytes]]:
    pool = found.endorsements
    return (
        {certificate.common_name for certificate in pool.certificates},
        {crl.der for crl in pool.crls},
        {document.body + document.signature for document in pool.documents},
    )


EVERYTHING = (
    {made.SIGNING.common_name, made.CA},
    {made.ROOT_CRL.der, LIST},
    {INFO.body + INFO.signature, IDENTITY.body + IDENTITY.signature},
)


@pytest.mark.parametrize("whole", [PHALA, QVE], ids=["dcap-qvl", "QVE"])
def test_a_json_bundle_gives_everything_in_it(whole: dict[str, Any]) -> None:
    found = read(whole)
    assert (found.warnings, found.notes) == ((), ())
    assert held(found) == EVERYTHING
    padded = read(b"\n  " + json.dumps(whole, indent=2).encode() + b"\n\0")
    assert held(padded) == EVERYTHING


@pytest.mark.parametrize("blank", [b"", b"\n", b"\0", b"\r\n\0"])
def test_a_folder_of_raw_answers_gives_the_same(blank: bytes) -> None:
    found = read(
        TCB_ANSWER + blank.rstrip(b"\0"),
        QE_ANSWER + blank.rstrip(b"\0"),
        made.ROOT_CRL.der + blank,
        LIST.hex().encode() + blank,
        quote(CHAIN).encode() + blank,
    )
    assert (found.warnings, found.notes) == ((), ())
    assert held(found) == EVERYTHING


@pytest.mark.parametrize(
    "content",
    [
        LIST,
        LIST + b"\0",
        LIST + b"\r\n\0\0",
        LIST.hex().encode(),
        LIST.hex().upper().encode() + b"\n\0",
        PEM_LIST.encode(),
        PEM_LIST.encode() + b"\0",
    ],
)
def test_a_list_may_be_binary_hex_or_pem_with_padding(content: bytes) -> None:
    found = read(content)
    assert (found.warnings, found.notes) == ((), ())
    assert [crl.der for crl in found.endorsements.crls] == [LIST]


@pytest.mark.parametrize("tail", [b"x", b"\0x", b"\0" + LIST])
def test_anything_else_behind_a_list_is_refused(tail: bytes) -> None:
    found = read(LIST + tail, LIST.hex().encode() + tail.hex().encode())
    assert found.endorsements.crls == ()
    assert len(found.warnings) == 2


def test_only_what_stands_behind_the_stated_length_is_cut() -> None:
    """A signature may end in NUL: cutting those would break it."""
    element = b"\x30\x03\x01\x00\x00"
    assert der_without_padding(element) == der_without_padding(element + b"\0\n") == element
    for whole in (b"", b"\x30", b"\x30\x05\x01", b"\x30\x82", b"\x30\x84\xff\xff\xff\xff\0"):
        assert der_without_padding(whole) == whole


def test_hex_of_a_certificate_is_read_too_and_other_hex_is_passed_over() -> None:
    found = read(made.SIGNING.der.hex().encode(), b"3082" * 9, b"00" * 20, LIST.hex().encode()[:-1])
    assert [c.der for c in found.endorsements.certificates] == [made.SIGNING.der]
    assert [note.partition(": ")[2] for note in found.notes] == [NOTHING] * 3
    assert hex_text_of(b"30 82 01 02 03 04") is None


def test_headers_of_the_service_give_their_chains() -> None:
    header = b"HTTP/1.1 200 OK\r\nTCB-Info-Issuer-Chain: " + quote(CHAIN, safe="").encode() + b"\r\nX: y\r\n"
    assert {c.common_name for c in read(header).endorsements.certificates} == EVERYTHING[0]


@pytest.mark.parametrize(
    ("key", "value", "warning"),
    [
        ("pck_crl", "zz", "pck_crl: CRL: expected pairs of hex digits"),
        ("pck_crl", "", None),
        ("pck_crl", 7, "pck_crl: expected text"),
        ("pck_crl", made.SIGNING.der.hex(), "pck_crl: crl cannot be read"),
        ("pck_crl", PEM_LIST[:-20], "pck_crl: expected one PEM list, got 0"),
        ("pck_crl", PEM_LIST * 2, "pck_crl: expected one PEM list, got 2"),
        ("tcb_info", "{", "tcb_info: tcbInfo is not one strict JSON document"),
        ("tcb_info", "", None),
        ("tcb_info_signature", "ab", "tcb_info: tcb-info signature: expected 64 bytes of hex"),
        ("tcb_info_signature", None, "tcb_info: tcb-info signature: expected 64 bytes of hex"),
        (
            "qe_identity",
            made.raw(made.qe_identity(version=1)).decode(),
            "qe_identity: enclaveIdentity.version: expected 2",
        ),
        ("qe_identity", None, None),
        ("tcb_info_issuer_chain", "none", "tcb_info_issuer_chain: expected 1 to 16 PEM certificates, got 0"),
        ("tcb_info_issuer_chain", PEM_LIST, "tcb_info_issuer_chain: expected 1 to 16 PEM certificates, got 1"),
        ("tcb_info_issuer_chain", CHAIN * 9, "tcb_info_issuer_chain: expected 1 to 16 PEM certificates, got 18"),
        (
            "tcb_info_issuer_chain",
            made_pem.pem("CERTIFICATE", b"garbage").decode(),
            "tcb_info_issuer_chain: certificate cannot be read",
        ),
    ],
)
def test_one_broken_part_takes_no_other_along(key: str, value: object, warning: str | None) -> None:
    found = read({**PHALA, key: value})
    if warning is None:
        assert found.warnings == ()
    else:
        (told,) = found.warnings
        assert told.startswith(f"file0: {warning}")
    assert len(held(found)[1]) == (1 if key == "pck_crl" else 2)
    assert len(held(found)[2]) == (1 if key.startswith(("tcb_info", "qe_identity")) and "chain" not in key else 2)
    assert held(found)[0] == EVERYTHING[0]


def test_an_answer_that_cannot_be_read_is_a_warning() -> None:
    for content in (answer("tcbInfo", b"{}", bytes(64)), b'{"tcbInfo":{}}', b'{"tcb_info":', TCB_ANSWER[:-9]):
        found = read(content)
        assert len(found.warnings) == 1
        assert held(found) == (set(), set(), set())


def test_the_same_names_deeper_inside_are_something_else() -> None:
    for other in ({"files": [PHALA]}, {"about": "x", "qe": {"tcbInfo": 1}}):
        found = read(other)
        assert (found.warnings, found.notes) == ((), (f"file0: {NOTHING}",))
    assert not looks_like_collateral(b'{"tcb_info_version": 3}')


def test_collateral_is_recognised_behind_at_most_63_blanks() -> None:
    text = json.dumps(PHALA).encode()
    assert looks_like_collateral(b" \n" * 31 + b" " + text)
    assert not looks_like_collateral(b" \n" * 32 + text)
    assert not looks_like_collateral(b"[" + text + b"]")


def test_a_bundle_that_is_too_large_is_passed_over() -> None:
    text = json.dumps(PHALA).encode()
    longest = text + b" " * (MAX_COLLATERAL_BYTES - len(text))
    assert held(read(longest)) == EVERYTHING
    (warning,) = read(longest + b" ").warnings
    assert warning == f"file0: collateral: {MAX_COLLATERAL_BYTES + 1} bytes, more than {MAX_COLLATERAL_BYTES}"


@pytest.mark.parametrize("whole", [json.dumps(PHALA).encode(), TCB_ANSWER, LIST.hex().encode(), quote(CHAIN).encode()])
@given(data=st.data())
def test_damage_anywhere_gives_a_result_with_a_reason(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]
    found = read(damaged)
    assert any(held(found)) or found.warnings or found.notes


@given(st.binary(max_size=60))
def test_any_file_at_all_gives_a_result(tail: bytes) -> None:
    read(b'{"tcbInfo":' + tail, b"3082" + tail.hex().encode(), b"-----BEGIN%20CERTIFICATE-----" + tail, tail)
    der_without_padding(tail)


def test_every_recorded_file_of_collateral_is_read(vectors_dir: Path) -> None:
    files = [path for path in sorted((vectors_dir / "collateral").rglob("*")) if path.name != "MANIFEST.json"]
    for path in files:
        if path.is_file():
            found = read(path.read_bytes())
            assert (found.warnings, found.notes) == ((), ())
            assert any(held(found))
    whole = json.loads((vectors_dir / "collateral" / "tdx-b0c06f000000-2025-06.json").read_bytes())
    reading = read_collateral(json.dumps(whole).encode())
    assert reading is not None
    parts = reading.found
    assert (len(parts.certificates), len(parts.crls), len(parts.documents)) == (6, 2, 2)
    assert parse_crl(bytes.fromhex(whole["pck_crl"])).der == parts.crls[1].der
