"""The TDVF metadata of an OVMF image, and MRTD, the measurement of the pages that a TD is built from.

Spec: Intel TDVF design guide, TDVF metadata; Intel TDX module, TDH.MEM.PAGE.ADD and TDH.MR.EXTEND; specs/dstack.md,
section 4.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha384
from typing import NoReturn
from uuid import UUID

from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.reader import ByteReader
from attest.measure.firmware_table import PAGE_BYTES, firmware_table

MAX_SECTIONS = 64
MAX_SECTION_BYTES = 64 * 1024 * 1024
"""All sections together: 16,384 pages, each of which adds up to 6 KiB to what is hashed; real images have 4 MiB."""

CLAUSE = "Intel TDVF design guide, TDVF metadata"
_METADATA = UUID("e47a6535-984a-4798-865e-4685a7bf8ec2")
_HEAD_BYTES, _SECTION_BYTES = 16, 32
_CHUNK = 256
"""TDH.MR.EXTEND measures so many bytes at once."""
_HIGHEST_ADDRESS = 1 << 52
_STEP_BYTES = 128


class PageOrder(enum.StrEnum):
    """The order in which the host measures the pages of a section."""

    BY_PAGE = "single-pass"
    """Each page is added, then its content is measured: Linux since 6.16, QEMU 9 and later with TDX."""
    BY_SECTION = "two-pass"
    """All pages of a section are added, then all contents are measured: QEMU 8 with TDX."""


class SectionKind(enum.IntEnum):
    """The kinds of sections that QEMU accepts."""

    BOOT_VOLUME = 0
    CONFIGURATION_VOLUME = 1
    TD_HOB = 2
    TEMPORARY_MEMORY = 3


_KINDS = {int(kind) for kind in SectionKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A range of the TD's memory that exists before it starts.

    Attributes:
        address: guest physical address, whole pages, as is ``size``.
        data: its content from the firmware image; empty for memory, which starts as zeros.
        extends: its content is measured, not only its place.
    """

    kind: SectionKind
    address: int
    size: int
    data: bytes
    extends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tdvf:
    """The metadata of a firmware image that can start a TD."""

    sections: tuple[Section, ...]

    def of_kind(self, kind: SectionKind) -> tuple[Section, ...]:
        """Return the sections of one kind, in the order of the metadata."""
        return tuple(section for section in self.sections if section.kind is kind)


def parse_tdvf(data: bytes, *, name: str) -> Tdvf:
    """Read the TDVF metadata of a firmware image.

    Raises:
        ConfigurationError: ``measure-firmware-invalid``.
    """
    refuse = partial(_refuse, name)
    entry = firmware_table(data, refuse=refuse).get(_METADATA, b"")
    if len(entry) < 4:
        refuse("its table names no TDVF metadata; it was not built for TDX")
    from_end = int.from_bytes(entry[-4:], "little")
    if not _HEAD_BYTES <= from_end <= len(data):
        refuse(f"its TDVF metadata would begin {from_end} bytes before its end")
    try:
        sections = _sections(data, ByteReader(data[len(data) - from_end :], what="TDVF metadata"), name)
    except EvidenceError as exc:  # of the reader: cut off
        raise _invalid(name, exc.message) from exc
    _require_apart(sections, name)
    return Tdvf(sections=sections)


def _sections(data: bytes, reader: ByteReader, name: str) -> tuple[Section, ...]:
    """Read "TDVF", length, version 1, count, and the sections."""
    signature = reader.take(4, "signature")
    length, version, count = (reader.unsigned(4, field) for field in ("length", "version", "count"))
    if signature != b"TDVF" or version != 1 or not 1 <= count <= MAX_SECTIONS:
        _refuse(name, f"its TDVF metadata is of another kind ({signature!r}, version {version}, {count} sections)")
    if length != _HEAD_BYTES + _SECTION_BYTES * count:
        _refuse(name, f"its TDVF metadata has {length} bytes for {count} sections")
    sections = tuple(_section(data, reader, name) for _ in range(count))
    if sum(section.size for section in sections) > MAX_SECTION_BYTES:
        _refuse(name, f"the sections of its TDVF metadata have more than {MAX_SECTION_BYTES} bytes")
    if not any(section.kind is SectionKind.BOOT_VOLUME for section in sections):
        _refuse(name, "its TDVF metadata has no boot firmware volume")
    return sections


