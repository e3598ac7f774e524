"""Hex, base64, JSON, CBOR and times have one spelling each, and every other spelling is refused."""

import contextlib
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import (
    MAX_CBOR_DEPTH,
    MAX_CBOR_VALUES,
    MAX_JSON_DEPTH,
    CborValue,
    base64_bytes,
    base64url_bytes,
    base64url_json,
    base64url_text,
    cbor_bytes,
    cbor_value,
    hex_bytes,
    json_value,
    rfc3339,
    rfc3339_text,
)
from attest.errors import EvidenceError
from attest.results.cbor import claims_value

# -- hex


def test_hex_of_either_case_is_decoded() -> None:
    assert hex_bytes("00ffAbcD", what="field") == bytes.fromhex("00ffabcd")
    assert hex_bytes("", what="field") == b""
    assert hex_bytes("0102", what="field", length=2) == b"\1\2"


@pytest.mark.parametrize("text", ["0", "0x00", "00 11", "00\n", " 00", "zz", "\u0660\u0660", "0g", "00:11"])
def test_hex_with_anything_but_pairs_of_digits_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="field: expected pairs of hex digits") as caught:
        hex_bytes(text, what="field")
    assert (caught.value.code, caught.value.field) == ("hex-invalid", "field")


def test_hex_of_another_length_is_refused() -> None:
    with pytest.raises(EvidenceError, match="expected 3 bytes of hex, got 2 bytes") as caught:
        hex_bytes("0102", what="field", length=3)
    assert caught.value.code == "hex-invalid"


# -- base64

RFC4648 = [
    (b"", ""),
    (b"f", "Zg=="),
    (b"fo", "Zm8="),
    (b"foo", "Zm9v"),
    (b"foob", "Zm9vYg=="),
    (b"fooba", "Zm9vYmE="),
    (b"foobar", "Zm9vYmFy"),
]


@pytest.mark.parametrize(("data", "text"), RFC4648)
def test_the_vectors_of_rfc_4648_decode(data: bytes, text: str) -> None:
    assert base64_bytes(text, what="field") == data
    assert base64url_bytes(text.rstrip("="), what="field") == data
    assert base64url_text(data) == text.rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "Zg",
        "Zg=",
        "Zg===",
        "Zh==",
        "Zm9=",
        "Zm9v\n",
        " Zm9v",
        "Zm 9v",
        "Zm-v",
        "Zm_v",
        "Zm9v=",
        "=",
        "Zé==",
        "Zg==Zg==",
    ],
)
def test_base64_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="field: expected base64 with padding") as caught:
        base64_bytes(text, what="field")
    assert caught.value.code == "base64-invalid"


@pytest.mark.parametrize("text", ["Zg==", "Zm8=", "Zh", "Zm9", "Z", "Zm9vY", "Zm+v", "Zm/v", "Zm9v\n", "Zm 9v", "Zé"])
def test_base64url_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="field: expected base64url without padding") as caught:
        base64url_bytes(text, what="field")
    assert caught.value.code == "base64-invalid"


def test_the_two_alphabets_differ_in_two_letters() -> None:
    assert base64_bytes("+/+/", what="field") == base64url_bytes("-_-_", what="field") == b"\xfb\xff\xbf"


@given(st.binary(max_size=64))
def test_base64url_reads_what_it_writes(data: bytes) -> None:
    assert base64url_bytes(base64url_text(data), what="field") == data


def test_json_of_a_signed_part_is_compact_ascii_in_the_given_order() -> None:
    text = base64url_json({"b": "\u00e9", "a": [1, True, None]})
    assert base64url_bytes(text, what="field") == b'{"b":"\\u00e9","a":[1,true,null]}'
    with pytest.raises(ValueError, match="JSON"):
        base64url_json({"a": float("nan")})


@given(st.text(max_size=24), st.sampled_from([base64_bytes, base64url_bytes, hex_bytes]))
def test_any_text_decodes_or_is_refused(text: str, decode: object) -> None:
    with contextlib.suppress(EvidenceError):
        assert isinstance(decode(text, what="field"), bytes)  # type: ignore[operator]  # one of three functions


# -- JSON


def test_json_is_read() -> None:
    document = b' {"a": [1, -2.5, true, null, "\\u00e9\\ud83d\\ude00"], "b": {}} \n'
    assert json_value(document, what="document") == {"a": [1, -2.5, True, None, "é😀"], "b": {}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a": 1,}',
        b"[1] [2]",
        b"{'a': 1}",
        b'{"a": 1, "a": 1}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": 1, "\\u0061": 2}',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"[-1e999]",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\\ud800"',
        b'["\\uDC00"]',
        b'{"\\ud83d": 1}',
        b'"\\ude00\\ud83d"',
        b'"tab\there"',
        b"0x10",
        b"01",
        b"+1",
        b".5",
    ],
)
def test_what_is_not_one_strict_json_document_is_refused(text: bytes) -> None:
    with pytest.raises(EvidenceError, match="document is not one strict JSON document") as caught:
        json_value(text, what="document")
    assert (caught.value.code, caught.value.exit_code) == ("json-invalid", 3)


