"""A Linux kernel as OVMF measures it: the Authenticode digest of the image, after QEMU wrote into its setup header.

Spec: Linux, Documentation/arch/x86/boot.rst; QEMU, hw/i386/x86-common.c; PE/COFF and Authenticode, "calculating the
PE image hash"; specs/dstack.md, section 4.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from hashlib import sha384
from typing import NoReturn

from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.reader import ByteReader
from attest.measure.td_hob import low_memory

MAX_KERNEL_BYTES = 256 * 1024 * 1024

_CLAUSE = "Authenticode, calculating the PE image hash"

# The setup header, and QEMU's values in it.
_HEADER_MAGIC_AT, _HEADER_MAGIC = 0x202, b"HdrS"
_PROTOCOL_AT, _OLDEST_PROTOCOL = 0x206, 0x20C
"""2.12, the first with the flag that is read below, and older than every kernel that measures its command line."""
_LOADER_AT, _LOADER_QEMU = 0x210, 0xB0
_FLAGS_AT, _LOADED_HIGH, _CAN_USE_HEAP = 0x211, 0x01, 0x80
_INITRD_ADDRESS_AT, _INITRD_SIZE_AT = 0x218, 0x21C
_HEAP_END_AT, _HEAP_END = 0x224, 0x20000 - 0x10000 - 0x200
_CMDLINE_AT, _CMDLINE_ADDRESS = 0x228, 0x20000
_INITRD_MAX_AT = 0x22C
_EXTENDED_FLAGS_AT, _LOADED_ABOVE_4G = 0x236, 0x02
_HEADER_END = 0x268
_ACPI_DATA_BYTES = 0x28000
"""QEMU keeps so many bytes for ACPI at the end of the memory below 4 GiB."""

# PE: offsets in the COFF header and in the optional header.
_MAX_PE_SECTIONS = 96
_SECTION_HEADER_BYTES = 40
_CHECKSUM_AT, _SIZE_OF_HEADERS_AT = 64, 60
_DIRECTORY_COUNT_AT = {0x10B: 92, 0x20B: 108}
"""Offsets by magic number: PE32, PE32+."""
_CERTIFICATES = 4
"""Index of the directory of certificates, which the digest leaves out."""


class KernelHeader(enum.StrEnum):
    """The setup header of the kernel that QEMU gives to the firmware."""

    PATCHED = "patched"
    """QEMU up to 10.1 writes loader, command line and initrd addresses into it."""
    AS_IS = "as-is"
    """QEMU 10.2 and later leaves the file as it is for confidential guests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PeHeader:
    """Places in a PE file; ``certificates`` is (offset of the directory entry, size of the certificates) or None."""

    checksum: int
    certificates: tuple[int, int] | None
    size_of_headers: int
    sections: tuple[tuple[int, int], ...]


def patched_kernel(kernel: bytes, *, initrd_size: int, memory: int, name: str) -> bytes:
    """Return the kernel as QEMU gives it to the firmware.

    Args:
        kernel: a bzImage.
        initrd_size: size of the initial RAM disk in bytes, 0 without one.
        memory: memory of the guest in bytes; the place of the RAM disk depends on it below 2.75 GiB.
        name: name of the kernel in refusals.

    Raises:
        ConfigurationError: ``measure-kernel-invalid``.
    """
    if len(kernel) < _HEADER_END or kernel[_HEADER_MAGIC_AT : _HEADER_MAGIC_AT + 4] != _HEADER_MAGIC:
        _refuse(name, "it has no setup header of a Linux kernel")
    if _number(kernel, _PROTOCOL_AT, 2) < _OLDEST_PROTOCOL or not kernel[_FLAGS_AT] & _LOADED_HIGH:
        _refuse(name, f"its boot protocol {_number(kernel, _PROTOCOL_AT, 2):#x} is too old")
    patches = {
        _LOADER_AT: bytes([_LOADER_QEMU]),
        _FLAGS_AT: bytes([kernel[_FLAGS_AT] | _CAN_USE_HEAP]),
        _HEAP_END_AT: _HEAP_END.to_bytes(2, "little"),
        _CMDLINE_AT: _CMDLINE_ADDRESS.to_bytes(4, "little"),
    }
    if initrd_size:
        address = _initrd_address(kernel, initrd_size, memory, name)
        patches[_INITRD_ADDRESS_AT] = address.to_bytes(4, "little")
        patches[_INITRD_SIZE_AT] = initrd_size.to_bytes(4, "little")
    patched = bytearray(kernel)
    for at, value in patches.items():
        patched[at : at + len(value)] = value
    return bytes(patched)


