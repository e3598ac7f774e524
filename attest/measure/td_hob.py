"""The TD HOB, in which QEMU describes the TD's memory to the firmware, and which the firmware measures into RTMR0.

Spec: UEFI Platform Initialization, volume 3, HOB code definitions; QEMU, hw/i386/tdvf-hob.c and pc_q35.c;
specs/dstack.md, section 4. The end-of-list HOB is not measured [recomputed from recorded boots].
"""

from __future__ import annotations

from collections.abc import Iterator

from attest.errors import ConfigurationError
from attest.measure.tdvf import CLAUSE, SectionKind, Tdvf

MIN_MEMORY_BYTES = 64 * 1024 * 1024
MAX_MEMORY_BYTES = 1 << 46
"""64 TiB, more than any machine."""

_MEBIBYTE = 1 << 20
_FOUR_GIBIBYTES = 1 << 32
_LARGE_MEMORY, _LOW_WHEN_LARGE = 0xB000_0000, 0x8000_0000
"""A q35 machine with at least the first has the second below 4 GiB; a smaller one has all of it there."""
_HAND_OFF_BYTES, _RESOURCE_BYTES, _END_BYTES = 56, 48, 8
_HAND_OFF, _RESOURCE = 1, 3
_VERSION = 9
_ADDED, _UNACCEPTED = 0, 7
_ATTRIBUTES = 7
"""Present, initialized, tested."""


def low_memory(memory: int) -> int:
    """Return the number of bytes below 4 GiB of a q35 machine with so many bytes."""
    return _LOW_WHEN_LARGE if memory >= _LARGE_MEMORY else memory


def td_hob(tdvf: Tdvf, memory: int) -> bytes:
    """Return the bytes of the TD HOB that the firmware measures.

    Args:
        tdvf: metadata of the firmware.
        memory: memory of the guest in bytes.

    Raises:
        ConfigurationError: ``measure-options-invalid`` for the memory, ``measure-firmware-invalid`` for metadata
            without exactly one TD HOB.
    """
    if not MIN_MEMORY_BYTES <= memory <= MAX_MEMORY_BYTES or memory % _MEBIBYTE:
        raise ConfigurationError(
            f"{memory} bytes of memory",
            code="measure-options-invalid",
            expected=f"whole MiB, {MIN_MEMORY_BYTES // _MEBIBYTE} MiB to {MAX_MEMORY_BYTES >> 40} TiB",
            hint="give the memory as QEMU's -m has it, such as 8G",
        )
    places = tdvf.of_kind(SectionKind.TD_HOB)
    if len(places) != 1:
        raise ConfigurationError(
            f"the firmware has {len(places)} places for a TD HOB",
            code="measure-firmware-invalid",
            expected="one",
            clause=CLAUSE,
            hint="give the OVMF file that the VMM loads (QEMU: -bios), whole and unpacked",
        )
    resources = b"".join(_resource(*found) for found in _ranges(tdvf, memory))
    end = places[0].address + _HAND_OFF_BYTES + len(resources) + _END_BYTES
    if end > places[0].address + places[0].size:
        raise ConfigurationError(
            "the TD HOB does not fit into its section",
            code="measure-firmware-invalid",
            expected=f"at most {places[0].size} bytes",
            clause=CLAUSE,
            hint="give the OVMF file that the VMM loads (QEMU: -bios), whole and unpacked",
        )
    return _hand_off(end) + resources


def _ranges(tdvf: Tdvf, memory: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, start and length of each range of memory, upwards: between the sections nothing is accepted yet."""
    low, at = low_memory(memory), 0
    sections = [section for section in tdvf.sections if section.kind >= SectionKind.TD_HOB]
    for section in sorted(sections, key=lambda section: section.address):
        if section.address + section.size > low:
            raise ConfigurationError(
                f"{memory} bytes of memory end before {section.address + section.size:#x}, which the firmware needs",
                code="measure-options-invalid",
                hint="give the memory as QEMU's -m has it, such as 8G",
            )
        if section.address > at:
            yield _UNACCEPTED, at, section.address - at
        yield _ADDED, section.address, section.size
        at = section.address + section.size
    if low > at:
        yield _UNACCEPTED, at, low - at
    if memory > low:
        yield _UNACCEPTED, _FOUR_GIBIBYTES, memory - low


def _hand_off(end: int) -> bytes:
    """Return the first HOB: version, boot mode 0, four addresses that are not used, end of the list."""
    return _hob(_HAND_OFF, _VERSION.to_bytes(4, "little") + bytes(36) + end.to_bytes(8, "little"))


def _resource(kind: int, start: int, length: int) -> bytes:
    """Return the HOB of a range of memory: no owner, kind, attributes, start, length."""
    numbers = kind.to_bytes(4, "little") + _ATTRIBUTES.to_bytes(4, "little")
    return _hob(_RESOURCE, bytes(16) + numbers + start.to_bytes(8, "little") + length.to_bytes(8, "little"))


def _hob(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2, "little") + (8 + len(content)).to_bytes(2, "little") + bytes(4) + content
