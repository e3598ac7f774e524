"""The TD report: both layouts, and the refusal of any other."""

import pytest

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.tdx.structure import (
    TD_ATTRIBUTE_BITS,
    TD_REPORT_TYPES,
    XFAM_FIXED_ONE,
    XFAM_KNOWN,
    layout_of_type,
    parse_td_report,
)

SAMPLES = {kind: bytes(i * 7 % 256 for i in range(layout_of_type(kind).size)) for kind in TD_REPORT_TYPES}


@pytest.mark.parametrize("kind", TD_REPORT_TYPES)
def test_every_field_stands_where_the_table_says(kind: int) -> None:
    sample = SAMPLES[kind]
    report = parse_td_report(sample, body_type=kind)
    for field in layout_of_type(kind):
        span = sample[field.offset : field.offset + field.size]
        value = getattr(report, field.name)
        assert value == (span if field.kind == "bytes" else int.from_bytes(span, "little")), field.name
    assert (report.raw, report.body_type) == (sample, kind)
    assert report.rtmrs == (report.rtmr0, report.rtmr1, report.rtmr2, report.rtmr3)


@pytest.mark.parametrize("kind", TD_REPORT_TYPES)
def test_what_is_read_encodes_again(kind: int) -> None:
    assert parse_td_report(SAMPLES[kind], body_type=kind).to_bytes() == SAMPLES[kind]


def test_tdx_1_0_has_no_second_svn_and_no_service_td() -> None:
    old, new = (parse_td_report(SAMPLES[kind], body_type=kind) for kind in (2, 3))
    assert (new.td_id, new.current_service_td_hash) == (None, None)
    assert (old.tee_tcb_svn_2, old.mr_service_td) == (None, None)
    assert new.tee_tcb_svn_2 == SAMPLES[3][584:600]
    assert new.mr_service_td == SAMPLES[3][600:]


@pytest.mark.parametrize(
    ("kind", "size"), [(2, 583), (2, 585), (2, 648), (3, 584), (3, 649), (3, 0), (4, 884), (4, 886)]
)
def test_another_size_is_refused(kind: int, size: int) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_td_report(bytes(size), body_type=kind)
    assert caught.value.code == "size-wrong"


@pytest.mark.parametrize(("kind", "size"), [(5, 885), (1, 384), (0, 0), (65535, 648)])
def test_another_type_is_unsupported(kind: int, size: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_td_report(bytes(size), body_type=kind)
    assert caught.value.code == "tdx-body-type-unsupported"


def test_each_of_the_low_eight_bits_marks_a_td_under_debug() -> None:
    for bit in range(64):
        data = bytearray(584)
        data[120:128] = (1 << bit).to_bytes(8, "little")
        report = parse_td_report(bytes(data), body_type=2)
        assert report.td_attributes == 1 << bit
        assert report.debug is (bit < 8)


def test_the_named_bits_are_those_of_the_specification() -> None:
    assert dict(TD_ATTRIBUTE_BITS) == {
        "debug": 0,
        "sept_ve_disable": 28,
        "migratable": 29,
        "pks": 30,
        "kl": 31,
        "perfmon": 63,
    }
    assert XFAM_FIXED_ONE & XFAM_KNOWN == XFAM_FIXED_ONE


def test_each_layout_is_named_by_the_version_of_the_module_that_writes_it() -> None:
    assert {kind: layout_of_type(kind).name for kind in TD_REPORT_TYPES} == {
        2: "TD report 1.0",
        3: "TD report 1.5",
        4: "TD report 1.5, extended",
    }


def test_the_extended_report_has_the_fields_of_the_specification() -> None:
    fields = [(field.name, field.offset, field.size) for field in layout_of_type(4)]
    assert fields[: len(tuple(layout_of_type(3)))] == [(f.name, f.offset, f.size) for f in layout_of_type(3)]
    assert fields[len(tuple(layout_of_type(3))) :] == [
        ("vm_id", 648, 1),
        ("td_id", 649, 32),
        ("device_info", 681, 48),
        ("initial_service_td_hash", 729, 48),
        ("initial_service_td_attributes", 777, 8),
        ("initial_cpu_svn", 785, 16),
        ("initial_tee_tcb_svn", 801, 16),
        ("initial_fmspc", 817, 12),
        ("current_service_td_hash", 829, 48),
        ("current_service_td_attributes", 877, 8),
    ]


@pytest.mark.parametrize(("kind", "offset"), [(3, 600), (4, 600), (4, 729), (4, 829)])
def test_each_hash_of_a_service_td_says_that_one_is_bound(kind: int, offset: int) -> None:
    data = bytearray(layout_of_type(kind).size)
    assert parse_td_report(bytes(data), body_type=kind).service_td_bound is False
    data[offset + 47] = 1
    assert parse_td_report(bytes(data), body_type=kind).service_td_bound is True


def test_tdx_1_0_has_no_service_td() -> None:
    assert parse_td_report(bytes(584), body_type=2).service_td_bound is False
