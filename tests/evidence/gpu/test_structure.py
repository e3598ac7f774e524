"""The report: every byte of the framing has one place and one meaning, and what is accepted is written again."""

import base64
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.gpu.structure import (
    BLOCK,
    BLOCK_COUNTS,
    FIXED,
    HEAD,
    MAX_REPORT_BYTES,
    REQUEST,
    SIGNATURE,
    TAIL,
    parse_report,
)
from attest.evidence.reader import Layout
from tests.evidence.gpu import made

BLOCKS_AT = REQUEST.size + HEAD.size
OPAQUE_AT = BLOCKS_AT + 64 * BLOCK.size + TAIL.size


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_report(data)
    error = caught.value
    assert (error.code, error.check, error.exit_code) == ("gpu-report-malformed", "nvidia.format", 3)
    assert error.field
    assert error.expected
    assert error.got
    assert (error.clause or "").startswith(("DMTF", "NVIDIA"))
    return error


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


# -- what a report says


@pytest.mark.parametrize(("data", "count"), [(made.GPU, 64), (made.SWITCH, 31)])
def test_a_report_is_read_into_its_parts(data: bytes, count: int) -> None:
    report = parse_report(data)
    assert (report.raw, report.nonce, report.responder_nonce) == (data, made.NONCE, made.ANSWER)
    assert report.measurements == tuple(bytes([index]) * 48 for index in range(1, count + 1))
    assert report.signed_bytes + report.signature_r + report.signature_s == data
    assert (report.signature_r, report.signature_s) == (b"\1" * 48, b"\2" * 48)


def test_the_position_of_a_measurement_is_its_rim_index() -> None:
    data = changed(made.GPU, BLOCKS_AT + 35 * BLOCK.size + 7, b"\xab" * 48)
    assert parse_report(data).measurements[35] == b"\xab" * 48


@pytest.mark.parametrize("name", made.REPORTS)
def test_recorded_reports_say_what_their_manifest_says(name: str, vectors_dir: Path) -> None:
    data, facts = made.recorded(vectors_dir, name), made.facts(vectors_dir, f"{name}/report.hex")
    if facts["trailing_bytes_after_signature"]:
        end = len(data) - facts["trailing_bytes_after_signature"]
        error = refused(data)
        assert (error.field, error.offset) == ("report", end)
        assert (error.expected, error.got) == (f"{end} bytes", f"{len(data)} bytes")
        data = data[:end]
    assert len(made.recorded(vectors_dir, name)) == facts["report_length"]
    report = parse_report(data)
    assert report.to_bytes() == data
    assert report.nonce.hex() == facts["nonce"]
    assert len(report.measurements) == facts["blocks"]
    assert len(report.opaque.raw) == facts["opaque_length"]


@pytest.mark.parametrize("which", ["gpu", "switch"])
def test_recorded_reports_of_a_board_are_read_and_written_again(which: str, vectors_dir: Path) -> None:
    devices = made.board(vectors_dir, which)
    facts = made.facts(vectors_dir, f"{made.BOARD}/{which}_evidence.json")
    for device, fact in zip(devices, facts, strict=True):
        data = base64.b64decode(device["evidence"])
        report = parse_report(data)
        assert report.to_bytes() == data
        assert report.nonce.hex() == fact["nonce"]
        assert len(report.measurements) == (64 if which == "gpu" else 31)


# -- framing


def framing() -> list[tuple[str, int, int]]:
    """List every byte of every field that has one value, in the two ends of the record of measurements."""
    found: list[tuple[str, int, int]] = []
    places: list[tuple[Layout, int]] = [(REQUEST, 0), (HEAD, REQUEST.size)]
    places += [(BLOCK, BLOCKS_AT + number * BLOCK.size) for number in (0, 1, 31, 63)]
    for layout, at in places:
        for field in layout:
            if field.name not in {"nonce", "value"}:
                found += [(field.name, at + field.offset, byte) for byte in range(field.size)]
    return found


@pytest.mark.parametrize(("name", "at", "byte"), framing())
def test_no_byte_of_the_framing_has_another_value(name: str, at: int, byte: int) -> None:
    for flip in (0x01, 0x80, 0xFF):
        error = refused(changed(made.GPU, at + byte, bytes([made.GPU[at + byte] ^ flip])))
        named = name if name != "index" else f"index of block {(at - BLOCKS_AT) // BLOCK.size + 1}"
        if name == "number_of_blocks" and made.GPU[at] ^ flip in BLOCK_COUNTS:
            named = "record_length"
        assert error.field == named
        assert error.offset == at + (1 if named == "record_length" and name != named else 0)


def test_every_field_of_the_framing_is_fixed_or_checked_otherwise() -> None:
    names = {name for name, _, _ in framing()}
    assert names - set(FIXED) == {"index", "number_of_blocks", "record_length"}
    assert set(FIXED) <= names


@pytest.mark.parametrize("data", [made.GPU, made.SWITCH])
def test_a_report_that_is_cut_anywhere_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        refused(data[:length])


