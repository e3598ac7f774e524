"""Firmware, kernels and ACPI tables made for the tests, byte by byte from their specifications."""

import struct
import zlib
from uuid import UUID

PAGE = 4096
BOOT_VOLUME, CONFIGURATION_VOLUME, TD_HOB, MEMORY = range(4)
EXTEND, LATE = 1, 2
_FOOTER = UUID("96b582de-1fb2-45f7-baea-a366c55a082d").bytes_le
_TDVF = UUID("e47a6535-984a-4798-865e-4685a7bf8ec2").bytes_le

Row = tuple[int, int, int, int, int, int]
"""A section of the TDVF metadata: offset and size in the image, address and size in memory, type, attributes."""

OVMF_MEMORY = (
    (0, 0, 0x810000, 0x10000, MEMORY, 0),
    (0, 0, 0x80B000, 0x2000, MEMORY, 0),
    (0, 0, 0x809000, 0x2000, TD_HOB, 0),
    (0, 0, 0x800000, 0x6000, MEMORY, 0),
)
"""The sections in memory of every OVMF image of edk2 from 2022-11 to 2025-02."""


def firmware(rows: tuple[Row, ...], *, content: bytes, version: int = 1, length: int | None = None) -> bytes:
    """Return an image: content, then a last page with TDVF metadata and the table that leads to it."""
    length = 16 + 32 * len(rows) if length is None else length
    metadata = b"TDVF" + struct.pack("<III", length, version, len(rows))
    metadata += b"".join(struct.pack("<IIQQII", *row) for row in rows)
    tail_after = 4 + 2 + 16 + 2 + 16 + 32
    entry = struct.pack("<I", len(metadata) + tail_after) + struct.pack("<H", 22) + _TDVF
    footer = struct.pack("<H", len(entry) + 18) + _FOOTER
    tail = metadata + entry + footer + bytes(32)
    return content + tail.rjust(-(-len(tail) // PAGE) * PAGE, b"\0")


def ovmf(volume: bytes, *, base: int = 0xFFC00000) -> bytes:
    """Return an image as OVMF's: the configuration volume first, not measured, then the boot volume, measured."""
    boot = bytes(range(256)) * 32
    rows: tuple[Row, ...] = (
        (len(volume), len(boot), base + len(volume), len(boot), BOOT_VOLUME, EXTEND),
        (0, len(volume), base, len(volume), CONFIGURATION_VOLUME, 0),
        *OVMF_MEMORY,
    )
    return firmware(rows, content=volume + boot)


def blank_variables(size: int = 0x84000) -> bytes:
    """Return a configuration volume with an empty store of variables, as edk2 builds it for images of 4 MiB."""
    blocks = struct.pack("<IIII", size // PAGE, PAGE, 0, 0)
    head = bytes(16) + UUID("fff12b8d-7696-4c8b-a985-2747075b4f50").bytes_le
    head += struct.pack("<Q4sIHHHBB", size, b"_FVH", 0x4FEFF, 72, 0, 0, 0, 2) + blocks
    checksum = -sum(struct.unpack("<36H", head)) & 0xFFFF
    head = head[:50] + struct.pack("<H", checksum) + head[52:]
    store = UUID("aaf32c78-947b-439a-a180-2e144ec37792").bytes_le + struct.pack(
        "<IBBHI", 0x40000 - 72, 0x5A, 0xFE, 0, 0
    )
    work = UUID("9e58292b-7c68-497d-a0ce-6500fd9f1b95").bytes_le + struct.pack("<IIQ", 0xFFFFFFFF, 0xFFFFFFFF, 0xFE0)
    work = work[:16] + struct.pack("<II", zlib.crc32(work), 0xFFFFFFFE) + work[24:]
    return ((head + store).ljust(0x41000, b"\xff") + work).ljust(size, b"\xff")


def kernel(
    *,
    magic: int = 0x20B,
    directories: int = 16,
    sections: tuple[tuple[int, int], ...] = ((0x800, 0x200), (0x600, 0x200)),
    certificates: bytes = b"",
    rest: bytes = b"",
    protocol: int = 0x20F,
    flags: int = 0x01,
    extended_flags: int = 0x03,
    size_of_headers: int = 0x600,
) -> bytes:
    """Return a bzImage that is a PE image: headers to 0x600, sections, certificates."""
    pe = 0x300
    optional_size = {0x10B: 96, 0x20B: 112}[magic] + 8 * directories
    image = bytearray(b"MZ".ljust(size_of_headers, b"\x11"))
    image[0x3C:0x40] = struct.pack("<I", pe)
    image[0x202:0x206] = b"HdrS"
    image[0x206:0x208] = struct.pack("<H", protocol)
    image[0x211] = flags
    image[0x22C:0x230] = struct.pack("<I", 0x7FFFFFFF)
    image[0x236:0x238] = struct.pack("<H", extended_flags)
    image[pe : pe + 24] = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, optional_size, 0)
    optional = bytearray(optional_size)
    optional[:2] = struct.pack("<H", magic)
    optional[60:64] = struct.pack("<I", size_of_headers)
    optional[64:68] = b"SUM!"
    counter = {0x10B: 92, 0x20B: 108}[magic]
    optional[counter : counter + 4] = struct.pack("<I", directories)
    body = b"".join(bytes([index + 1]) * size for index, (_, size) in enumerate(sorted(sections)))
    if directories > 4:
        place = size_of_headers + len(body) + len(rest)
        optional[counter + 36 : counter + 44] = struct.pack("<II", place, len(certificates))
    at = pe + 24
    image[at : at + optional_size] = optional
    at += optional_size
    for offset, size in sections:
        image[at : at + 40] = b".text".ljust(8, b"\0") + struct.pack("<IIIIIIHHI", size, 0, size, offset, 0, 0, 0, 0, 0)
        at += 40
    assert len(image) == size_of_headers
    return bytes(image) + body + rest + certificates


def acpi_tables(*tables: tuple[str, int], dsdt: int, size: int = 0x20000) -> bytes:
    """Return ``etc/acpi/tables``: FACS, DSDT, FACP, the given tables by signature and length, RSDT, zeros."""
    rows = [("FACS", 64), ("DSDT", dsdt), ("FACP", 244), *tables, ("RSDT", 36 + 4 * (1 + len(tables)))]
    offsets, at = [], 0
    for _, length in rows:
        offsets.append(at)
        at += length
    written = bytearray(size)
    for (signature, length), offset in zip(rows, offsets, strict=True):
        written[offset : offset + 8] = signature.encode() + struct.pack("<I", length)
    facp, rsdt = offsets[2], offsets[-1]
    written[facp + 36 : facp + 44] = struct.pack("<II", offsets[0], offsets[1])
    written[facp + 140 : facp + 148] = struct.pack("<Q", offsets[1])
    for place, offset in enumerate(offsets[2:-1]):
        written[rsdt + 36 + 4 * place : rsdt + 40 + 4 * place] = struct.pack("<I", offset)
    return bytes(written)
