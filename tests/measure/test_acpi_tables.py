"""ACPI tables as QEMU hands them over, and what QEMU derives from them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.measure.acpi_tables import rsdp, table_loader
from tests.measure.made import acpi_tables

USUAL = (("APIC", 120), ("HPET", 56), ("MCFG", 60), ("WAET", 40))
TABLES = acpi_tables(*USUAL, dsdt=0x2000)


def commands(loader: bytes) -> list[tuple[int, bytes]]:
    found = [
        (int.from_bytes(loader[at : at + 4], "little"), loader[at + 4 : at + 128]) for at in range(0, len(loader), 128)
    ]
    return [(number, content) for number, content in found if number]


def test_the_rsdp_points_to_the_last_table() -> None:
    rsdt = TABLES.index(b"RSDT")
    assert rsdp(TABLES) == b"RSD PTR \0BOCHS \0" + struct.pack("<I", rsdt)


def test_the_loader_is_whole_pages_of_commands_of_128_bytes() -> None:
    loader = table_loader(TABLES)
    assert len(loader) == 4096
    found = commands(loader)
    assert [number for number, _ in found] == [1, 1, 3, 2, 2, 2, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 3, 2, 3]
    assert found[0][1][:61] == b"etc/acpi/rsdp".ljust(56, b"\0") + struct.pack("<IB", 16, 2)
    assert found[1][1][:61] == b"etc/acpi/tables".ljust(56, b"\0") + struct.pack("<IB", 64, 1)


def test_many_tables_need_a_second_page() -> None:
    tables = acpi_tables(*(("SRAT", 100) for _ in range(12)), dsdt=0x2000)
    assert len(table_loader(tables)) == 8192


def test_each_pointer_and_each_checksum_is_within_its_table() -> None:
    offsets = {name: TABLES.index(name.encode()) for name in ("DSDT", "FACP", "APIC", "HPET", "MCFG", "WAET", "RSDT")}
    sums = [
        struct.unpack_from("<III", content, 56) for number, content in commands(table_loader(TABLES)) if number == 3
    ]
    assert [start for _, start, _ in sums[:-1]] == list(offsets.values())
    assert all(at == start + 9 for at, start, _ in sums[:-1])
    assert sums[-1] == (8, 0, 20)
    pointers = [
        struct.unpack_from("<IB", content, 112) for number, content in commands(table_loader(TABLES)) if number == 2
    ]
    facp, rsdt = offsets["FACP"], offsets["RSDT"]
    assert pointers[:3] == [(facp + 36, 4), (facp + 40, 4), (facp + 140, 8)]
    assert pointers[3:-1] == [(rsdt + 36 + 4 * index, 4) for index in range(5)]


@pytest.mark.parametrize("name", ["TPM2", "NFIT", "SSDT"])
def test_tables_with_commands_of_their_own_need_the_loader_s_file(name: str) -> None:
    tables = acpi_tables(("APIC", 120), (name, 76), dsdt=0x2000)
    assert len(rsdp(tables)) == 20
    with pytest.raises(ConfigurationError, match=f"the loader of a table '{name}' is not known") as refused:
        table_loader(tables)
    assert refused.value.hint == "give --acpi-loader too"


def broken() -> dict[str, bytes]:
    facp, rsdt = TABLES.index(b"FACP"), TABLES.index(b"RSDT")

    def at(offset: int, value: bytes) -> bytes:
        return TABLES[:offset] + value + TABLES[offset + len(value) :]

    return {
        "nothing": b"",
        "zeros": bytes(4096),
        "no FACS": TABLES[64:],
        "one table": TABLES[:64],
        "no RSDT": TABLES[:rsdt],
        "two FACPs": at(TABLES.index(b"HPET"), b"FACP"),
        "two RSDTs": at(TABLES.index(b"HPET"), b"RSDT"),
        "RSDT not last": at(rsdt, b"APIC").replace(b"HPET", b"RSDT", 1),
        "an RSDT that ends within a pointer": at(rsdt + 4, b"\x39"),
        "a table of no length": at(rsdt + 4, b"\0\0\0\0"),
        "a table after the end": at(rsdt + 4, b"\xff\xff\xff\x7f"),
        "a signature that is none": at(facp, b"F CP"),
        "an address in place of an offset in the FACP": at(facp + 40, b"\0\0\0\x7f"),
        "an address in place of an offset in the RSDT": at(rsdt + 36, b"\0\0\0\x7f"),
        "too many tables": acpi_tables(*(("WAET", 40) for _ in range(70)), dsdt=0x1000),
    }


@pytest.mark.parametrize("case", broken())
def test_no_tables_as_qemu_hands_them_over(case: str) -> None:
    for derive in (rsdp, table_loader):
        with pytest.raises(ConfigurationError, match="no ACPI tables as QEMU hands them over") as refused:
            derive(broken()[case])
        assert refused.value.code == "measure-acpi-invalid"


@given(st.binary(max_size=600), st.integers(0, len(TABLES) - 16), st.binary(max_size=16))
def test_any_bytes_give_a_loader_or_a_refusal_by_name(data: bytes, at: int, patch: bytes) -> None:
    for tables in (data, TABLES[:at] + patch + TABLES[at + len(patch) :]):
        try:
            assert len(table_loader(tables)) % 4096 == 0
        except ConfigurationError as exc:
            assert exc.code == "measure-acpi-invalid"  # noqa: PT017  a total function
