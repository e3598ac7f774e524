"""Reading sealed files: any range, nothing that is not verified, and few reads of the source."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import SealedFileError, SealedSourceError, SealedTamperError
from attest.sealed import SealedReader
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, PLAINTEXT_BYTES, SEGMENT_BYTES
from tests.sealed.segments import AAD, KEY, MemorySource, content, sealed, segments

BIG = content(FIRST_PLAINTEXT_BYTES + PLAINTEXT_BYTES + 1000)
BIG_SEALED = bytes(sealed(BIG))
SMALL = content(300)
SMALL_SEALED = bytes(sealed(SMALL))
LONG = content(11 * SEGMENT_BYTES + 5)
LONG_SEALED = bytes(sealed(LONG))


def opened(
    raw: bytes | bytearray | MemorySource, *, threads: int | None = None, size: int | None = None
) -> SealedReader:
    source = raw if isinstance(raw, MemorySource) else MemorySource(raw)
    return SealedReader(source, key=KEY, associated_data=AAD, threads=threads, expected_size=size)


def refused(raw: bytes | bytearray, code: str | None = None) -> SealedFileError:
    """Open it and read all; whichever refuses, nothing may be given out."""
    source = MemorySource(raw)
    out = bytearray(b"?" * 64)
    with pytest.raises(SealedFileError) as caught, opened(source) as reader:  # noqa: PT012 - whichever refuses
        out = bytearray(b"?" * reader.size)
        reader.read_into(0, out)
    assert out.count(0) == len(out) or out == b"?" * 64
    assert source.closed == 1
    if code is not None:
        assert caught.value.code == code
    return caught.value


# --- altered files ---


@pytest.mark.parametrize("bit", [1, 128])
def test_a_small_file_with_any_byte_changed_is_refused(bit: int) -> None:
    for at in range(len(SMALL_SEALED)):
        raw = bytearray(SMALL_SEALED)
        raw[at] ^= bit
        refused(raw, "sealed-header-invalid" if at == 0 else "sealed-segment-invalid")


def test_a_small_file_cut_anywhere_is_refused() -> None:
    for length in range(len(SMALL_SEALED)):
        refused(SMALL_SEALED[:length], "sealed-size-invalid" if length < 56 else "sealed-segment-invalid")


@pytest.mark.parametrize(
    "more", [b"\0", b"x" * 16, b"x" * 17, SMALL_SEALED, SMALL_SEALED[40:], bytes(2 * SEGMENT_BYTES)]
)
def test_a_file_with_something_behind_it_is_refused(more: bytes) -> None:
    refused(SMALL_SEALED + more)
    refused(BIG_SEALED + more)


def test_a_file_of_three_segments_with_a_byte_changed_at_any_border_is_refused() -> None:
    rng = random.Random(5)
    places = {border + at for border in range(0, len(BIG_SEALED), SEGMENT_BYTES) for at in range(-18, 42)}
    places |= {len(BIG_SEALED) - 1 - at for at in range(18)} | {rng.randrange(len(BIG_SEALED)) for _ in range(60)}
    raw = bytearray(BIG_SEALED)
    for at in sorted(place for place in places if 0 <= place < len(raw)):
        raw[at] ^= 0x10
        refused(raw)
        raw[at] ^= 0x10
    with opened(raw) as reader:
        assert reader.read(0, reader.size) == BIG


@pytest.mark.parametrize("length", [*range(0, 60, 7), *range(SEGMENT_BYTES - 2, SEGMENT_BYTES + 20, 3)])
def test_a_file_of_three_segments_cut_at_a_border_is_refused(length: int) -> None:
    refused(BIG_SEALED[:length])
    refused(BIG_SEALED[: SEGMENT_BYTES + length])
    refused(BIG_SEALED[length + 1 :])
    refused(BIG_SEALED[: -1 - length])


FIRST, SECOND, LAST = segments(BIG_SEALED)
OTHER_FIRST, OTHER_SECOND, OTHER_LAST = segments(sealed(BIG, seed=77))


@pytest.mark.parametrize(
    "pieces",
    [
        (FIRST, LAST),
        (FIRST, SECOND),
        (FIRST,),
        (FIRST, SECOND, SECOND, LAST),
        (FIRST, SECOND, LAST, LAST),
        (FIRST, FIRST, LAST),
        (FIRST[:40] + SECOND[40:], FIRST, LAST),
        (OTHER_FIRST, SECOND, LAST),
        (FIRST, OTHER_SECOND, LAST),
        (FIRST, SECOND, OTHER_LAST),
        (OTHER_FIRST[:40] + FIRST[40:], SECOND, LAST),
        (SECOND, LAST),
        (FIRST, bytes(SEGMENT_BYTES), LAST),
        (FIRST, SECOND, LAST[::-1]),
    ],
)
def test_segments_that_were_removed_repeated_moved_or_taken_from_another_file_are_refused(
    pieces: tuple[bytes, ...],
) -> None:
    refused(b"".join(pieces))


def test_an_empty_segment_behind_a_full_one_is_refused() -> None:
    full = sealed(BIG[:FIRST_PLAINTEXT_BYTES])
    refused(full + bytes(16), "sealed-size-invalid")


@pytest.mark.parametrize(("key", "aad"), [(bytes(32), AAD), (KEY, b""), (KEY, AAD + b"\0"), (KEY, AAD[:-1])])
def test_another_key_or_another_name_is_refused_when_it_is_opened(key: bytes, aad: bytes) -> None:
    source = MemorySource(BIG_SEALED)
    with pytest.raises(SealedTamperError) as caught:
        SealedReader(source, key=key, associated_data=aad)
    assert caught.value.code == "sealed-segment-invalid"
    assert source.closed == 1


def test_bytes_that_are_no_sealed_file_are_refused_without_the_key() -> None:
    for raw in (b"", b"x", bytes(56), b"\x29" + SMALL_SEALED[1:], bytes(SEGMENT_BYTES + 16)):
        with pytest.raises(SealedFileError) as caught:
            SealedReader(MemorySource(raw), key=b"", associated_data=AAD)
        assert caught.value.code in {"sealed-size-invalid", "sealed-header-invalid"} or len(raw) > 40


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_documented_error(raw: bytes) -> None:
    refused(raw)


def test_the_size_of_the_manifest_is_demanded() -> None:
    opened(SMALL_SEALED, size=300).close()
    for size in (0, 299, 301, 1 << 30):
        with pytest.raises(SealedTamperError) as caught:
            opened(SMALL_SEALED, size=size)
        assert caught.value.code == "sealed-size-mismatch"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_file_of_two_segments_with_any_byte_changed_is_refused() -> None:
    raw = sealed(BIG[: FIRST_PLAINTEXT_BYTES + 100])
    out = bytearray(FIRST_PLAINTEXT_BYTES)
    for at in range(40):
        raw[at] ^= 1
        refused(raw)
        raw[at] ^= 1
    with opened(raw) as reader:
        for at in range(40, SEGMENT_BYTES):
            raw[at] ^= 1 << at % 8
            with pytest.raises(SealedTamperError):
                reader.read_into(0, out)
            raw[at] ^= 1 << at % 8
        assert not any(out)
    for at in range(SEGMENT_BYTES, len(raw)):
        raw[at] ^= 1
        refused(raw)
        raw[at] ^= 1


# --- ranges ---


@given(st.data())
def test_any_range_is_that_of_the_plaintext(data: st.DataObject) -> None:
    edges = [0, FIRST_PLAINTEXT_BYTES, FIRST_PLAINTEXT_BYTES + PLAINTEXT_BYTES, len(BIG)]
    near = st.sampled_from(edges).flatmap(lambda edge: st.integers(edge - 20, edge + 20))
    place = (near | st.integers(0, len(BIG))).filter(lambda at: 0 <= at <= len(BIG))
    begin, end = sorted((data.draw(place), data.draw(place)))
    with opened(BIG_SEALED) as reader:
        assert reader.read(begin, end - begin) == BIG[begin:end]


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_a_long_range_is_the_same_with_any_number_of_threads(threads: int) -> None:
    with opened(LONG_SEALED, threads=threads) as reader:
        assert reader.size == len(LONG)
        assert reader.read(0, len(LONG)) == LONG
        assert reader.read(1, len(LONG) - 2) == LONG[1:-1]
        assert reader.read(2_000_000, 6_000_000) == LONG[2_000_000:8_000_000]


def test_the_empty_file_has_nothing_to_read() -> None:
    with opened(sealed(b"")) as reader:
        assert reader.size == 0
        assert reader.read(0, 0) == b""
        pieces: list[bytes] = []
        reader.stream(lambda piece: pieces.append(bytes(piece)))
        assert b"".join(pieces) == b""


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 301), (300, 1), (301, 0), (1 << 60, 1), (0, -1)])
def test_a_range_beyond_the_plaintext_is_a_mistake_of_the_caller(offset: int, length: int) -> None:
    with opened(SMALL_SEALED) as reader, pytest.raises(ValueError, match="bytes"):
        reader.read(offset, length)


def test_a_buffer_of_any_kind_of_items_is_filled_with_bytes() -> None:
    with opened(SMALL_SEALED) as reader:
        whole = bytearray(300)
        reader.read_into(0, memoryview(whole).cast("I"))
        assert whole == SMALL
        reader.read_into(7, memoryview(whole)[100:200])
        assert whole == SMALL[:100] + SMALL[7:107] + SMALL[200:]
        with pytest.raises(TypeError):
            reader.read_into(0, memoryview(whole)[::2])
        with pytest.raises(TypeError):
            reader.read_into(0, memoryview(bytes(5)))


def test_a_closed_reader_gives_nothing() -> None:
    source = MemorySource(SMALL_SEALED)
    reader = opened(source)
    assert reader.name == "memory"
    reader.close()
    reader.close()
    assert source.closed == 1
    for call in (lambda: reader.read(0, 1), lambda: reader.stream(len), lambda: reader.scatter(lambda _, piece: piece)):
        with pytest.raises(ValueError, match="closed"):
            call()


@pytest.mark.parametrize("threads", [0, -1])
def test_fewer_threads_than_one_are_a_mistake_of_the_caller(threads: int) -> None:
    with pytest.raises(ValueError, match="thread"):
        opened(SMALL_SEALED, threads=threads)


# --- what is given out is verified ---


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("segment", [0, 1, 5, 10])
def test_a_long_range_with_one_bad_segment_is_zeros_altogether(segment: int, threads: int) -> None:
    raw = bytearray(LONG_SEALED)
    raw[segment * SEGMENT_BYTES + 500] ^= 1
    out = bytearray(b"?" * (len(LONG) - 10))
    with opened(raw, threads=threads) as reader:
        with pytest.raises(SealedTamperError) as caught:
            reader.read_into(5, out)
        assert caught.value.field == f"segment {segment}"
        assert out.count(0) == len(out)
        good = 7 if segment != 7 else 8
        at = FIRST_PLAINTEXT_BYTES + (good - 1) * PLAINTEXT_BYTES
        assert reader.read(at, 100) == LONG[at : at + 100]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_stream_gives_verified_pieces_in_order_and_stops_at_the_bad_one(threads: int) -> None:
    raw = bytearray(LONG_SEALED)
    raw[6 * SEGMENT_BYTES] ^= 1
    got = bytearray()
    with opened(raw, threads=threads) as reader:
        with pytest.raises(SealedTamperError) as caught:
            reader.stream(got.extend)
        assert caught.value.field == "segment 6"
    assert LONG.startswith(got)
    assert len(got) <= FIRST_PLAINTEXT_BYTES + 5 * PLAINTEXT_BYTES


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_stream_gives_everything_once_and_in_order(threads: int) -> None:
    got = bytearray()
    with opened(LONG_SEALED, threads=threads) as reader:
        reader.stream(got.extend)
    assert got == LONG


@pytest.mark.parametrize("threads", [1, 4])
def test_scattered_pieces_are_verified_and_cover_the_plaintext(threads: int) -> None:
    out = bytearray(len(LONG))
    told: list[int] = []

    def put(offset: int, piece: memoryview) -> None:
        out[offset : offset + len(piece)] = piece

    with opened(LONG_SEALED, threads=threads) as reader:
        reader.scatter(put, progress=told.append)
        reader.scatter(put)
    assert out == LONG
    assert told == sorted(told)
    assert told[-1] == len(LONG)
    raw = bytearray(LONG_SEALED)
    raw[3 * SEGMENT_BYTES] ^= 1
    got: list[tuple[int, bytes]] = []
    with opened(raw, threads=threads) as reader, pytest.raises(SealedTamperError):
        reader.scatter(lambda offset, piece: got.append((offset, bytes(piece))))
    assert all(LONG[offset : offset + len(piece)] == piece for offset, piece in got)


def test_what_a_consumer_raises_comes_out() -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "no room")

    with opened(LONG_SEALED, threads=2) as reader:
        with pytest.raises(OSError, match="no room"):
            reader.stream(refuse)
        with pytest.raises(OSError, match="no room"):
            reader.scatter(refuse)
        assert reader.read(0, 10) == LONG[:10]


def test_plaintext_is_gone_from_every_buffer_when_the_reader_is_closed() -> None:
    kept: list[memoryview] = []
    with opened(LONG_SEALED, threads=2) as reader:
        reader.stream(kept.append)
        assert any(any(piece) for piece in kept)
    assert not any(any(piece) for piece in kept)


class FailingSource(MemorySource):
    """Refuses what lies behind an offset."""

    def __init__(self, raw: bytes, *, first: int, error: Callable[[], BaseException]) -> None:
        super().__init__(raw)
        self.first, self.error = first, error

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if self.first <= offset < len(self.raw) - SEGMENT_BYTES:
            raise self.error()
        super().read_into(offset, buffer)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "error", [lambda: SealedSourceError("gone", code="sealed-source-unreadable"), KeyboardInterrupt]
)
def test_a_source_that_fails_leaves_zeros_and_its_error(error: Callable[[], BaseException], threads: int) -> None:
    source = FailingSource(LONG_SEALED, first=6 * SEGMENT_BYTES, error=error)
    out = bytearray(b"?" * len(LONG))
    with opened(source, threads=threads) as reader:
        with pytest.raises(type(error())):
            reader.read_into(0, out)
        assert out.count(0) == len(out)
        with pytest.raises(type(error())):
            reader.stream(len)
        with pytest.raises(type(error())):
            reader.read(7 * SEGMENT_BYTES, 5)
        assert reader.read(0, 5) == LONG[:5]


def test_the_size_that_a_source_had_at_first_is_the_one_that_counts() -> None:
    refused_source = MemorySource(BIG_SEALED, size=2 * SEGMENT_BYTES)
    with pytest.raises(SealedTamperError):
        opened(refused_source)


# --- cost ---


def test_opening_reads_the_header_and_the_last_segment() -> None:
    source = MemorySource(LONG_SEALED)
    opened(source).close()
    last = len(LONG_SEALED) // SEGMENT_BYTES * SEGMENT_BYTES
    assert source.reads == [(0, 40), (last, len(LONG_SEALED) - last)]


def test_small_reads_in_a_row_read_every_segment_once() -> None:
    source = MemorySource(BIG_SEALED)
    with opened(source) as reader:
        got = b"".join(bytes(reader.read(at, min(4096, len(BIG) - at))) for at in range(0, len(BIG), 4096))
    assert got == BIG
    assert [at for at, _ in source.reads[2:]] == [40, SEGMENT_BYTES, 2 * SEGMENT_BYTES]


def test_a_small_read_anywhere_reads_one_segment() -> None:
    source = MemorySource(LONG_SEALED)
    with opened(source) as reader:
        for at in (5_000_000, 100, 9_000_000, 100):
            reader.read(at, 4096)
    assert len(source.reads) == 2 + 4
    assert {length for _, length in source.reads[2:]} <= {SEGMENT_BYTES, SEGMENT_BYTES - 40}


def test_many_threads_read_one_file_at_once() -> None:
    source = MemorySource(LONG_SEALED)
    wrong: list[int] = []
    with opened(source, threads=2) as reader:

        def look(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(25):
                at, length = rng.randrange(len(LONG)), rng.choice([1, 4096, 3_000_000])
                length = min(length, len(LONG) - at)
                if reader.read(at, length) != LONG[at : at + length]:
                    wrong.append(at)

        threads = [threading.Thread(target=look, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_reading_ends_all_its_threads() -> None:
    before = threading.active_count()
    with opened(LONG_SEALED, threads=4) as reader:
        reader.read(0, len(LONG))
        reader.stream(len)
        assert threading.active_count() == before


# --- a source that answers long requests ---


class StreamedMemory(MemorySource):
    """A source whose requests a test counts; a stream may be read to its end and no further."""

    connections = 3

    def __init__(self, raw: bytes | bytearray) -> None:
        super().__init__(raw)
        self.streams: list[tuple[int, int]] = []
        self.open = 0

    @contextmanager
    def stream(self, offset: int, size: int) -> Iterator["_Stream"]:
        with self._lock:
            self.streams.append((offset, size))
            self.open += 1
        try:
            yield _Stream(memoryview(self.raw)[offset : offset + size])
        finally:
            with self._lock:
                self.open -= 1


class _Stream:
    def __init__(self, content: memoryview) -> None:
        self._content = content

    def read_into(self, view: memoryview) -> None:
        assert len(view) <= len(self._content), "more than was asked for"
        view[:] = self._content[: len(view)]
        self._content = self._content[len(view) :]


FAR = content(60 * SEGMENT_BYTES + 7)
FAR_SEALED = bytes(sealed(FAR))


def far(raw: bytes | bytearray = FAR_SEALED) -> tuple[StreamedMemory, SealedReader]:
    source = StreamedMemory(raw)
    return source, opened(source)


class MeetingSource(StreamedMemory):
    """A source that answers no read before a second one is asked for."""

    def __init__(self, raw: bytes | bytearray) -> None:
        super().__init__(raw)
        self._meeting = threading.Barrier(2, timeout=60)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        super().read_into(offset, buffer)
        self._meeting.wait()


def test_opening_a_far_file_takes_the_time_of_one_answer() -> None:
    source = MeetingSource(FAR_SEALED)
    with opened(source) as reader:
        assert reader.size == len(FAR)
    assert sorted(source.reads) == [(0, 40), (60 * SEGMENT_BYTES, len(FAR_SEALED) - 60 * SEGMENT_BYTES)]


def test_a_far_file_is_read_in_few_long_requests_that_leave_nothing_out() -> None:
    source, reader = far()
    got = bytearray(len(FAR))
    source.reads.clear()
    reader.read_into(0, got)
    assert got == FAR
    # The last segment is cached; eight segments a request, one request for each of the last few.
    assert len(source.streams) + len(source.reads) == 8
    assert sum(size for _, size in source.streams) + sum(size for _, size in source.reads) == 60 * SEGMENT_BYTES - 40
    assert source.open == 0


def test_a_far_file_is_passed_on_in_order_and_in_any_order() -> None:
    source, reader = far()
    got = bytearray()
    reader.stream(got.extend)
    assert got == FAR
    assert len(source.streams) <= 8
    assert source.open == 0
    scattered, heard = bytearray(len(FAR)), list[int]()

    def put(offset: int, piece: memoryview) -> None:
        scattered[offset : offset + len(piece)] = piece

    reader.scatter(put, progress=heard.append)
    assert scattered == FAR
    assert (heard, heard[-1]) == (sorted(heard), len(FAR))
    assert len(source.streams) + len(source.reads) <= 8 + 8 + 4


@given(
    st.lists(st.tuples(st.integers(0, len(FAR)), st.integers(0, 3 * SEGMENT_BYTES)), max_size=6),
    st.booleans(),
)
def test_any_parts_of_a_file_are_what_was_sealed(wanted: list[tuple[int, int]], streamed: bool) -> None:
    source = StreamedMemory(FAR_SEALED) if streamed else MemorySource(FAR_SEALED)
    with opened(source, threads=3) as reader:
        parts = [(offset, bytearray(min(length, len(FAR) - offset))) for offset, length in wanted]
        reader.read_parts(parts)
        for offset, part in parts:
            assert part == FAR[offset : offset + len(part)]


@pytest.mark.parametrize(("offset", "length"), [(0, 1), (5, 0), (7, 3 * SEGMENT_BYTES), (len(FAR) - 9, 9), (0, None)])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_range_is_passed_on_in_order(offset: int, length: int | None, *, streamed: bool) -> None:
    got = bytearray()
    with opened(StreamedMemory(FAR_SEALED) if streamed else MemorySource(FAR_SEALED)) as reader:
        reader.stream(got.extend, offset=offset, length=length)
    assert got == FAR[offset : None if length is None else offset + length]


def test_an_altered_segment_of_a_far_file_gives_nothing_of_any_part() -> None:
    raw = bytearray(FAR_SEALED)
    raw[30 * SEGMENT_BYTES + 100] ^= 1
    source, reader = far(raw)
    first, second = bytearray(b"?" * 40 * SEGMENT_BYTES), bytearray(b"?" * 100)
    with pytest.raises(SealedTamperError) as caught:
        reader.read_parts([(0, first), (50 * SEGMENT_BYTES, second)])
    assert caught.value.code == "sealed-segment-invalid"
    assert source.open == 0, "a request that nobody reads keeps its connection"
    assert not any(first)
    assert not any(second)
    got = bytearray()
    with pytest.raises(SealedTamperError):
        reader.stream(got.extend)
    assert FAR.startswith(got)
    with pytest.raises(SealedTamperError):
        reader.scatter(lambda _, piece: None)
