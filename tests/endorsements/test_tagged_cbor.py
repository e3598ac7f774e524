"""CBOR of foreign documents: bounded, no duplicates, nothing converted."""

import io
from collections.abc import Mapping
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.tagged_cbor import (
    MAX_DEPTH,
    MAX_ITEMS,
    Tagged,
    TaggedValue,
    read_tagged,
)
from attest.errors import EvidenceError

scalars = (
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.binary(max_size=40) | st.text(max_size=40)
)
keys = st.integers(-(1 << 64), (1 << 64) - 1) | st.text(max_size=20) | st.binary(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(keys, inner, max_size=5)
        | st.builds(Tagged, st.integers(600, (1 << 64) - 1), inner)
    ),
    max_leaves=20,
)


def plain(value: Any) -> TaggedValue:  # noqa: ANN401  what cbor2 returns
    """Turn what cbor2 returns into our types."""
    if isinstance(value, cbor2.CBORTag):
        return Tagged(value.tag, plain(value.value))
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict | cbor2.frozendict):
        return {name: plain(member) for name, member in value.items()}
    return value  # type: ignore[no-any-return]


def tagged(value: TaggedValue) -> Any:  # noqa: ANN401  what cbor2 takes
    """Turn our types into what cbor2 takes."""
    if isinstance(value, Tagged):
        return cbor2.CBORTag(value.tag, tagged(value.value))
    if isinstance(value, tuple):
        return [tagged(member) for member in value]
    if isinstance(value, Mapping):
        return {name: tagged(member) for name, member in value.items()}
    return value


@given(values)
def test_what_cbor2_writes_reads_back(value: TaggedValue) -> None:
    data = cbor2.dumps(tagged(value), canonical=True)
    assert read_tagged(data, what="x") == value
    assert plain(cbor2.loads(data, immutable=True)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_documented_error_and_cbor2_agrees_on_values(data: bytes) -> None:
    try:
        value = read_tagged(data, what="x")
    except EvidenceError as exc:
        assert exc.code == "cbor-invalid"  # noqa: PT017  either outcome is right
        return
    if "Tagged" not in repr(value):
        assert plain(cbor2.CBORDecoder(io.BytesIO(data)).decode()) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("1801", 1),
        ("1b0000000000000001", 1),
        ("3800", -1),
        ("9f01ff", (1,)),
        ("bf0102ff", {1: 2}),
        ("5f41014102ff", b"\x01\x02"),
        ("7f61616162ff", "ab"),
        ("a202010102", {2: 1, 1: 2}),
        ("c11a00000001", Tagged(1, 1)),
        ("d825410a", Tagged(37, b"\x0a")),
        ("f6", None),
    ],
)
def test_foreign_spellings_are_read(data: str, value: TaggedValue) -> None:
    assert read_tagged(bytes.fromhex(data), what="x") == value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "end too early"),
        ("18", "end too early"),
        ("4201", "end too early"),
        ("5bffffffffffffffff", "end too early"),
        ("9f01", "end too early"),
        ("0000", "left over"),
        ("a201020103", "occurs twice"),
        ("a2010218010 3".replace(" ", ""), "occurs twice"),
        ("a18001", "a key"),
        ("a1f501", "a key"),
        ("f90000", "float"),
        ("fb0000000000000000", "float"),
        ("f7", "simple"),
        ("ff", "simple"),
        ("1c", "reserved"),
        ("1f", "without a number"),
        ("3f", "without a number"),
        ("df01", "without a number"),
        ("61ff", "UTF-8"),
        ("5f6161ff", "another kind"),
        ("5f5f4101ffff", "another kind"),
    ],
)
def test_what_two_readers_could_read_in_two_ways_is_refused(data: str, said: str) -> None:
    with pytest.raises(EvidenceError, match=said) as caught:
        read_tagged(bytes.fromhex(data), what="x")
    assert caught.value.code == "cbor-invalid"


@pytest.mark.parametrize("around", [b"\x81", b"\x9f", b"\xc1", b"\xa1\x00"], ids=["array", "open array", "tag", "map"])
def test_items_nest_to_a_limit(around: bytes) -> None:
    end = b"\xff" if around == b"\x9f" else b""
    read_tagged(around * MAX_DEPTH + b"\x00" + end * MAX_DEPTH, what="x")
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(EvidenceError, match="deeper"):
            read_tagged(around * depth + b"\x00" + end * depth, what="x")


def test_the_number_of_items_is_bounded() -> None:
    read_tagged(b"\x9f" + bytes(MAX_ITEMS - 1) + b"\xff", what="x")
    with pytest.raises(EvidenceError, match="items"):
        read_tagged(b"\x9f" + bytes(MAX_ITEMS) + b"\xff", what="x")


def test_the_place_of_an_error_is_named() -> None:
    with pytest.raises(EvidenceError) as caught:
        read_tagged(b"\x82\x00\xf7", what="x")
    assert (caught.value.field, caught.value.offset) == ("x", 3)