@pytest.mark.parametrize("data", [made.GPU, made.SWITCH])
@pytest.mark.parametrize("more", [b"\0", b"\0\0\0\0", b"x", made.SIGNATURE])
def test_bytes_after_the_signature_are_refused(data: bytes, more: bytes) -> None:
    error = refused(data + more)
    assert (error.field, error.offset) == ("report", len(data))
    assert (error.expected, error.got) == (f"{len(data)} bytes", f"{len(data) + len(more)} bytes")


def test_a_report_is_no_larger_than_the_buffer_it_is_read_into() -> None:
    room = MAX_REPORT_BYTES - len(made.report(b""))
    largest = made.report(made.entry(0x7777, bytes(room - 4)))
    assert len(parse_report(largest).raw) == MAX_REPORT_BYTES
    error = refused(made.report(made.entry(0x7777, bytes(room - 3))))
    assert (error.field, error.offset, error.expected) == ("report", None, "at most 8192 bytes")


@pytest.mark.parametrize("count", [0, 1, 30, 32, 63, 65, 128])
def test_another_number_of_blocks_is_refused_even_if_it_agrees_with_the_record(count: int) -> None:
    error = refused(made.report(made.opaque(), count=count))
    assert error.field == "number_of_blocks"
    assert error.expected == "31 or 64"


@pytest.mark.parametrize("length", [0, 55, 3519, 3521, 3575, 0x010DC0, 0xFFFFFF])
def test_the_length_of_the_record_agrees_with_its_blocks(length: int) -> None:
    error = refused(changed(made.GPU, REQUEST.size + 5, length.to_bytes(3, "little")))
    assert (error.field, error.offset, error.expected, error.got) == ("record_length", 42, "3520", str(length))


@pytest.mark.parametrize(("number", "index"), [(0, 0), (0, 2), (1, 1), (30, 32), (63, 1), (63, 65), (63, 255)])
def test_a_block_out_of_its_place_is_refused_so_none_stands_twice(number: int, index: int) -> None:
    at = BLOCKS_AT + number * BLOCK.size
    error = refused(changed(made.GPU, at, bytes([index])))
    assert (error.field, error.offset, error.got) == (f"index of block {number + 1}", at, str(index))


def test_two_blocks_that_changed_places_are_refused() -> None:
    first, second = made.GPU[BLOCKS_AT : BLOCKS_AT + 55], made.GPU[BLOCKS_AT + 55 : BLOCKS_AT + 110]
    refused(changed(made.GPU, BLOCKS_AT, second + first))


def test_a_block_that_is_left_out_is_refused() -> None:
    refused(made.GPU[:BLOCKS_AT] + made.GPU[BLOCKS_AT + BLOCK.size :])


@pytest.mark.parametrize("more", [1, 97, 0xFFFF - 700])
def test_opaque_data_ends_inside_the_report(more: int) -> None:
    length = len(made.opaque()) + more
    error = refused(changed(made.GPU, OPAQUE_AT - 2, length.to_bytes(2, "little")))
    assert error.field == ("opaque_length" if more > 96 else "signature")


def test_opaque_data_may_be_empty_and_shorter_opaque_data_leaves_bytes_over() -> None:
    assert parse_report(made.report(b"")).opaque.entries == ()
    error = refused(changed(made.GPU, OPAQUE_AT - 2, b"\0\0"))
    assert (error.field, error.offset) == ("report", OPAQUE_AT + SIGNATURE.size)


def test_what_opaque_data_lacks_is_refused_with_its_offset_in_the_report() -> None:
    error = refused(made.report(made.opaque() + b"\x07"))
    assert error.offset == OPAQUE_AT + len(made.opaque())
    with pytest.raises(UnsupportedError) as caught:
        parse_report(made.report(b"NVDAOD\0\0\2\0\0\0"))
    assert (caught.value.code, caught.value.offset) == ("gpu-opaque-unsupported", OPAQUE_AT)


# -- any bytes at all


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        parse_report(data)


@given(st.integers(0, len(made.GPU) - 1), st.binary(min_size=1, max_size=8), st.sampled_from([made.GPU, made.SWITCH]))
def test_what_is_accepted_after_any_change_is_written_again_byte_for_byte(at: int, value: bytes, data: bytes) -> None:
    mutated = changed(data, min(at, len(data) - 1), value)
    with contextlib.suppress(EvidenceError):
        assert parse_report(mutated).to_bytes() == mutated


@given(
    st.lists(st.tuples(st.integers(200, 0xFFFF), st.binary(max_size=20)), max_size=6, unique_by=lambda e: e[0]),
    st.binary(min_size=32, max_size=32),
)
def test_any_unknown_entries_are_written_again(entries: list[tuple[int, bytes]], nonce: bytes) -> None:
    data = made.report(b"".join(made.entry(*entry) for entry in entries), nonce=nonce)
    report = parse_report(data)
    assert (report.to_bytes(), report.nonce) == (data, nonce)
    assert report.opaque.unknown == tuple(kind for kind, _ in entries)
