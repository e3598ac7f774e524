"""The envelope: one collection in JSON or CBOR, the same evidence in either, strict in both."""

import contextlib
import json
from dataclasses import replace
from hashlib import sha384

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import CborValue, base64url_text, cbor_bytes
from attest.errors import EvidenceError
from attest.evidence.envelope import (
    COLLECTION_TYPE,
    MAX_DEPTH,
    MAX_ENVELOPE_BYTES,
    MAX_INDICATOR,
    MAX_ITEM_BYTES,
    MAX_ITEMS,
    MAX_MEDIA_TYPE_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MEDIA_BINDING,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
    parse_envelope,
)

EXAMPLE = Evidence(
    items=(
        EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=bytes(range(40))),
        EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=b"\xa0", indicator=4),
        EvidenceItem(name="other", media_type="text/plain", value=b"", indicator=0),
    )
)


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_envelope(data)
    return caught.value


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


# -- vectors of the draft


def test_the_record_of_the_draft_is_read_from_json() -> None:
    evidence = parse_envelope(b'["application/vnd.example.rats-conceptual-msg", "I0faVQ"]')
    (item,) = evidence.items
    assert (item.name, item.media_type) == ("cpu", "application/vnd.example.rats-conceptual-msg")
    assert (item.value, item.indicator) == (bytes.fromhex("2347da55"), 0)


def test_the_same_record_with_a_content_format_number_is_refused_by_what_is_missing() -> None:
    assert refused(bytes.fromhex("8219fde7442347da55")).code == "envelope-invalid"


def test_a_record_is_read_from_cbor() -> None:
    (item,) = parse_envelope(cbor_bytes(("application/vnd.example", b"\x23\x47", 4))).items
    assert (item.media_type, item.value, item.indicator) == ("application/vnd.example", b"\x23\x47", 4)


def test_the_collection_of_the_draft_is_read() -> None:
    evidence = parse_envelope(
        b'{"__cmwc_t": "tag:example.com,2024:another-composite-attester",'
        b' "attester A": ["application/eat-ucs+json", "e30K", 4], "attester B": ["application/eat-ucs+cbor", "oA", 4]}'
    )
    assert evidence.collection_type == "tag:example.com,2024:another-composite-attester"
    assert [(item.name, item.value, item.indicator) for item in evidence.items] == [
        ("attester A", b"{}\n", 4),
        ("attester B", b"\xa0", 4),
    ]


def test_nested_collections_are_flattened_with_their_names() -> None:
    record = ["text/plain", "eA"]
    evidence = parse_envelope(as_json({"a": {"__cmwc_t": "tag:x", "b": record, "c": {"d": record}}, "e": record}))
    assert [item.name for item in evidence.items] == ["a/b", "a/c/d", "e"]
    assert evidence.collection_type is None