def _section(data: bytes, reader: ByteReader, name: str) -> Section:
    offset, raw_size = reader.unsigned(4, "data_offset"), reader.unsigned(4, "raw_data_size")
    address, size = reader.unsigned(8, "memory_address"), reader.unsigned(8, "memory_data_size")
    kind, attributes = reader.unsigned(4, "type"), reader.unsigned(4, "attributes")
    where = f"type {kind:#x}, {size:#x} bytes at {address:#x}"
    if kind not in _KINDS or attributes >> 1:
        _refuse(name, f"a section of its TDVF metadata is of an unknown kind ({where}, attributes {attributes:#x})")
    if not size or size % PAGE_BYTES or address % PAGE_BYTES or address + size > _HIGHEST_ADDRESS:
        _refuse(name, f"a section of its TDVF metadata has no whole pages ({where})")
    # QEMU takes what follows in the image where the content is shorter than the section, other hosts zeros.
    expected = size if kind <= SectionKind.CONFIGURATION_VOLUME else 0
    if raw_size != expected or offset + raw_size > len(data):
        _refuse(name, f"a section of its TDVF metadata has {raw_size:#x} bytes at {offset:#x} of the image ({where})")
    if kind == SectionKind.TD_HOB and attributes & 1:
        _refuse(name, "its TDVF metadata measures the TD HOB into MRTD, as no firmware for QEMU does")
    return Section(
        kind=SectionKind(kind),
        address=address,
        size=size,
        data=data[offset : offset + raw_size],
        extends=bool(attributes & 1),
    )


def _require_apart(sections: tuple[Section, ...], name: str) -> None:
    ranges = sorted((section.address, section.address + section.size) for section in sections)
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start < end:
            _refuse(name, f"two sections of its TDVF metadata overlap at {start:#x}")


# -- MRTD


def mr_td(tdvf: Tdvf, order: PageOrder) -> bytes:
    """Compute MRTD: SHA-384 over one step for each page added and one for each 256 bytes measured.

    Returns:
        48 bytes.
    """
    digest = sha384()
    for section in tdvf.sections:
        pages = range(section.address, section.address + section.size, PAGE_BYTES)
        if order is PageOrder.BY_SECTION:
            for address in pages:
                digest.update(_page_add(address))
        for address in pages:
            if order is PageOrder.BY_PAGE:
                digest.update(_page_add(address))
            for step in _extensions(section, address):
                digest.update(step)
    return digest.digest()


def _page_add(address: int) -> bytes:
    return _step(b"MEM.PAGE.ADD", address)


def _extensions(section: Section, address: int) -> Iterator[bytes]:
    if section.extends:
        for at in range(address, address + PAGE_BYTES, _CHUNK):
            start = at - section.address
            yield _step(b"MR.EXTEND", at) + section.data[start : start + _CHUNK].ljust(_CHUNK, b"\0")


def _step(leaf: bytes, address: int) -> bytes:
    """Return the buffer of a step: name of the function, from byte 16 the address, zeros."""
    return (leaf.ljust(16, b"\0") + address.to_bytes(8, "little")).ljust(_STEP_BYTES, b"\0")


def _refuse(name: str, problem: str) -> NoReturn:
    raise _invalid(name, problem)


def _invalid(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is no firmware that can be measured: {problem}",
        code="measure-firmware-invalid",
        expected="an OVMF image with TDVF metadata",
        clause=CLAUSE,
        hint="give the OVMF file that the VMM loads (QEMU: -bios), whole and unpacked",
    )
