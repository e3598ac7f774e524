"""The attestation report: every byte belongs to a field, and what is accepted is written again byte for byte."""

import contextlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.snp.structure import (
    GUEST_POLICY_BITS,
    PLATFORM_INFO_BITS,
    REPORT_BYTES,
    SIGNED_BYTES,
    VERSIONS,
    layout_of_version,
    parse_report,
)
from attest.evidence.snp.tcb import SnpProduct, tcb_from_bytes
from attest_simulator import SimulatedChip, SimulatedGuest

TCBS = ("current_tcb", "reported_tcb", "committed_tcb", "launch_tcb")
MACHINES = [
    (SnpProduct.MILAN, 2),
    (SnpProduct.MILAN, 3),
    (SnpProduct.GENOA, 4),
    (SnpProduct.GENOA, 5),
    (SnpProduct.TURIN, 2),
    (SnpProduct.TURIN, 5),
]


@cache
def simulated(product: SnpProduct = SnpProduct.GENOA, version: int = 5) -> bytes:
    return SimulatedGuest(chip=SimulatedChip.of(product, report_version=version)).report(bytes(range(64)))


VECTORS = ("milan-v2-vcek", "milan-v3-vlek", "genoa-v5-vcek", "milan-v2-debug")


def real(vectors_dir: Path, vector_id: str) -> tuple[bytes, dict[str, Any]]:
    """Return a recorded report and what the manifest says about it."""
    root = vectors_dir / "sev-snp"
    vectors = json.loads((root / "MANIFEST.json").read_text())["vectors"]
    vector = next(vector for vector in vectors if vector["id"] == vector_id)
    return (root / vector["report"]).read_bytes(), vector


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_report(data)
    return caught.value


def with_bytes(report: bytes, offset: int, value: bytes) -> bytes:
    return report[:offset] + value + report[offset + len(value) :]


# -- real reports


@pytest.mark.parametrize("vector_id", VECTORS)
def test_a_real_report_has_the_values_that_its_manifest_states(vector_id: str, vectors_dir: Path) -> None:
    raw, vector = real(vectors_dir, vector_id)
    report = parse_report(raw)
    fields = vector["fields"]
    for name in ("version", "guest_svn", "policy", "vmpl", "platform_info"):
        assert getattr(report, name) == fields[name], name
    for name in (
        *("family_id", "image_id", "report_data", "measurement", "host_data", "id_key_digest", "author_key_digest"),
        *("report_id", "report_id_ma", "chip_id"),
    ):
        assert getattr(report, name).hex() == fields[name], name
    assert report.signature_algo == fields["sig_algo"]
    cpuid = (report.cpuid_fam_id, report.cpuid_mod_id, report.cpuid_step)
    assert cpuid == (tuple(int(n, 16) for n in fields["cpuid"]) if fields["cpuid"] else (None, None, None))
    key_info = fields["key_info"]
    assert report.key_info == key_info["raw"]
    assert (report.author_key_en, report.mask_chip_key) == (
        bool(key_info["author_key_en"]),
        bool(key_info["mask_chip_key"]),
    )
    assert report.signing_key == key_info["signing_key"]
    assert f"{report.current_major}.{report.current_minor}.{report.current_build}" == fields["current_ver"]
    assert f"{report.committed_major}.{report.committed_minor}.{report.committed_build}" == fields["committed_ver"]
    assert (report.launch_mit_vector or 0, report.current_mit_vector or 0) == (
        fields["launch_mit"],
        fields["current_mit"],
    )
    product = SnpProduct(vector["product_line"])
    assert report.product is (None if report.version == 2 else product)
    for name in TCBS:
        tcb, stated = tcb_from_bytes(getattr(report, name), product, field=name), fields[name]
        assert (tcb.bootloader, tcb.tee, tcb.snp, tcb.microcode, tcb.fmc) == (
            *(stated["bl"], stated["tee"], stated["snp"], stated["ucode"]),
            stated.get("fmc"),
        ), name


@pytest.mark.parametrize("vector_id", VECTORS)
def test_a_real_report_is_written_again_byte_for_byte(vector_id: str, vectors_dir: Path) -> None:
    raw, _ = real(vectors_dir, vector_id)
    report = parse_report(raw)
    assert report.to_bytes() == report.raw == raw
    assert report.signed_bytes == raw[:SIGNED_BYTES]


