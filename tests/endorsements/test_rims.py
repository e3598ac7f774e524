"""RIMs as files and as answers of NVIDIA's service: known by their first element, compared with their digest."""

import json
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.rims import (
    MAX_RIM_BYTES,
    RimDocument,
    is_rim_id,
    looks_like_rim,
    looks_like_rim_answer,
    parse_rim_answer,
    read_rim_document,
)
from attest.errors import EvidenceError

XML = b"<SoftwareIdentity/>"
ID = "NV_GPU_VBIOS_1010_0200_882_96005E0001"


def answer(xml: bytes = XML, **members: object) -> bytes:
    whole = {"id": ID, "rim": b64encode(xml).decode(), "sha256": sha256(xml).hexdigest(), **members}
    return json.dumps(whole).encode()


def refusal(data: bytes) -> str:
    with pytest.raises(EvidenceError) as raised:
        parse_rim_answer(data)
    return raised.value.code


@pytest.mark.parametrize(
    "data",
    [
        XML,
        b"\xef\xbb\xbf" + XML,
        b'\r\n<?xml version="1.0"?>\n' + XML,
        b"<ns0:SoftwareIdentity xmlns:ns0='x'>",
        b"<SoftwareIdentity>",
        b"<SoftwareIdentity\n",
    ],
)
def test_a_rim_is_known_by_its_first_element(data: bytes) -> None:
    assert looks_like_rim(data)
    assert read_rim_document(data) == RimDocument(xml=data)


@pytest.mark.parametrize(
    "data", [b"", b"<", b"<html><SoftwareIdentity/>", b"<SoftwareIdentityX/>", b"<a:b:SoftwareIdentity/>", b"x" + XML]
)
def test_other_documents_are_none(data: bytes) -> None:
    assert not looks_like_rim(data)
    with pytest.raises(EvidenceError) as raised:
        read_rim_document(data)
    assert raised.value.code == "rim-malformed"


def test_a_rim_has_a_greatest_length() -> None:
    longest = XML + b" " * (MAX_RIM_BYTES - len(XML))
    assert read_rim_document(longest).xml == longest
    assert parse_rim_answer(answer(longest)).document.xml == longest
    with pytest.raises(EvidenceError, match=f"at most {MAX_RIM_BYTES} bytes"):
        read_rim_document(longest + b" ")
    assert refusal(answer(longest + b" ")) == "rim-malformed"


def test_an_answer_is_recognised_behind_at_most_63_blanks() -> None:
    assert looks_like_rim_answer(b" \n" * 31 + b" " + answer())
    assert not looks_like_rim_answer(b" \n" * 32 + answer())
    assert not looks_like_rim_answer(b"[" + answer() + b"]")


def test_an_answer_gives_id_and_document_and_other_members_say_nothing() -> None:
    for data in (answer(), answer(request_id="1", rim_format="SWID", more=[1])):
        assert looks_like_rim_answer(data)
        read = parse_rim_answer(data)
        assert (read.id, read.document.xml) == (ID, XML)
        assert read.document.sha256 == sha256(XML).digest()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "json-invalid"),
        (b"[]", "rim-answer-malformed"),
        (b"{}", "rim-answer-malformed"),
        (answer()[:-1] + b',"id":"x"}', "json-invalid"),
        (answer(id=1), "rim-answer-malformed"),
        (answer(rim=None), "rim-answer-malformed"),
        (answer(sha256=1), "rim-answer-malformed"),
        (answer(id="NV_"), "rim-answer-malformed"),
        (answer(sha256="0" * 64), "rim-answer-malformed"),
        (answer(sha256=sha256(XML).hexdigest() + "00"), "hex-invalid"),
        (answer(rim="PA"), "base64-invalid"),
        (answer(b""), "rim-malformed"),
    ],
)
def test_an_answer_with_anything_wrong_is_none(data: bytes, code: str) -> None:
    assert refusal(data) == code


@pytest.mark.parametrize("name", [ID, "NV_GPU_DRIVER_GH100_550.144.03", "NV_" + "x" * 125])
def test_an_id_is_one_word(name: str) -> None:
    assert is_rim_id(name)


@pytest.mark.parametrize(
    "name", ["", "NV_", "GPU", "NV_../ids", "NV_a b", "NV_a%2f", "NV_ä", "NV_a\n", "NV_" + "x" * 126]
)
def test_nothing_else_becomes_part_of_an_address(name: str) -> None:
    assert not is_rim_id(name)


@given(st.binary(max_size=80), st.dictionaries(st.sampled_from(["id", "rim", "sha256", "x"]), st.text(max_size=9)))
def test_any_bytes_at_all_are_an_answer_or_refused(data: bytes, members: dict[str, str]) -> None:
    looks_like_rim(data)
    looks_like_rim_answer(data)
    for attempt in (data, json.dumps(members).encode()):
        with pytest.raises(EvidenceError):
            parse_rim_answer(attempt)
