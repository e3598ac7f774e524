"""The paravisor's report: closed, total, and the same bytes again."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.azure.structure import HCL, MAX_HCL_BYTES, HclReportType, parse_hcl_report
from tests.evidence.azure.made import AzureVm

SNP, TDX = AzureVm(), AzureVm(kind=HclReportType.TDX)
FREE = {"hardware_report"}
"""What another parser reads."""


@pytest.mark.parametrize("vm", [SNP, TDX], ids=["snp", "tdx"])
def test_what_is_accepted_encodes_to_itself(vm: AzureVm) -> None:
    parsed = parse_hcl_report(vm.hcl)
    assert parsed.to_bytes() == vm.hcl
    assert parsed.runtime_data == vm.runtime_data
    assert parsed.report_type.platform == f"az-{vm.kind.name.lower()}"


@pytest.mark.parametrize("field", [f for f in HCL if f.name not in FREE], ids=lambda f: f"{f.name}@{f.offset:#x}")
def test_every_field_has_permitted_values_only(field: object) -> None:
    offset, size = field.offset, field.size  # type: ignore[attr-defined]
    data = SNP.hcl
    for at in range(offset, offset + size):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                found = parse_hcl_report(changed)
            except EvidenceError:
                continue
            # Another version, type or hash that is known; whether it is the right one shows later.
            assert field.name in ("version", "report_type", "hash_type")  # type: ignore[attr-defined]
            assert found.to_bytes() == changed


@pytest.mark.parametrize(
    ("offset", "value", "code"),
    [
        (0x004, 3, "hcl-unsupported"),
        (0x00C, 1, "hcl-unsupported"),
        (0x010, 1, "hcl-unsupported"),
        (0x014, 1, "reserved-not-zero"),
        (0x4C4, 2, "hcl-unsupported"),
        (0x4C8, 3, "hcl-unsupported"),
        (0x4CC, 4, "hcl-unsupported"),
        (0x008, 1, "hcl-malformed"),
        (0x4C0, 1, "hcl-malformed"),
        (0x4D0, 0, "hcl-malformed"),
        (0x4D0, 0x7FFFFFFF, "hcl-malformed"),
        (0x000, 0, "hcl-malformed"),
    ],
)
def test_a_defect_has_its_name(offset: int, value: int, code: str) -> None:
    data = SNP.hcl
    with pytest.raises(EvidenceError) as outcome:
        parse_hcl_report(data[:offset] + value.to_bytes(4, "little") + data[offset + 4 :])
    assert outcome.value.code == code
    assert outcome.value.exit_code == 3
    assert isinstance(outcome.value, UnsupportedError) == (code == "hcl-unsupported")


def test_no_byte_that_nothing_signs_may_be_set() -> None:
    padded = SNP.hcl[:-1] + b"\1"
    spare = bytearray(TDX.hcl)
    spare[0x020 + 1024] = 1
    for data in (padded, bytes(spare)):
        with pytest.raises(EvidenceError) as outcome:
            parse_hcl_report(data)
        assert outcome.value.code == "reserved-not-zero"


def test_a_report_that_is_cut_off_or_too_long_is_malformed() -> None:
    data = SNP.hcl.rstrip(b"\0")
    parse_hcl_report(data)
    for length in (*range(0, HCL.size, 97), HCL.size, len(data) - 1):
        with pytest.raises(EvidenceError):
            parse_hcl_report(data[:length])
    parse_hcl_report(data.ljust(MAX_HCL_BYTES, b"\0"))
    with pytest.raises(EvidenceError):
        parse_hcl_report(data.ljust(MAX_HCL_BYTES + 1, b"\0"))


def test_sixty_four_kibibytes_of_claims_and_not_one_more() -> None:
    parse_hcl_report(AzureVm(runtime=b" " * 0x10000).hcl)
    with pytest.raises(EvidenceError):
        parse_hcl_report(AzureVm(runtime=b" " * 0x10001).hcl)


@given(st.binary(max_size=4096) | st.binary(max_size=1500).map(lambda tail: SNP.hcl[:1216] + tail))
def test_any_bytes_are_a_report_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_hcl_report(data).to_bytes() == data


def test_recorded_reports_encode_to_themselves(vectors_dir: Path) -> None:
    root = vectors_dir / "azure"
    data = (root / "raw-snp/hcl-report.bin").read_bytes()
    parsed = parse_hcl_report(data)
    vector = next(v for v in json.loads((root / "MANIFEST.json").read_text())["vectors"] if v["id"] == "raw-snp")
    assert parsed.to_bytes() == data
    assert parsed.runtime_digest[:32].hex() == vector["hcl"]["variable_data_sha256"]
    assert (parsed.version, len(parsed.runtime_data)) == (1, vector["hcl"]["variable_data_size"])
