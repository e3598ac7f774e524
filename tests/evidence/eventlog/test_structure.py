"""A log is read to its end or refused with the event and the place; what is accepted encodes to the same bytes."""

import contextlib
from hashlib import sha384

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError
from attest.evidence.eventlog.kinds import CCEL, TCG2_SHA256, LogKind
from attest.evidence.eventlog.structure import MAX_EVENTS, MAX_LOG_BYTES, parse_event_log
from tests.evidence.eventlog import writer as w


def refused(data: bytes, kind: LogKind = CCEL) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_event_log(data, kind=kind)
    assert (caught.value.code, caught.value.check, caught.value.exit_code) == (
        "eventlog-malformed",
        "eventlog.format",
        3,
    )
    return caught.value


def test_every_field_of_a_record() -> None:
    data = w.log(w.event(3, w.IPL, b"text"), w.event(0, 0x1234, b""))
    first, second = parse_event_log(data).events
    assert (first.number, first.offset, first.index, first.register) == (1, len(w.CCEL_HEADER), 3, "RTMR2")
    assert (first.type, first.type_name, first.data) == (w.IPL, "EV_IPL", b"text")
    assert first.digest == first.digests[0].value == sha384(b"text").digest()
    assert (second.number, second.register, second.type_name) == (2, "MRTD", "0x00001234")


def test_the_header_says_how_the_log_is_written() -> None:
    spec_id = parse_event_log(w.header((0x27, 32), (w.SHA384, 48), vendor=b"me", index=0)).spec_id
    assert spec_id.algorithms == ((0x27, 32), (w.SHA384, 48))
    assert (spec_id.index, spec_id.version_major, spec_id.uintn_size, spec_id.vendor_info) == (0, 2, 2, b"me")


@pytest.mark.parametrize(
    ("end", "padding"),
    [(b"", 0), (b"\xff" * 4, 4), (b"\xff" * 4 + b"whatever", 12), (bytes(1), 1), (bytes(500), 500)],
)
def test_a_log_has_three_ends(end: bytes, padding: int) -> None:
    whole = w.log(*w.boot())
    parsed = parse_event_log(whole + end)
    assert len(parsed.events) == len(w.boot())
    assert parsed.padding_bytes == padding
    assert parsed.to_bytes() == whole


def test_a_header_alone_is_a_log_without_events() -> None:
    assert parse_event_log(w.CCEL_HEADER).events == ()


def test_a_log_of_a_tpm_has_other_registers_and_another_bank() -> None:
    data = w.TCG2_HEADER + w.tpm_event(0, 8, b"version") + w.tpm_event(23, w.ACTION, b"x")
    parsed = parse_event_log(data, kind=TCG2_SHA256)
    assert [event.register for event in parsed.events] == ["PCR0", "PCR23"]
    assert [digest.algorithm for digest in parsed.events[0].digests] == [4, w.SHA256]
    assert len(parsed.events[0].digest) == 32
    assert parsed.to_bytes() == data
    assert "register index 0 to 23" in str(refused(w.TCG2_HEADER + w.tpm_event(24, 8, b""), TCG2_SHA256))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "4 bytes of register index"),
        (w.header((w.SHA384, 48), event_type=4), "event type 03000000"),
        (w.CCEL_HEADER[:8] + b"\1" + w.CCEL_HEADER[9:], "digest 00000000"),
        (w.CCEL_HEADER.replace(b"Event03", b"Event02"), "signature"),
        (w.header(), "1 to 16 algorithms"),
        (w.header(*((number, 1) for number in range(100, 117))), "1 to 16 algorithms"),
        (w.header((w.SHA384, 48), (w.SHA384, 48)), "each algorithm once"),
        (w.header((w.SHA384, 32)), "a digest size that 0x000c has"),
        (w.header((0x27, 0)), "a digest size that 0x0027 has"),
        (w.header((w.SHA384, 48), extra=1), "34 bytes of header"),
    ],
)
def test_a_broken_header_is_refused(data: bytes, expected: str) -> None:
    error = refused(data)
    assert error.field == "header"
    assert expected in (error.expected or "")


