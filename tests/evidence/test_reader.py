"""The byte reader never reads past the end, and a layout is a table without holes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError
from attest.evidence.reader import ByteReader, Field, Layout

SMALL = Layout(
    name="SMALL",
    size=24,
    clause="a test",
    fields=(
        Field(name="kind", offset=0, size=1, kind="u8"),
        Field(name="flags", offset=1, size=2, kind="u16"),
        Field(name="reserved", offset=3, size=1, kind="reserved"),
        Field(name="count", offset=4, size=4, kind="u32"),
        Field(name="serial", offset=8, size=8, kind="u64"),
        Field(name="tag", offset=16, size=6, kind="bytes"),
        Field(name="reserved", offset=22, size=2, kind="reserved"),
    ),
)
VALUES: dict[str, int | bytes] = {"kind": 1, "flags": 0x0203, "count": 4, "serial": 5, "tag": b"abcdef"}
ENCODED = bytes.fromhex("01 0302 00 04000000 0500000000000000 616263646566 0000".replace(" ", ""))


def test_bytes_are_taken_from_the_front_in_order() -> None:
    reader = ByteReader(b"\x01\x02\x03\x04\x05\x06\x07", what="thing")
    assert (reader.offset, reader.remaining) == (0, 7)
    assert reader.take(2, "head") == b"\x01\x02"
    assert reader.unsigned(2, "little") == 0x0403
    assert reader.unsigned(2, "big", byteorder="big") == 0x0506
    assert (reader.offset, reader.remaining) == (6, 1)


def test_taking_more_than_there_is_names_the_field_and_the_place() -> None:
    reader = ByteReader(bytes(5), what="thing")
    reader.take(3, "head")
    with pytest.raises(EvidenceError, match="thing ends inside body: expected 4 bytes at offset 0x3, got 2") as caught:
        reader.take(4, "body")
    error = caught.value
    assert (error.code, error.field, error.offset) == ("truncated", "body", 3)
    assert (error.expected, error.got, error.exit_code) == ("4 bytes", "2 bytes", 3)


def test_a_failed_read_takes_nothing() -> None:
    reader = ByteReader(b"ab", what="thing")
    with pytest.raises(EvidenceError):
        reader.unsigned(4, "number")
    assert reader.take(2, "rest") == b"ab"


def test_bytes_that_nothing_took_are_refused() -> None:
    reader = ByteReader(b"abc", what="thing")
    reader.take(2, "all of it")
    with pytest.raises(EvidenceError, match="1 bytes longer") as caught:
        reader.finish()
    assert (caught.value.code, caught.value.offset) == ("trailing-bytes", 2)
    reader.take(1, "the last one")
    reader.finish()


def test_a_layout_decodes_little_endian_and_in_the_order_of_its_table() -> None:
    assert SMALL.names == ("kind", "flags", "count", "serial", "tag")
    assert dict(zip(SMALL.names, SMALL.decode(ENCODED), strict=True)) == VALUES
    assert SMALL.encode(VALUES) == ENCODED
    assert [field.offset for field in SMALL] == [0, 1, 3, 4, 8, 16, 22]


@pytest.mark.parametrize("size", [0, 23, 25])
def test_a_structure_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(EvidenceError, match=f"SMALL has {size} bytes, expected 24") as caught:
        SMALL.decode(bytes(size))
    assert (caught.value.code, caught.value.clause) == ("size-wrong", "a test")


@pytest.mark.parametrize("offset", [3, 22, 23])
def test_a_reserved_byte_that_is_not_zero_is_refused_with_its_span(offset: int) -> None:
    data = bytearray(ENCODED)
    data[offset] = 0x80
    with pytest.raises(EvidenceError, match="reserved bytes that are not zero") as caught:
        SMALL.decode(bytes(data))
    assert (caught.value.code, caught.value.offset) == ("reserved-not-zero", 3 if offset == 3 else 22)


def test_of_several_defects_the_first_span_is_named() -> None:
    with pytest.raises(EvidenceError) as caught:
        SMALL.decode(b"\xff" * 24)
    assert caught.value.offset == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": 256}, "SMALL: "),
        ({"serial": -1}, "SMALL: "),
        ({"serial": 1 << 64}, "SMALL: "),
        ({"tag": b"abc"}, "SMALL.tag: expected 6 bytes, got 3"),
        ({"tag": b"abcdefg"}, "SMALL.tag: expected 6 bytes, got 7"),
        ({"tag": 1}, "SMALL: "),
        ({"count": b"1234567"}, "SMALL.count: expected 4 bytes"),
        ({"unknown": 1}, "SMALL: expected the fields"),
    ],
)
def test_a_value_that_does_not_fit_its_row_is_a_mistake_of_the_caller(
    changes: dict[str, int | bytes], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        SMALL.encode(VALUES | changes)


def test_a_missing_value_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="expected the fields"):
        SMALL.encode({name: value for name, value in VALUES.items() if name != "tag"})


@pytest.mark.parametrize(
    ("fields", "size", "problem"),
    [
        ((Field(name="late", offset=1, size=1, kind="u8"),), 2, "does not follow 0x0"),
        (
            (Field(name="a", offset=0, size=4, kind="u32"), Field(name="b", offset=2, size=4, kind="u32")),
            6,
            "M.b: row at 0x2 of 4 bytes does not follow 0x4",
        ),
        ((Field(name="short", offset=0, size=3, kind="u32"),), 3, "of 3 bytes does not follow"),
        ((Field(name="a", offset=0, size=4, kind="u32"),), 5, "rows end at 0x4, the structure at 0x5"),
    ],
)
def test_a_table_with_a_hole_an_overlap_or_another_size_cannot_exist(
    fields: tuple[Field, ...], size: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Layout(name="M", size=size, fields=fields, clause="")


@given(st.binary(min_size=24, max_size=24))
def test_what_a_layout_accepts_it_writes_again_byte_for_byte(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert SMALL.encode(dict(zip(SMALL.names, SMALL.decode(data), strict=True))) == data


@given(
    st.integers(0, 255),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(min_size=6, max_size=6),
)
def test_what_a_layout_writes_it_reads_again(kind: int, flags: int, count: int, serial: int, tag: bytes) -> None:
    values = (kind, flags, count, serial, tag)
    assert SMALL.decode(SMALL.encode(dict(zip(SMALL.names, values, strict=True)))) == values