@pytest.mark.parametrize("vector_id", VECTORS)
def test_a_real_report_of_any_other_length_is_refused(vector_id: str, vectors_dir: Path) -> None:
    raw, _ = real(vectors_dir, vector_id)
    assert {refused(raw[:length]).code for length in range(REPORT_BYTES)} == {"size-wrong"}
    assert {refused(raw + extra).code for extra in (b"\0", b"\1", bytes(24))} == {"size-wrong"}


# -- layout


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_a_table_of_1184_bytes(version: int) -> None:
    layout = layout_of_version(version)
    assert layout.size == REPORT_BYTES == 1184
    assert [field.offset for field in layout if field.name == "signature_r"] == [SIGNED_BYTES]


def test_versions_differ_in_cpuid_and_mitigation_vectors_only() -> None:
    two, three, five = (set(layout_of_version(version).names) for version in (2, 3, 5))
    assert three - two == {"cpuid_fam_id", "cpuid_mod_id", "cpuid_step"}
    assert five - three == {"launch_mit_vector", "current_mit_vector"}
    assert two < three < five
    assert layout_of_version(4).fields == layout_of_version(3).fields


def test_named_bits_are_distinct_and_leave_the_reserved_ones_out() -> None:
    for bits in (GUEST_POLICY_BITS, PLATFORM_INFO_BITS):
        assert len({name for name, _ in bits}) == len({bit for _, bit in bits}) == len(bits)
    assert 17 not in dict(GUEST_POLICY_BITS).values()
    assert 6 not in dict(PLATFORM_INFO_BITS).values()


@pytest.mark.parametrize(("product", "version"), MACHINES)
def test_a_simulated_report_is_written_again_byte_for_byte(product: SnpProduct, version: int) -> None:
    raw = simulated(product, version)
    report = parse_report(raw)
    assert report.to_bytes() == raw
    assert report.version == version
    assert report.product is (None if version == 2 else product)
    assert (report.cpuid_fam_id is None, report.launch_mit_vector is None) == (version == 2, version < 5)


def test_a_field_lies_where_the_specification_puts_it() -> None:
    raw = simulated()
    report = parse_report(raw)
    assert report.report_data == raw[0x50:0x90] == bytes(range(64))
    assert report.measurement == raw[0x90:0xC0]
    assert report.host_data == raw[0xC0:0xE0]
    assert report.reported_tcb == raw[0x180:0x188]
    assert report.chip_id == raw[0x1A0:0x1E0]
    assert (report.current_build, report.current_minor, report.current_major) == tuple(raw[0x1E8:0x1EB])
    assert report.launch_mit_vector == int.from_bytes(raw[0x1F8:0x200], "little")
    assert report.current_mit_vector == int.from_bytes(raw[0x200:0x208], "little")
    assert report.signature_r == raw[0x2A0:0x2E8]
    assert report.signature_s == raw[0x2E8:0x330]


# -- refusals


@pytest.mark.parametrize(("product", "version"), MACHINES)
def test_a_report_of_any_other_length_is_refused(product: SnpProduct, version: int) -> None:
    raw = simulated(product, version)
    for length in range(REPORT_BYTES):
        error = refused(raw[:length])
        assert (error.code, error.got) == ("size-wrong", f"{length} bytes")
    assert refused(raw + b"\0").code == "size-wrong"


@pytest.mark.parametrize(("product", "version"), MACHINES)
def test_every_reserved_byte_that_is_not_zero_is_refused(product: SnpProduct, version: int) -> None:
    raw = simulated(product, version)
    spans = [field for field in layout_of_version(version) if field.kind == "reserved"]
    assert sum(span.size for span in spans) == {2: 4 + 24 + 2 + 168 + 368, 5: 4 + 21 + 2 + 152 + 368}.get(
        version, 4 + 21 + 2 + 168 + 368
    )
    for span in spans:
        for offset in range(span.offset, span.offset + span.size):
            for value in (b"\x01", b"\xff"):
                error = refused(with_bytes(raw, offset, value))
                assert (error.code, error.offset) == ("reserved-not-zero", span.offset), hex(offset)


@pytest.mark.parametrize("version", [0, 1, 6, 255, 256, 0x0200, 0x05000000, 0xFFFFFFFF])
def test_a_version_outside_the_table_is_unsupported(version: int) -> None:
    error = refused(with_bytes(simulated(), 0, version.to_bytes(4, "little")))
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.field, error.offset, error.got) == ("snp-version-unsupported", "VERSION", 0, str(version))


