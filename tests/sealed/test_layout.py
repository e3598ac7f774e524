"""The arithmetic of sealed files: one size for each plaintext, and every range split without gap or overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import SealedFileError
from attest.sealed.layout import (
    FIRST_PLAINTEXT_BYTES,
    HEADER_BYTES,
    MAX_CIPHERTEXT_BYTES,
    MAX_PLAINTEXT_BYTES,
    MIN_CIPHERTEXT_BYTES,
    PLAINTEXT_BYTES,
    SEGMENT_BYTES,
    TAG_BYTES,
    Split,
    ciphertext_size,
    plaintext_size,
    segment_count,
    segment_place,
)

SIZES = st.integers(0, 12 * SEGMENT_BYTES) | st.integers(0, MAX_PLAINTEXT_BYTES)
EDGES = sorted(
    {
        size
        for border in (0, FIRST_PLAINTEXT_BYTES, FIRST_PLAINTEXT_BYTES + PLAINTEXT_BYTES, MAX_PLAINTEXT_BYTES)
        for size in range(border - 40, border + 41)
        if 0 <= size <= MAX_PLAINTEXT_BYTES
    }
)


def test_the_constants_are_tinks() -> None:
    assert (SEGMENT_BYTES, HEADER_BYTES, TAG_BYTES) == (1048576, 40, 16)
    assert (FIRST_PLAINTEXT_BYTES, PLAINTEXT_BYTES, MIN_CIPHERTEXT_BYTES) == (1048520, 1048560, 56)
    assert MAX_CIPHERTEXT_BYTES == 1 << 52


@given(SIZES)
def test_a_plaintext_size_comes_back_from_its_file_size(size: int) -> None:
    assert plaintext_size(ciphertext_size(size)) == size


@pytest.mark.parametrize("size", EDGES)
def test_a_plaintext_size_at_a_border_comes_back(size: int) -> None:
    assert plaintext_size(ciphertext_size(size)) == size


@given(st.integers(-10, 12 * SEGMENT_BYTES) | st.integers(0, 2 * MAX_CIPHERTEXT_BYTES))
def test_a_file_size_is_refused_or_is_the_size_of_its_plaintext(size: int) -> None:
    try:
        plaintext = plaintext_size(size)
    except SealedFileError:
        return
    assert ciphertext_size(plaintext) == size


def test_the_file_sizes_around_every_border_are_exactly_those_that_a_writer_makes() -> None:
    made = {ciphertext_size(size) for size in range(200)}
    for border in (FIRST_PLAINTEXT_BYTES, FIRST_PLAINTEXT_BYTES + PLAINTEXT_BYTES):
        made |= {ciphertext_size(size) for size in range(border - 100, border + 100)}
    for first in (0, SEGMENT_BYTES - 50, 2 * SEGMENT_BYTES - 50):
        for size in range(first, first + 100):
            if size in made:
                assert plaintext_size(size) >= 0
            else:
                with pytest.raises(SealedFileError):
                    plaintext_size(size)


def test_more_than_four_pebibytes_are_refused() -> None:
    assert ciphertext_size(MAX_PLAINTEXT_BYTES) == MAX_CIPHERTEXT_BYTES
    assert segment_count(MAX_CIPHERTEXT_BYTES) == 1 << 32
    for call, size in ((ciphertext_size, MAX_PLAINTEXT_BYTES + 1), (plaintext_size, MAX_CIPHERTEXT_BYTES + 17)):
        with pytest.raises(SealedFileError, match="sealed file") as refused:
            call(size)
        assert refused.value.code == "sealed-size-invalid"


def test_a_negative_plaintext_size_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="negative"):
        ciphertext_size(-1)


@given(st.integers(0, 12 * SEGMENT_BYTES))
def test_segments_tile_file_and_plaintext(size: int) -> None:
    file_size = ciphertext_size(size)
    places = [segment_place(index, file_size) for index in range(segment_count(file_size))]
    at, plain = HEADER_BYTES, 0
    for index, place in enumerate(places):
        assert (place.index, place.offset, place.plaintext_offset) == (index, at, plain)
        assert place.last == (index == len(places) - 1)
        assert place.offset // SEGMENT_BYTES == index
        at, plain = at + place.size, plain + place.plaintext_size
    assert (at, plain) == (file_size, size)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_segment_that_the_file_does_not_have_is_a_mistake_of_the_caller(index: int) -> None:
    with pytest.raises(ValueError, match="segment"):
        segment_place(index, ciphertext_size(FIRST_PLAINTEXT_BYTES + 1))


@given(st.data(), st.integers(0, 6 * SEGMENT_BYTES))
def test_the_parts_of_a_range_tile_it(data: st.DataObject, size: int) -> None:
    begin = data.draw(st.integers(0, size))
    end = data.draw(st.integers(begin, size))
    parts = Split(begin, end - begin, ciphertext_size(size))
    at = 0
    for part in (parts[number] for number in range(len(parts))):
        assert part.at == at
        assert 0 <= part.begin < part.end <= part.segment.plaintext_size
        assert part.segment.plaintext_offset + part.begin == begin + at
        assert part.whole == (part.end - part.begin == part.segment.plaintext_size)
        at += part.end - part.begin
    assert at == end - begin
    with pytest.raises(IndexError):
        parts[len(parts)]


def test_an_empty_range_has_no_parts() -> None:
    assert len(Split(5, 0, ciphertext_size(10))) == 0
    with pytest.raises(IndexError):
        Split(5, 0, ciphertext_size(10))[0]


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1), (0, 11), (11, 0), (10, 1)])
def test_a_range_beyond_the_plaintext_is_a_mistake_of_the_caller(offset: int, length: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        Split(offset, length, ciphertext_size(10))


def test_a_range_of_a_huge_file_is_split_without_counting_through_it() -> None:
    parts = Split(1, MAX_PLAINTEXT_BYTES - 2, MAX_CIPHERTEXT_BYTES)
    assert len(parts) == 1 << 32
    assert (parts[0].begin, parts[0].whole, parts[1].whole) == (1, False, True)
    last = parts[len(parts) - 1]
    assert last.segment.last
    assert not last.whole