@pytest.mark.parametrize(("depth", "accepted"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_collections_are_nested_to_a_limit(depth: int, accepted: bool) -> None:
    document: object = ["text/plain", "eA"]
    for _ in range(depth):
        document = {"a": document}
    if accepted:
        assert parse_envelope(as_json(document)).items[0].name == "/".join("a" * depth)
    else:
        assert "nested deeper" in refused(as_json(document)).message


# -- one evidence, two encodings


@pytest.mark.parametrize("encode", [Evidence.to_json, Evidence.to_cbor])
def test_evidence_reads_as_it_was_written(encode: object) -> None:
    parsed = parse_envelope(encode(EXAMPLE))  # type: ignore[operator]  # one of two methods
    assert {item.name: item for item in parsed.items} == {item.name: item for item in EXAMPLE.items}
    assert parsed.collection_type == COLLECTION_TYPE
    assert parsed.digest == EXAMPLE.digest


def test_the_cbor_form_is_that_of_another_writer() -> None:
    document = {
        "__cmwc_t": COLLECTION_TYPE,
        "cpu": [MEDIA_SNP_REPORT, bytes(range(40)), 4],
        "binding": [MEDIA_BINDING, b"\xa0", 4],
        "other": ["text/plain", b""],
    }
    assert EXAMPLE.to_cbor() == cbor2.dumps(document, canonical=True)


def test_the_json_form_is_that_of_another_writer() -> None:
    assert json.loads(EXAMPLE.to_json()) == {
        "__cmwc_t": COLLECTION_TYPE,
        "cpu": [MEDIA_SNP_REPORT, base64url_text(bytes(range(40))), 4],
        "binding": [MEDIA_BINDING, "oA", 4],
        "other": ["text/plain", ""],
    }


def test_the_json_form_has_a_line_for_each_value() -> None:
    written = Evidence(items=(EXAMPLE.items[2],)).to_json()
    assert written == b'{\n "__cmwc_t": "%b",\n "other": [\n  "text/plain",\n  ""\n ]\n}\n' % COLLECTION_TYPE.encode()


def test_a_stated_collection_type_is_kept() -> None:
    stated = replace(EXAMPLE, collection_type="tag:example.org,2026:mine")
    assert parse_envelope(stated.to_json()).collection_type == "tag:example.org,2026:mine"
    assert parse_envelope(stated.to_cbor()).collection_type == "tag:example.org,2026:mine"


# Categories that are not printable, or cannot be written at all.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
ITEMS = st.lists(
    st.builds(
        EvidenceItem,
        name=TEXT.filter(lambda name: name != "__cmwc_t"),
        media_type=TEXT,
        value=st.binary(max_size=64),
        indicator=st.integers(0, MAX_INDICATOR),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda item: item.name,
)


@given(ITEMS)
def test_any_evidence_is_the_same_in_json_and_in_cbor(items: list[EvidenceItem]) -> None:
    evidence = Evidence(items=tuple(items))
    from_json, from_cbor = parse_envelope(evidence.to_json()), parse_envelope(evidence.to_cbor())
    assert set(from_json.items) == set(from_cbor.items) == set(items)
    assert from_json.digest == from_cbor.digest == evidence.digest


@given(st.binary(max_size=64))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        evidence = parse_envelope(data)
        assert parse_envelope(evidence.to_cbor()).digest == evidence.digest


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["text/plain", "eA", "__cmwc_t", ""])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_an_envelope_or_refused(document: object) -> None:
    with contextlib.suppress(EvidenceError):
        evidence = parse_envelope(as_json(document))
        assert parse_envelope(evidence.to_json()).digest == evidence.digest


# -- refusals

REFUSED_JSON: list[tuple[object, str]] = [
    ({}, "0 items"),
    ([], "expected [media type, value]"),
    (["text/plain"], "expected [media type, value]"),
    (["text/plain", "eA", 4, 4], "expected [media type, value]"),
    ([1, "eA"], "a media type is text"),
    ([None, "eA"], "a media type is text"),
    (["", "eA"], "a media type is text of 1"),
    (["x" * (MAX_MEDIA_TYPE_CHARACTERS + 1), "eA"], "a media type is text of 1"),
    (["text/plain\x1b[2J", "eA"], "printable characters only"),
    (["text/plain", 1], "the value is base64url text"),
    (["text/plain", None], "the value is base64url text"),
    (["text/plain", ["eA"]], "the value is base64url text"),
    (["text/plain", "eA", 0], "the indicator is an integer"),
    (["text/plain", "eA", -1], "the indicator is an integer"),
    (["text/plain", "eA", True], "the indicator is an integer"),
    (["text/plain", "eA", 4.0], "the indicator is an integer"),
    (["text/plain", "eA", "4"], "the indicator is an integer"),
    (["text/plain", "eA", None], "the indicator is an integer"),
    (["text/plain", "eA", 1 << 32], "the indicator is an integer"),
    ({"__cmwc_t": "tag:only"}, "0 items"),
    ({"__cmwc_t": 1, "a": ["text/plain", "eA"]}, "__cmwc_t: expected text"),
    ({"a": "text"}, "expected a record or a collection"),
    ({"a": None}, "expected a record or a collection"),
    ({"": ["text/plain", "eA"]}, "item names have 1 to 64"),
    ({"x" * (MAX_NAME_CHARACTERS + 1): ["text/plain", "eA"]}, "item names have 1 to 64"),
    ({"a" * 40: {"b" * 40: ["text/plain", "eA"]}}, "item names have 1 to 64"),
    ({"a\nb": ["text/plain", "eA"]}, "printable"),
    ({"a/b": ["text/plain", "eA"], "a": {"b": ["text/plain", "eA"]}}, "two items of one name"),
    ({f"item{number}": ["text/plain", "eA"] for number in range(MAX_ITEMS + 1)}, "65 items"),
]


@pytest.mark.parametrize(("document", "problem"), REFUSED_JSON)
def test_a_document_that_is_no_envelope_is_refused(document: object, problem: str) -> None:
    error = refused(as_json(document))
    assert (error.code, error.exit_code) == ("envelope-invalid", 3)
    assert problem in error.message


@pytest.mark.parametrize("text", ["eA==", "e A", "eB", "e+", "é"])
def test_a_value_in_another_spelling_is_refused(text: str) -> None:
    assert refused(as_json({"cpu": ["text/plain", text]})).code == "base64-invalid"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a": ["text/plain", "eA"], "a": ["text/plain", "eQ"]}', "json-invalid"),
        (b'{"a": ["text/plain", "eA"]} x', "json-invalid"),
        (b"{", "json-invalid"),
        (b"", "cbor-invalid"),
        (b"hello", "cbor-invalid"),
        (cbor2.dumps({"b": ["t", b""], "a": ["t", b""]}), "cbor-invalid"),
        (cbor2.dumps({1: ["t", b""]}), "cbor-invalid"),
        (bytes.fromhex("a2 6161 826174 40 6161 826174 40".replace(" ", "")), "cbor-invalid"),
        (bytes.fromhex("9f 6174 40 ff".replace(" ", "")), "cbor-invalid"),
        (cbor_bytes({"a": ("t", b"")}) + b"\0", "cbor-invalid"),
        (cbor_bytes({"a": ("t", "eA")}), "envelope-invalid"),
        (cbor_bytes({"a": ("t", b"", 0)}), "envelope-invalid"),
        (cbor_bytes({"a": b""}), "envelope-invalid"),
        (cbor_bytes(5), "envelope-invalid"),
        (cbor_bytes({"__cmwc_t": b"", "a": ("t", b"")}), "envelope-invalid"),
    ],
)
def test_another_encoding_is_refused(data: bytes, code: str) -> None:
    assert refused(data).code == code


