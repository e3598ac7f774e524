"""The enclave report: every byte has its place, and nothing is lost."""

import pytest

from attest.errors import EvidenceError
from attest.evidence.sgx.structure import ATTRIBUTE_BITS, ENCLAVE_REPORT, ENCLAVE_REPORT_BYTES, parse_enclave_report

SAMPLE = bytes(i * 7 % 256 for i in range(ENCLAVE_REPORT_BYTES))


def test_every_field_stands_where_the_table_says() -> None:
    report = parse_enclave_report(SAMPLE)
    for field in ENCLAVE_REPORT:
        span = SAMPLE[field.offset : field.offset + field.size]
        value = getattr(report, field.name)
        assert value == (span if field.kind == "bytes" else int.from_bytes(span, "little")), field.name
    assert report.raw == SAMPLE


def test_what_is_read_encodes_again_reserved_bytes_included() -> None:
    assert parse_enclave_report(SAMPLE).to_bytes() == SAMPLE


@pytest.mark.parametrize("size", [0, 383, 385, 432])
def test_another_size_is_refused(size: int) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_enclave_report(bytes(size))
    assert caught.value.code == "size-wrong"


def test_attributes_are_flags_and_xfrm() -> None:
    data = bytearray(ENCLAVE_REPORT_BYTES)
    data[48:64] = (0x15).to_bytes(8, "little") + (0xE7).to_bytes(8, "little")
    report = parse_enclave_report(bytes(data))
    assert (report.flags, report.xfrm, report.debug) == (0x15, 0xE7, False)


def test_bit_1_is_debug_and_no_other() -> None:
    for bit in range(64):
        data = bytearray(ENCLAVE_REPORT_BYTES)
        data[48:56] = (1 << bit).to_bytes(8, "little")
        assert parse_enclave_report(bytes(data)).debug is (bit == 1)
    assert dict(ATTRIBUTE_BITS)["debug"] == 1