def test_the_member_that_stands_twice_is_named() -> None:
    with pytest.raises(EvidenceError, match="member 'twice' occurs twice"):
        json_value(b'{"once": 1, "twice": 1, "twice": 1}', what="document")


def test_the_duplicate_among_many_members_is_found_in_linear_time() -> None:
    """300,000 names: counting each among all, as an earlier reader did, is 45,000,000,000 comparisons."""
    members = ",".join(f'"{number:06}":0' for number in range(300_000))
    with pytest.raises(EvidenceError, match="member '299999' occurs twice"):
        json_value(f'{{{members},"299999":1}}'.encode(), what="body")


_NAMES = st.sampled_from(["a", "b", ":", "{", "}:", ""])
_PAIRS = st.recursive(
    st.sampled_from([(), ":", "{a:", 1, None]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_NAMES, inner), max_size=3).map(tuple),
    max_leaves=10,
)


def _text_of(value: object, gap: str) -> tuple[str, bool]:
    """Write objects, given as tuples of pairs, and say whether a member stands twice in one."""
    if isinstance(value, list):
        written = [_text_of(each, gap) for each in value]
        return f"[{f',{gap}'.join(text for text, _ in written)}]", any(twice for _, twice in written)
    if isinstance(value, tuple):
        names, written = [name for name, _ in value], [_text_of(each, gap) for _, each in value]
        members = [f'"{name}"{gap}:{gap}{text}' for name, (text, _) in zip(names, written, strict=True)]
        return f"{{{','.join(members)}}}", len(set(names)) < len(names) or any(twice for _, twice in written)
    return json.dumps(value), False


@given(_PAIRS, st.sampled_from(["", " ", "\n\t"]))
def test_a_member_that_stands_twice_is_found_wherever_it_is(value: object, gap: str) -> None:
    text, twice = _text_of(value, gap)
    if twice:
        with pytest.raises(EvidenceError, match="occurs twice in one object"):
            json_value(text.encode(), what="document")
    else:
        assert json_value(text.encode(), what="document") == json.loads(text)


@pytest.mark.parametrize(("depth", "accepted"), [(MAX_JSON_DEPTH, True), (MAX_JSON_DEPTH + 1, False)])
def test_json_may_be_nested_to_a_limit(depth: int, accepted: bool) -> None:
    text = b"[" * depth + b"]" * depth
    if accepted:
        json_value(text, what="document")
    else:
        with pytest.raises(EvidenceError, match="nested deeper than 64"):
            json_value(text, what="document")


@pytest.mark.parametrize("opening", [b"[", b'{"\\n":'])
@pytest.mark.parametrize("innermost", [b"", b'"\\n"', b'"\\n", {}, []'])
def test_the_limit_is_the_same_for_text_with_escapes(opening: bytes, innermost: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    begin, end = opening * (MAX_JSON_DEPTH - 2), closing * (MAX_JSON_DEPTH - 2)
    json_value(begin + b"[[" + innermost.removesuffix(b", {}, []") + b"]]" + end, what="document")
    with pytest.raises(EvidenceError, match="nested deeper than 64"):
        json_value(begin + b"[[[" + innermost + b"]]]" + end, what="document")


def test_text_with_escapes_that_is_far_too_deep_is_refused() -> None:
    deep = b"[" * 100_000 + b'"\\n"' + b"]" * 100_000
    with pytest.raises(EvidenceError, match="nested deeper than 64"):
        json_value(deep, what="document")


@pytest.mark.parametrize("text", [b'{"\\ud800": 1}', b'[[{"a": "\\uDFFF"}]]', b'["\\ud83d", "\\ude00"]'])
def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(text: bytes) -> None:
    with pytest.raises(EvidenceError, match="surrogates not allowed") as caught:
        json_value(text, what="document")
    assert caught.value.code == "json-invalid"
    assert json_value(b'["\\ud83d\\ude00"]', what="document") == ["\N{GRINNING FACE}"]


def test_a_byte_order_mark_is_refused() -> None:
    with pytest.raises(EvidenceError, match="BOM"):
        json_value(b"\xef\xbb\xbf{}", what="document")


def test_brackets_in_strings_and_beside_each_other_do_not_count_as_depth() -> None:
    deep = '"' + "[{" * 200 + '\\"[["'
    assert json_value(f"[{deep}, {deep}]".encode(), what="document") == [json.loads(deep)] * 2
    siblings = b",".join([b"[]"] * 500)
    assert json_value(b"[" + siblings + b"]", what="document") == [[]] * 500
    deep_after_many = b"[" + siblings + b"," + b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH + b"]"
    with pytest.raises(EvidenceError, match="nested deeper than 64"):
        json_value(deep_after_many, what="document")


def test_a_million_brackets_and_an_open_string_are_refused_in_no_time() -> None:
    for text in (b"[" * 1_000_000, b'"' + b"[\\" * 500_000, b'["' * 500_000):
        with pytest.raises(EvidenceError):
            json_value(text, what="document")


def test_a_number_of_more_digits_than_the_interpreter_converts_is_refused() -> None:
    assert sys.get_int_max_str_digits() < 5000
    with pytest.raises(EvidenceError):
        json_value(b"1" * 5000, what="document")


@given(st.binary(max_size=64))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        json.dumps(json_value(data, what="document"), ensure_ascii=False, allow_nan=False).encode("utf-8")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans())
def test_json_of_any_writer_reads_the_same(value: object, ascii_only: bool) -> None:
    try:
        text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8")
    except UnicodeEncodeError:
        return  # half a surrogate pair, which is no text
    try:
        assert json_value(text, what="document") == value
    except EvidenceError:
        with pytest.raises(UnicodeEncodeError):
            json.dumps(value, ensure_ascii=False).encode("utf-8")