DIGEST = (w.SHA384, bytes(48))


@pytest.mark.parametrize(
    ("record", "at", "expected"),
    [
        (w.record(5, 1, b"", [DIGEST]), 0, "register index 0 to 4"),
        (w.record(1, 1, b"", []), 0, "a SHA-384 digest"),
        (w.record(1, 1, b"", [DIGEST, DIGEST]), 8, "at most 1 digests, as declared"),
        (w.record(1, 1, b"", [(w.SHA256, bytes(32))]), 12, "an algorithm that the header declares"),
        (w.record(1, 1, b"", [DIGEST])[:-4] + b"\1\0\0\0", 66, "1 bytes of event data"),
        (w.record(1, 1, b"", [DIGEST])[:-4] + b"\xff\xff\xff\xff", 66, "4294967295 bytes of event data"),
        (b"\xff\xff\xff", 0, "4 bytes of register index"),
    ],
)
def test_a_broken_record_is_refused_with_its_number_and_place(record: bytes, at: int, expected: str) -> None:
    before = w.log(w.separator(1))
    error = refused(before + record)
    assert (error.field, error.offset) == ("event 2", len(before) + at)
    assert error.expected == expected


def test_a_repeated_algorithm_is_refused_even_where_the_count_fits() -> None:
    log = w.header((w.SHA256, 32), (w.SHA384, 48)) + w.record(1, 1, b"", [DIGEST, DIGEST])
    assert refused(log).got == "0x000c again"


def test_a_record_needs_the_bank_that_counts() -> None:
    log = w.header((w.SHA256, 32), (w.SHA384, 48)) + w.record(1, 1, b"", [(w.SHA256, bytes(32))])
    assert refused(log).got == "digests of 0x000b"


def test_a_log_cut_anywhere_is_refused_unless_it_is_cut_between_records() -> None:
    events = w.boot()[:8]
    whole = w.log(*events)
    borders = {len(w.log(*events[:count])): count for count in range(len(events) + 1)}
    for size in range(len(whole)):
        # Must-check 13: neither shorter nor longer than the format says. Zeros behind a border are its own end.
        if size in borders:
            assert len(parse_event_log(whole[:size]).events) == borders[size]
        else:
            refused(whole[:size])


def test_a_header_may_name_sixteen_algorithms() -> None:
    listed = ((w.SHA384, 48), *((number, 1) for number in range(100, 115)))
    assert parse_event_log(w.header(*listed)).spec_id.algorithms == listed


def test_the_limits_on_size_and_count() -> None:
    smallest = w.record(1, 1, b"", [DIGEST])
    full = w.CCEL_HEADER + smallest * MAX_EVENTS
    assert len(parse_event_log(full + b"\xff" * 4).events) == MAX_EVENTS
    assert refused(full + smallest).field == f"event {MAX_EVENTS + 1}"
    area = w.CCEL_HEADER.ljust(MAX_LOG_BYTES, b"\0")
    assert parse_event_log(area).padding_bytes == MAX_LOG_BYTES - len(w.CCEL_HEADER)
    assert f"{MAX_LOG_BYTES + 1} bytes" in str(refused(area + b"\0"))


def mangled() -> st.SearchStrategy[bytes]:
    """A real log with some bytes replaced: gets further than random bytes do."""
    whole = bytearray(w.log(*w.boot()))

    def change(changes: list[tuple[int, int]]) -> bytes:
        data = bytearray(whole)
        for at, value in changes:
            data[at] = value
        return bytes(data)

    return st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4).map(change)


@given(st.one_of(st.binary(), st.binary().map(lambda tail: w.CCEL_HEADER + tail), mangled()))
def test_any_bytes_are_read_or_refused_and_what_is_read_encodes_to_itself(data: bytes) -> None:
    for kind in (CCEL, TCG2_SHA256):
        with contextlib.suppress(EvidenceError):
            parsed = parse_event_log(data, kind=kind)
            assert parsed.to_bytes() == data[: len(data) - parsed.padding_bytes]
