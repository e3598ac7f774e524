"""The ACPI tables that QEMU hands to the firmware: three files, each measured into RTMR0.

``etc/acpi/tables`` holds the tables one after another, ``etc/acpi/rsdp`` points to the last of them, and
``etc/table-loader`` lists what the firmware does with both. The last two follow from the first.

Spec: ACPI 6.5, sections 5.2.5 to 5.2.9; QEMU, hw/acpi/bios-linker-loader.c and hw/i386/acpi-build.c; specs/dstack.md,
section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from attest.errors import ConfigurationError

MAX_TABLES_BYTES = 16 * 1024 * 1024
MAX_TABLES = 64

_CLAUSE = "QEMU, bios-linker-loader"
_RSDP_FILE, _TABLES_FILE = b"etc/acpi/rsdp", b"etc/acpi/tables"
_ALLOCATE, _ADD_POINTER, _ADD_CHECKSUM = 1, 2, 3
_HIGH_MEMORY, _LOW_SEGMENT = 1, 2
_COMMAND_BYTES, _NAME_BYTES, _LOADER_ALIGNMENT = 128, 56, 4096
_HEADER_BYTES, _CHECKSUM_AT = 36, 9
_RSDP_BYTES = 20
_FACP_POINTERS = ((36, 4, "FACS"), (40, 4, "DSDT"), (140, 8, "DSDT"))
_WITHOUT_POINTERS = frozenset({"APIC", "HPET", "HMAT", "MCFG", "SLIT", "SRAT", "WAET"})
"""Tables for which QEMU adds a checksum and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpiTable:
    """A table in the file."""

    signature: str
    offset: int
    data: bytes

    def pointer(self, at: int, size: int = 4) -> int:
        """Return the number at an offset within the table."""
        return int.from_bytes(self.data[at : at + size], "little")


def rsdp(tables: bytes) -> bytes:
    """Return ``etc/acpi/rsdp`` to these tables: its checksum is 0, its pointer an offset.

    Raises:
        ConfigurationError: ``measure-acpi-invalid``.
    """
    return b"RSD PTR \0BOCHS \0" + _parsed(tables)[-1].offset.to_bytes(4, "little")


def table_loader(tables: bytes) -> bytes:
    """Return ``etc/table-loader`` to these tables.

    Raises:
        ConfigurationError: ``measure-acpi-invalid``, also for tables that need further commands.
    """
    found = _parsed(tables)
    commands = b"".join(
        (
            _allocate(_RSDP_FILE, 16, _LOW_SEGMENT),
            _allocate(_TABLES_FILE, 64, _HIGH_MEMORY),
            *(command for table in found[1:] for command in _commands(table)),
            _add_pointer(_RSDP_FILE, 16, 4),
            _add_checksum(_RSDP_FILE, 8, 0, _RSDP_BYTES),
        )
    )
    return commands.ljust(-(-len(commands) // _LOADER_ALIGNMENT) * _LOADER_ALIGNMENT, b"\0")


def _commands(table: AcpiTable) -> Iterator[bytes]:
    if table.signature == "FACP":
        for at, size, _ in _FACP_POINTERS:
            yield _add_pointer(_TABLES_FILE, table.offset + at, size)
    elif table.signature == "RSDT":
        for at in range(_HEADER_BYTES, len(table.data), 4):
            yield _add_pointer(_TABLES_FILE, table.offset + at, 4)
    elif table.signature not in {"DSDT", *_WITHOUT_POINTERS}:
        _refuse(f"the loader of a table {table.signature!r} is not known", hint="give --acpi-loader too")
    yield _add_checksum(_TABLES_FILE, table.offset + _CHECKSUM_AT, table.offset, len(table.data))


def _allocate(file: bytes, alignment: int, zone: int) -> bytes:
    return _command(_ALLOCATE, _file(file) + alignment.to_bytes(4, "little") + bytes([zone]))


def _add_pointer(file: bytes, offset: int, size: int) -> bytes:
    """Return the command that adds the address of the tables to a number in a file."""
    return _command(_ADD_POINTER, _file(file) + _file(_TABLES_FILE) + offset.to_bytes(4, "little") + bytes([size]))


def _add_checksum(file: bytes, at: int, start: int, length: int) -> bytes:
    return _command(_ADD_CHECKSUM, _file(file) + b"".join(n.to_bytes(4, "little") for n in (at, start, length)))


def _command(number: int, content: bytes) -> bytes:
    return (number.to_bytes(4, "little") + content).ljust(_COMMAND_BYTES, b"\0")


def _file(name: bytes) -> bytes:
    return name.ljust(_NAME_BYTES, b"\0")


# -- the tables as QEMU wrote them


def _parsed(data: bytes) -> tuple[AcpiTable, ...]:
    """Read FACS, DSDT, FACP, the other tables and RSDT, and zeros to the end; all pointers are offsets."""
    tables = tuple(_tables(data))
    signatures = [table.signature for table in tables]
    if signatures[:3] != ["FACS", "DSDT", "FACP"] or signatures.count("FACP") != 1 or signatures.count("RSDT") != 1:
        _refuse(f"the tables are {' '.join(signatures) or 'none'}")
    if signatures[-1] != "RSDT" or (len(tables[-1].data) - _HEADER_BYTES) % 4:
        _refuse("the last table is no RSDT")
    offsets = {table.signature: table.offset for table in tables}
    facp, rsdt = tables[2], tables[-1]
    if any(facp.pointer(at, size) != offsets[name] for at, size, name in _FACP_POINTERS):
        _refuse("its FACP does not point to FACS and DSDT by their offsets")
    pointers = [rsdt.pointer(at) for at in range(_HEADER_BYTES, len(rsdt.data), 4)]
    if pointers != [table.offset for table in tables[2:-1]]:
        _refuse("its RSDT does not point to the tables by their offsets")
    return tables


def _tables(data: bytes) -> Iterator[AcpiTable]:
    at, count, end = 0, 0, len(data.rstrip(b"\0"))
    while at < end:
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        signature = data[at : at + 4]
        if not _HEADER_BYTES <= length <= len(data) - at or not signature.isalnum() or count == MAX_TABLES:
            _refuse(f"no ACPI table begins at offset {at:#x}")
        yield AcpiTable(signature=signature.decode("ascii"), offset=at, data=data[at : at + length])
        at, count = at + length, count + 1


def _refuse(problem: str, *, hint: str | None = None) -> NoReturn:
    raise ConfigurationError(
        f"these are no ACPI tables as QEMU hands them over: {problem}",
        code="measure-acpi-invalid",
        expected="QEMU's file etc/acpi/tables, before the firmware changed it",
        clause=_CLAUSE,
        hint=hint or "read /sys/firmware/qemu_fw_cfg/by_name/etc/acpi/tables/raw in a guest of the same shape",
    )