# -- CBOR

RFC8949 = [
    (0, "00"),
    (23, "17"),
    (24, "1818"),
    (255, "18ff"),
    (256, "190100"),
    (65535, "19ffff"),
    (65536, "1a00010000"),
    ((1 << 32) - 1, "1affffffff"),
    (1 << 32, "1b0000000100000000"),
    ((1 << 64) - 1, "1bffffffffffffffff"),
    (-1, "20"),
    (-24, "37"),
    (-25, "3818"),
    (-(1 << 64), "3bffffffffffffffff"),
    (False, "f4"),
    (True, "f5"),
    (None, "f6"),
    (b"", "40"),
    (b"\1\2\3\4", "4401020304"),
    ("", "60"),
    ("IETF", "6449455446"),
    ("ü", "62c3bc"),
    ((), "80"),
    ((1, (2, 3)), "8201820203"),
    ({}, "a0"),
    ({"a": 1, "b": (2, 3)}, "a26161016162820203"),
    (
        {"context": "kms-release/v1", "nonce": bytes(4), "aud": ("x", None, 500), "b": {"long-key": 1, "z": -500}},
        (
            "a46162a2617a3901f3686c6f6e672d6b65790163617564836178f61901f4656e6f6e6365440000000067636f6e74657874"
            "6e6b6d732d72656c656173652f7631"
        ),
    ),
]


@pytest.mark.parametrize(("value", "encoded"), RFC8949)
def test_the_vectors_of_rfc_8949_and_of_the_specification_encode(value: CborValue, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert cbor_bytes(value) == raw
    assert cbor_bytes(cbor_value(raw, what="document")) == raw
    assert cbor2.loads(raw) == (list(value) if value == () else cbor2.loads(cbor2.dumps(value)))


def test_keys_are_sorted_by_their_encodings_not_by_length() -> None:
    # RFC 8949, 4.2.1, against the older rule of RFC 7049, 3.9: equal as long as all keys are text.
    assert cbor_bytes({"b": 1, "aa": 2, "": 3}) == bytes.fromhex("a3 60 03 6162 01 626161 02".replace(" ", ""))


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "1801",  # 1 in two bytes
        "190001",
        "1a00000001",
        "1b0000000000000001",
        "3800",
        "5f4101ff",  # indefinite lengths
        "7f6161ff",
        "9f01ff",
        "bf616101ff",
        "5801ff",  # a length in two bytes
        "a2616101616102",  # a key twice
        "a2616201616101",  # keys in another order
        "a10101",  # a key that is no text
        "a1410101",
        "0000",  # a second item
        "f97c00",  # floats
        "fb3ff8000000000000",
        "f90000",
        "f7",  # undefined
        "f820",
        "e0",
        "c0781932303133",  # tags, and one that ends early
        "c11a514b67b0",
        "c24101",
        "c249010000000000000000",
        "d81c80",
        "61ff",  # not UTF-8
        "63eda080",  # half a surrogate pair
        "44010203",  # truncated
        "8201",
        "a16161",
        "1c",
        "ff",
    ],
)
def test_any_other_encoding_of_a_value_is_refused(encoded: str) -> None:
    with pytest.raises(EvidenceError, match="document is not canonical CBOR") as caught:
        cbor_value(bytes.fromhex(encoded), what="document")
    assert (caught.value.code, caught.value.field) == ("cbor-invalid", "document")