@pytest.mark.parametrize("algorithm", [0, 2, 256, 0x01000000])
def test_another_signature_algorithm_is_unsupported(algorithm: int) -> None:
    error = refused(with_bytes(simulated(), 0x34, algorithm.to_bytes(4, "little")))
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.offset) == ("snp-signature-algorithm-unsupported", 0x34)


@pytest.mark.parametrize("policy", [0x10000, 0, *(0x20000 | 1 << bit for bit in range(26, 64))])
def test_a_policy_without_bit_17_or_with_a_reserved_bit_is_refused(policy: int) -> None:
    error = refused(with_bytes(simulated(), 8, policy.to_bytes(8, "little")))
    assert (error.code, error.field, error.offset) == ("snp-field-malformed", "POLICY", 8)
    assert error.got == hex(policy)


@pytest.mark.parametrize("bit", range(26))
def test_every_defined_policy_bit_is_read(bit: int) -> None:
    policy = 0x20000 | 1 << bit
    assert parse_report(with_bytes(simulated(), 8, policy.to_bytes(8, "little"))).policy == policy


@pytest.mark.parametrize("bit", range(5, 32))
def test_a_reserved_bit_of_key_info_is_refused(bit: int) -> None:
    error = refused(with_bytes(simulated(), 0x48, (1 << bit).to_bytes(4, "little")))
    assert (error.code, error.field, error.offset) == ("snp-field-malformed", "KEY_INFO", 0x48)


@pytest.mark.parametrize("key_info", range(32))
def test_key_info_is_taken_apart(key_info: int) -> None:
    report = parse_report(with_bytes(simulated(), 0x48, bytes([key_info])))
    assert report.author_key_en is bool(key_info & 1)
    assert report.mask_chip_key is bool(key_info & 2)
    assert report.signing_key == key_info // 4


def test_unknown_bits_of_platform_info_are_kept() -> None:
    assert parse_report(with_bytes(simulated(), 0x40, b"\xff" * 8)).platform_info == (1 << 64) - 1


@pytest.mark.parametrize("family_and_model", [b"\0\0", b"\x18\x01", b"\x19\x20", b"\x19\xb0", b"\x1a\x12", b"\x1b\0"])
def test_an_unknown_family_or_model_is_unsupported(family_and_model: bytes) -> None:
    error = refused(with_bytes(simulated(), 0x188, family_and_model))
    assert isinstance(error, UnsupportedError)
    assert (error.code, error.offset) == ("snp-product-unknown", 0x188)


@pytest.mark.parametrize("name", TCBS)
@pytest.mark.parametrize(("product", "spare"), [(SnpProduct.GENOA, range(2, 6)), (SnpProduct.TURIN, range(4, 7))])
def test_a_reserved_byte_of_a_tcb_is_refused_by_the_name_of_the_field(
    name: str, product: SnpProduct, spare: range
) -> None:
    at = next(field.offset for field in layout_of_version(5) if field.name == name)
    for index in range(8):
        changed = with_bytes(simulated(product), at + index, b"\x05")
        if index in spare:
            error = refused(changed)
            assert (error.code, error.field) == ("reserved-not-zero", name.upper())
        else:
            assert getattr(parse_report(changed), name)[index] == 5


def test_in_version_2_the_certificate_has_to_say_how_tcbs_are_laid_out() -> None:
    changed = with_bytes(simulated(SnpProduct.MILAN, 2), 0x180, b"\x01" * 8)
    assert parse_report(changed).reported_tcb == b"\x01" * 8


# -- totality

EDITS = st.lists(st.tuples(st.integers(0, REPORT_BYTES - 1), st.integers(0, 255)), max_size=4)


@given(st.sampled_from(MACHINES), EDITS)
def test_a_report_with_any_bytes_changed_is_written_again_or_refused(
    machine: tuple[SnpProduct, int], edits: list[tuple[int, int]]
) -> None:
    data = bytearray(simulated(*machine))
    for offset, value in edits:
        data[offset] = value
    with contextlib.suppress(EvidenceError):
        assert parse_report(bytes(data)).to_bytes() == data


@given(st.binary(max_size=2 * REPORT_BYTES) | st.binary(min_size=REPORT_BYTES, max_size=REPORT_BYTES))
def test_any_bytes_are_a_report_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_report(data).to_bytes() == data
