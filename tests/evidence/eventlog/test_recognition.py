"""A log is recognised by its header, whatever stands where another form has its own marks."""

import pytest

from attest.evidence.recognition import recognise
from tests.evidence.eventlog import writer as w


@pytest.mark.parametrize("size", [1184, 1183, 1185, 1184 + 48, 65536])
def test_a_log_in_an_area_of_any_size_is_a_log(size: int) -> None:
    # The header of a log begins like an SNP report of version 1, and 1,184 bytes are what a report has.
    for fill in (b"\xff", b"\0"):
        assert recognise("log", w.log(w.separator(1)).ljust(size, fill)).form == "ccel"


def test_a_log_with_the_pointers_of_a_certificate_table_is_a_log() -> None:
    area = bytearray(w.log().ljust(4096, b"\xff"))
    area[1184 + 16 : 1184 + 24] = (64).to_bytes(4, "little") + (8).to_bytes(4, "little")
    assert recognise("log", bytes(area)).form == "ccel"


def test_a_report_whose_image_id_spells_the_header_of_a_log_is_a_report() -> None:
    report = bytearray(1184)
    report[:8] = b"\2\0\0\0\3\0\0\0"
    report[8:16] = (0x30000).to_bytes(8, "little")
    report[32:48] = w.SPEC_ID
    assert recognise("report", bytes(report)).form == "snp-report"