# -- limits


def test_an_item_may_be_as_large_as_the_limit() -> None:
    full = EvidenceItem(name="cpu", media_type="t", value=bytes(MAX_ITEM_BYTES))
    assert len(parse_envelope(Evidence(items=(full,)).to_cbor()).items[0].value) == MAX_ITEM_BYTES
    with pytest.raises(EvidenceError, match="more than 2097152"):
        Evidence(items=(replace(full, value=bytes(MAX_ITEM_BYTES + 1)),))


def test_a_document_larger_than_the_limit_is_refused_unread() -> None:
    document = b'["text/plain", "eA"]'
    assert parse_envelope(document.ljust(MAX_ENVELOPE_BYTES)).items[0].value == b"x"
    error = refused(document.ljust(MAX_ENVELOPE_BYTES + 1))
    assert (error.code, "8388609 bytes" in error.message) == ("envelope-invalid", True)


@pytest.mark.parametrize(
    "item",
    [
        EvidenceItem(name="x" * MAX_NAME_CHARACTERS, media_type="t", value=b""),
        EvidenceItem(name="cpu", media_type="t" * MAX_MEDIA_TYPE_CHARACTERS, value=b""),
        EvidenceItem(name="cpu", media_type="t", value=b"", indicator=1),
        EvidenceItem(name="cpu", media_type="t", value=b"", indicator=0xFFFFFFFF),
    ],
    ids=lambda item: f"{len(item.name)} {len(item.media_type)} {item.indicator}",
)
def test_what_is_at_its_limit_is_read(item: EvidenceItem) -> None:
    assert parse_envelope(Evidence(items=(item,)).to_json()).items == (item,)
    assert parse_envelope(Evidence(items=(item,)).to_cbor()).items == (item,)