def test_cbor_may_be_nested_to_a_limit() -> None:
    def nested(depth: int) -> bytes:
        return b"\x81" * depth + b"\x00"

    accepted = [depth for depth in range(2 * MAX_CBOR_DEPTH) if _is_cbor(nested(depth))]
    assert accepted == list(range(len(accepted)))
    assert MAX_CBOR_DEPTH - 1 <= len(accepted) <= MAX_CBOR_DEPTH + 1
    assert not _is_cbor(nested(100_000))


def _is_cbor(data: bytes) -> bool:
    try:
        cbor_value(data, what="document")
    except EvidenceError:
        return False
    return True


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ({"a": (1, b"\x80" * 300, "\u0080" * 300, None), "b": {"c": True}}, 11),
        (tuple(range(300)), 301),
        (1 << 40, 1),
        ((-1, -(1 << 40)), 3),
    ],
    ids=["map", "array", "integer", "negative"],
)
def test_values_of_cbor_are_counted_before_anything_is_decoded(
    value: CborValue, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = cbor_bytes(value)
    assert cbor_bytes(cbor_value(data, what="document", most=count)) == data
    monkeypatch.setattr("attest.encoding.cbor2.loads", None)
    with pytest.raises(EvidenceError, match=f"more than {count - 1} values"):
        cbor_value(data, what="document", most=count - 1)


@pytest.mark.parametrize("read", [cbor_value, claims_value])
def test_no_document_has_more_values_than_the_largest_needs(
    read: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = MAX_CBOR_VALUES  # beside the list that holds them
    data = b"\x9a" + count.to_bytes(4, "big") + b"\x80" * count
    monkeypatch.setattr("cbor2.loads", None)
    with pytest.raises(EvidenceError, match=f"more than {count} values"):
        read(data, what="document")


@pytest.mark.parametrize("data", [b"\x1c", b"\x9f\xff", b"\x5b" + b"\xff" * 8, b"\x82\x01", b"\x19\x01"], ids=bytes.hex)
def test_what_cannot_be_counted_is_left_to_the_decoder(data: bytes) -> None:
    with pytest.raises(EvidenceError) as refusal:
        cbor_value(data, what="document", most=8)
    assert "values" not in refusal.value.message


@pytest.mark.parametrize("value", [1.5, {1: 2}, {b"a": 1}, {1, 2}, object(), (1.0,)])
def test_a_value_without_a_canonical_form_is_a_mistake_of_the_caller(value: object) -> None:
    with pytest.raises(TypeError):
        cbor_bytes(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1 << 64, -(1 << 64) - 1])
def test_an_integer_of_more_than_64_bits_is_a_mistake_of_the_caller(value: int) -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        cbor_bytes(value)


CBOR = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.binary(max_size=40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(CBOR)
def test_cbor_reads_what_it_writes_and_agrees_with_the_library(value: CborValue) -> None:
    encoded = cbor_bytes(value)
    assert cbor_bytes(cbor_value(encoded, what="document")) == encoded
    assert cbor2.loads(encoded) == value
    assert cbor2.dumps(value, canonical=True) == encoded


@given(st.binary(max_size=48))
def test_any_bytes_are_canonical_cbor_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert cbor_bytes(cbor_value(data, what="document")) == data


# -- times


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+05:30", datetime(2026, 1, 31, 6, 30, tzinfo=UTC)),
        ("2026-01-31T00:30:00-23:59", datetime(2026, 2, 1, 0, 29, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, microsecond=500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.000001Z", datetime(2026, 1, 31, 12, microsecond=1, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_into_utc(text: str, moment: datetime) -> None:
    parsed = rfc3339(text, what="at")
    assert parsed == moment
    assert parsed.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00Z",
        "2026-1-31T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:60Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567Z",
        "2026-01-31T12:00:00+0000",
        "2026-01-31T12:00:00+24:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-01-31T12:00:00Z\n",
        "\uff12\uff1026-01-31T12:00:00Z",
    ],
)
def test_a_time_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="at: expected an RFC 3339 time") as caught:
        rfc3339(text, what="at")
    assert caught.value.code == "time-invalid"


def test_a_time_is_written_in_utc() -> None:
    assert rfc3339_text(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31T12:00:00Z"
    assert rfc3339_text(datetime(2026, 1, 31, 12, microsecond=5, tzinfo=UTC)) == "2026-01-31T12:00:00.000005Z"
    east = timezone(timedelta(hours=2))
    assert rfc3339_text(datetime(2026, 1, 31, 12, tzinfo=east)) == "2026-01-31T10:00:00Z"


def test_a_moment_without_a_zone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="without a time zone"):
        rfc3339_text(datetime(2026, 1, 31))  # noqa: DTZ001  the mistake


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_reads_as_it_was_written(moment: datetime) -> None:
    assert rfc3339(rfc3339_text(moment), what="at") == moment
