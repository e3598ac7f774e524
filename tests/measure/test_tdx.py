"""The registers of a launch: which inputs each needs, and what is refused before anything is computed."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha384
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from attest.measure import (
    KernelHeader,
    PageOrder,
    TdxLaunch,
    TdxMeasurements,
    kernel_header_of,
    page_order_of,
    tdx_measurements,
)
from attest.measure.inputs import read_whole
from tests.measure.made import acpi_tables, blank_variables, kernel, ovmf

GIB = 1 << 30


@pytest.fixture
def launch(tmp_path: Path) -> TdxLaunch:
    files: Mapping[str, bytes] = {
        "ovmf": ovmf(blank_variables()),
        "kernel": kernel(),
        "initrd": b"initial RAM disk",
        "tables": acpi_tables(("APIC", 120), ("MCFG", 60), ("WAET", 40), dsdt=0x2000),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return TdxLaunch(
        firmware=tmp_path / "ovmf",
        memory=4 * GIB,
        kernel=tmp_path / "kernel",
        kernel_header=KernelHeader.PATCHED,
        initrd=tmp_path / "initrd",
        cmdline="console=ttyS0",
        acpi_tables=tmp_path / "tables",
    )


def registers(launch: TdxLaunch) -> dict[str, bytes]:
    return tdx_measurements(launch).registers


def refusal(launch: TdxLaunch) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        tdx_measurements(launch)
    assert refused.value.hint
    return refused.value


def test_a_whole_launch_gives_all_four_registers(launch: TdxLaunch) -> None:
    found = tdx_measurements(launch)
    assert set(found.registers) == {"mr_td", "rtmr0", "rtmr1", "rtmr2"}
    assert not found.missing
    assert {len(value) for value in found.registers.values()} == {48}
    assert {name: len(events) for name, events in found.events.items()} == {"rtmr0": 13, "rtmr1": 5, "rtmr2": 2}


def test_a_register_is_the_replay_of_its_events(launch: TdxLaunch) -> None:
    found = tdx_measurements(launch)
    for name, events in found.events.items():
        register = bytes(48)
        for event in events:
            register = sha384(register + event.digest).digest()
        assert found.registers[name] == register


def changed(launch: TdxLaunch, other: TdxLaunch) -> set[str]:
    one, two = registers(launch), registers(other)
    return {name for name in one if one[name] != two[name]}


def test_each_input_changes_the_registers_that_it_is_measured_into(launch: TdxLaunch, tmp_path: Path) -> None:
    assert changed(launch, replace(launch, page_order=PageOrder.BY_SECTION)) == {"mr_td"}
    assert changed(launch, replace(launch, memory=8 * GIB)) == {"rtmr0"}
    assert changed(launch, replace(launch, memory=GIB)) == {"rtmr0", "rtmr1"}
    assert changed(launch, replace(launch, kernel_header=KernelHeader.AS_IS)) == {"rtmr1"}
    assert changed(launch, replace(launch, cmdline="console=ttyS1")) == {"rtmr2"}
    (tmp_path / "other").write_bytes(b"initial RAM disc")
    assert changed(launch, replace(launch, initrd=tmp_path / "other")) == {"rtmr2"}
    (tmp_path / "other").write_bytes(b"an initial RAM disk of another size")
    assert changed(launch, replace(launch, initrd=tmp_path / "other")) == {"rtmr1", "rtmr2"}
    (tmp_path / "other").write_bytes(acpi_tables(("APIC", 128), ("MCFG", 60), ("WAET", 40), dsdt=0x2000))
    assert changed(launch, replace(launch, acpi_tables=tmp_path / "other")) == {"rtmr0"}


def test_the_command_line_ends_in_nul_and_names_the_initial_ram_disk(launch: TdxLaunch) -> None:
    def first(launch: TdxLaunch) -> bytes:
        return tdx_measurements(launch).events["rtmr2"][0].digest

    assert first(launch) == sha384("console=ttyS0 initrd=initrd\0".encode("utf-16-le")).digest()
    assert first(replace(launch, initrd=None)) == sha384("console=ttyS0\0".encode("utf-16-le")).digest()
    assert first(replace(launch, cmdline=None)) == sha384(" initrd=initrd\0".encode("utf-16-le")).digest()


def test_neither_command_line_nor_initial_ram_disk_leaves_rtmr2_as_it_starts(launch: TdxLaunch) -> None:
    assert registers(replace(launch, initrd=None, cmdline=None))["rtmr2"] == bytes(48)


def missing(launch: TdxLaunch) -> dict[str, str]:
    found = tdx_measurements(launch)
    assert set(found.missing) == {"rtmr0", "rtmr1", "rtmr2"} - set(found.registers)
    return dict(found.missing)


def test_a_register_is_left_out_with_its_reason_where_an_input_is_not_given(launch: TdxLaunch, tmp_path: Path) -> None:
    firmware = TdxLaunch(firmware=launch.firmware)
    assert set(registers(firmware)) == {"mr_td"}
    assert "--memory" in missing(firmware)["rtmr0"]
    assert "--acpi-tables" in missing(replace(firmware, memory=GIB))["rtmr0"]
    assert {name: "--kernel" in missing(firmware)[name] for name in ("rtmr1", "rtmr2")} == {
        "rtmr1": True,
        "rtmr2": True,
    }
    assert set(missing(replace(launch, memory=None))) == {"rtmr0", "rtmr1"}
    assert set(missing(replace(launch, memory=None, kernel_header=KernelHeader.AS_IS))) == {"rtmr0"}
    assert set(missing(replace(launch, memory=None, initrd=None))) == {"rtmr0"}
    assert missing(replace(launch, unknown_rtmr0="for a reason")) == {"rtmr0": "for a reason"}
    variables = bytearray(blank_variables())
    variables[0x64] = 0xAA
    (tmp_path / "ovmf").write_bytes(ovmf(bytes(variables)))
    assert "is not empty" in missing(launch)["rtmr0"]


def test_given_loader_and_rsdp_are_measured_as_they_are(launch: TdxLaunch, tmp_path: Path) -> None:
    (tmp_path / "loader").write_bytes(b"loader")
    (tmp_path / "rsdp").write_bytes(b"rsdp")
    given = replace(launch, acpi_loader=tmp_path / "loader", acpi_rsdp=tmp_path / "rsdp")
    digests = {event.name: event.digest for event in tdx_measurements(given).events["rtmr0"]}
    assert digests["ACPI table loader"] == sha384(b"loader").digest()
    assert digests["ACPI RSDP"] == sha384(b"rsdp").digest()


def test_a_given_file_that_is_empty_is_no_file_to_derive(launch: TdxLaunch, tmp_path: Path) -> None:
    (tmp_path / "loader").write_bytes(b"")
    assert "is empty" in refusal(replace(launch, acpi_loader=tmp_path / "loader")).message


def test_options_that_do_not_fit_together(launch: TdxLaunch, tmp_path: Path) -> None:
    assert "with a kernel only" in refusal(replace(launch, kernel=None)).message
    assert "with a kernel only" in refusal(replace(launch, kernel=None, initrd=None)).message
    assert "--qemu-version" in str(refusal(replace(launch, kernel_header=None)).hint)
    assert "--acpi-tables" in str(refusal(replace(launch, acpi_tables=None, acpi_loader=tmp_path / "x")).hint)
    assert "--acpi-tables" in str(refusal(replace(launch, acpi_tables=None, acpi_rsdp=tmp_path / "x")).hint)
    (tmp_path / "empty").write_bytes(b"")
    assert "0 bytes" in refusal(replace(launch, initrd=tmp_path / "empty")).message


@pytest.mark.parametrize("cmdline", ["ä", "a\0b", "a" * 70000])
def test_command_lines_that_the_firmware_would_change(launch: TdxLaunch, cmdline: str) -> None:
    assert "as they are" in refusal(replace(launch, cmdline=cmdline)).message


def test_a_video_mode_is_refused_where_qemu_writes_it_into_the_kernel(launch: TdxLaunch) -> None:
    given = replace(launch, cmdline="vga=0x317")
    assert "vga=" in refusal(given).message
    assert tdx_measurements(replace(given, kernel_header=KernelHeader.AS_IS)).registers


@pytest.mark.parametrize("field", ["firmware", "kernel", "initrd", "acpi_tables"])
def test_a_file_that_is_not_there(launch: TdxLaunch, tmp_path: Path, field: str) -> None:
    absent = replace(launch, **{field: tmp_path / "absent"})  # type: ignore[arg-type]  # a path, as these fields
    assert refusal(absent).code == "measure-file-unreadable"


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(11))
    assert read_whole(tmp_path / "file", limit=11) == bytes(11)
    with pytest.raises(ConfigurationError, match="larger than 10 bytes"):
        read_whole(tmp_path / "file", limit=10)


@pytest.mark.parametrize(
    ("version", "order", "header"),
    [
        ((8, 2), PageOrder.BY_SECTION, KernelHeader.PATCHED),
        ((9, 0), PageOrder.BY_PAGE, KernelHeader.PATCHED),
        ((10, 1), PageOrder.BY_PAGE, KernelHeader.PATCHED),
        ((10, 2), PageOrder.BY_PAGE, KernelHeader.AS_IS),
        ((11, 0), PageOrder.BY_PAGE, KernelHeader.AS_IS),
    ],
)
def test_versions_of_qemu(version: tuple[int, int], order: PageOrder, header: KernelHeader) -> None:
    assert page_order_of(version) is order
    assert kernel_header_of(version) is header


def test_registers_are_those_of_the_measurements() -> None:
    assert TdxMeasurements(mr_td=b"m", events={}, missing={}).registers == {"mr_td": b"m"}