def test_as_many_items_as_the_limit_are_read() -> None:
    document = {f"item{number}": ["text/plain", "eA"] for number in range(MAX_ITEMS)}
    assert len(parse_envelope(as_json(document)).items) == MAX_ITEMS


def test_evidence_without_items_or_with_two_of_one_name_cannot_exist() -> None:
    with pytest.raises(EvidenceError, match="0 items"):
        Evidence(items=())
    with pytest.raises(EvidenceError, match="two items of one name"):
        Evidence(items=(EXAMPLE.items[0], EXAMPLE.items[0]))


# -- what identifies items and evidence


@pytest.mark.parametrize(
    ("media_type", "essence"),
    [
        ("application/EAT+jwt; eat_profile=x", "application/eat+jwt"),
        ("Text/Plain ;charset=utf-8", "text/plain"),
        ("application/vnd.amd.sev.snp.attestation-report", MEDIA_SNP_REPORT),
        (MEDIA_SNP_REPORT.upper(), MEDIA_SNP_REPORT),
    ],
)
def test_media_types_are_compared_without_case_parameters_and_old_names(media_type: str, essence: str) -> None:
    assert EvidenceItem(name="a", media_type=media_type, value=b"").essence == essence


def test_the_largest_number_of_values_is_read_and_more_are_refused_before_they_take_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member: CborValue = ("a/b", b"x", 1)
    for _ in range(MAX_DEPTH - 1):
        member = {"m": member}
    whole = cbor_bytes({"__cmwc_t": COLLECTION_TYPE, **{f"{at:02}": member for at in range(MAX_ITEMS)}})
    assert len(parse_envelope(whole).items) == MAX_ITEMS
    count = 1 << 22
    with monkeypatch.context() as patched:
        patched.setattr("attest.encoding.cbor2.loads", None)
        with pytest.raises(EvidenceError, match="more than 4096 values"):
            parse_envelope(b"\x9a" + count.to_bytes(4, "big") + b"\x80" * count)


def test_an_item_digest_covers_name_media_type_and_bytes() -> None:
    item = EvidenceItem(name="gpu0", media_type="a/b", value=b"x")
    others = (replace(item, name="gpu1"), replace(item, media_type="a/c"), replace(item, value=b"y"))
    assert item.digest == sha384(cbor2.dumps(["gpu0", "a/b", b"x"])).digest()
    assert len({item.digest, *(other.digest for other in others)}) == 4
    assert replace(item, media_type="A/B; c=d", indicator=0).digest == item.digest


def test_the_digest_of_evidence_depends_on_its_items_and_not_on_their_order() -> None:
    assert EXAMPLE.digest == replace(EXAMPLE, items=EXAMPLE.items[::-1]).digest
    assert EXAMPLE.digest != replace(EXAMPLE, items=EXAMPLE.items[:2]).digest
    assert len(EXAMPLE.digest) == 48


def test_items_are_found_by_name() -> None:
    assert EXAMPLE.item("binding") == EXAMPLE.items[1]
    assert EXAMPLE.item("gpu0") is None


def test_no_item_takes_the_name_of_the_collections_type() -> None:
    with pytest.raises(EvidenceError) as outcome:
        Evidence(items=(EvidenceItem(name="__cmwc_t", media_type="text/plain", value=b""),))
    assert outcome.value.code == "envelope-invalid"