def _initrd_address(kernel: bytes, size: int, memory: int, name: str) -> int:
    """Return the place that QEMU chooses: as high as kernel and memory allow."""
    anywhere = _number(kernel, _EXTENDED_FLAGS_AT, 2) & _LOADED_ABOVE_4G
    highest = 0xFFFF_FFFF if anywhere else _number(kernel, _INITRD_MAX_AT, 4)
    highest = min(highest, low_memory(memory) - _ACPI_DATA_BYTES - 1)
    if size >= highest:
        _refuse(name, f"an initial RAM disk of {size} bytes does not fit below {highest:#x}")
    return (highest - size) & ~0xFFF


def authenticode_sha384(image: bytes, *, name: str) -> bytes:
    """Compute the digest of a PE image, without its checksum and its certificates.

    NOTE: as edk2's MeasurePeImageAndExtend; it does not pad the file to 8 bytes as tools that sign do.

    Raises:
        ConfigurationError: ``measure-kernel-invalid``.
    """
    try:
        header = _pe_header(image, name)
    except EvidenceError as exc:  # of the reader: cut off
        raise _invalid(name, exc.message) from exc
    digest = sha384(image[: header.checksum])
    after = header.checksum + 4
    certificate_bytes = 0
    if header.certificates is not None:
        entry, certificate_bytes = header.certificates
        digest.update(image[after:entry])
        after = entry + 8
    digest.update(image[after : header.size_of_headers])
    hashed = header.size_of_headers
    for offset, size in sorted(header.sections):
        digest.update(image[offset : offset + size])
        hashed += size
    if hashed + certificate_bytes > len(image):
        _refuse(name, "its sections and certificates are longer than the file")
    digest.update(image[hashed : len(image) - certificate_bytes])
    return digest.digest()


def _pe_header(image: bytes, name: str) -> _PeHeader:
    if image[:2] != b"MZ":
        _refuse(name, "it is no PE image, so it was built without an EFI stub")
    pe = _number(image, 0x3C, 4)
    reader = ByteReader(image[pe:], what="PE header")
    if reader.take(4, "signature") != b"PE\0\0":
        _refuse(name, "it is no PE image, so it was built without an EFI stub")
    coff = reader.take(20, "COFF header")
    count, optional_size = _number(coff, 2, 2), _number(coff, 16, 2)
    optional = reader.take(optional_size, "optional header")
    counter = _DIRECTORY_COUNT_AT.get(_number(optional, 0, 2))
    if counter is None or optional_size < counter + 4 or count > _MAX_PE_SECTIONS:
        _refuse(name, f"its PE header has {optional_size} bytes and {count} sections")
    directories, base = _number(optional, counter, 4), pe + 24
    at = counter + 4 + 8 * _CERTIFICATES
    if directories > _CERTIFICATES and optional_size < at + 8:
        _refuse(name, f"its PE header has {directories} directories in {optional_size} bytes")
    headers = [reader.take(_SECTION_HEADER_BYTES, "section header") for _ in range(count)]
    size_of_headers = _number(optional, _SIZE_OF_HEADERS_AT, 4)
    if not base + optional_size <= size_of_headers <= len(image):
        _refuse(name, f"its PE headers have {size_of_headers} bytes")
    return _PeHeader(
        checksum=base + _CHECKSUM_AT,
        certificates=(base + at, _number(optional, at + 4, 4)) if directories > _CERTIFICATES else None,
        size_of_headers=size_of_headers,
        sections=tuple(_pe_sections(headers, len(image), name)),
    )


def _pe_sections(headers: list[bytes], end: int, name: str) -> list[tuple[int, int]]:
    """Return offset and size of each section with content."""
    sections = [(_number(header, 20, 4), _number(header, 16, 4)) for header in headers]
    sections = [(offset, size) for offset, size in sections if size]
    if any(offset + size > end for offset, size in sections):
        _refuse(name, "a section of it is outside the file")
    return sections


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _refuse(name: str, problem: str) -> NoReturn:
    raise _invalid(name, problem)


def _invalid(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is no kernel that can be measured: {problem}",
        code="measure-kernel-invalid",
        expected="a bzImage with an EFI stub",
        clause=_CLAUSE,
        hint="give the kernel that the VMM loads (QEMU: -kernel), uncompressed by any other tool",
    )
