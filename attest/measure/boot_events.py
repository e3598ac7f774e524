"""The events that firmware and kernel measure into RTMR0, RTMR1 and RTMR2 when QEMU loads a kernel directly.

Their order is that of edk2 from 2022-11 to 2025-02, recomputed from recorded boots. edk2-stable202505 and later measure
more events into RTMR0, of which no boot is recorded; specs/dstack.md, section 4.

Spec: TCG PC Client Platform Firmware Profile, events; UEFI, EFI_LOAD_OPTION and UEFI_VARIABLE_DATA; Linux,
drivers/firmware/efi/libstub.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha384
from typing import Self
from uuid import UUID

REGISTER_BYTES = 48

_GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
_SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
_VARIABLES = (("SecureBoot", _GLOBAL), ("PK", _GLOBAL), ("KEK", _GLOBAL), ("db", _SECURITY), ("dbx", _SECURITY))
_SEPARATOR = bytes(4)
_BOOT_ORDER = bytes(2)
"""Only Boot0000."""
_SETUP_VOLUME, _SETUP_FILE = UUID("7cb8bdc9-f8eb-4f34-aaea-3ee4af6516a1"), UUID("462caa21-7614-4503-836e-8ab6f4662331")
_SETUP_NAME = "UiApp"
_SETUP_ATTRIBUTES = 0x109
"""LOAD_OPTION_ACTIVE, LOAD_OPTION_HIDDEN, LOAD_OPTION_CATEGORY_APP."""
_VOLUME_NODE, _FILE_NODE, _END_NODE = bytes((4, 7)), bytes((4, 6)), bytes((0x7F, 0xFF))
_START = b"Calling EFI Application from Boot Option"
_EXITS = (b"Exit Boot Services Invocation", b"Exit Boot Services Returned with Success")
_INITRD_OPTION = " initrd=initrd"
"""OVMF adds it to the command line of a kernel with an initial RAM disk."""


class SecureBoot(enum.StrEnum):
    """The variable SecureBoot of firmware that holds no keys."""

    ABSENT = "absent"
    """The firmware was built without Secure Boot; every recorded boot of dstack."""
    OFF = "off"
    """The firmware was built with Secure Boot, and sets the variable to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEvent:
    """An event as it extends a register.

    Attributes:
        name: the thing that is measured, in a few words.
        digest: 48 bytes.
    """

    name: str
    digest: bytes

    @classmethod
    def of(cls, name: str, data: bytes) -> Self:
        """Return the event that measures exactly these bytes."""
        return cls(name=name, digest=sha384(data).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpiFiles:
    """The three files of ACPI tables that QEMU hands to the firmware."""

    loader: bytes
    rsdp: bytes
    tables: bytes


def extended(events: Iterable[MeasuredEvent]) -> bytes:
    """Return the register after these events, from 48 zero bytes."""
    register = bytes(REGISTER_BYTES)
    for event in events:
        register = sha384(register + event.digest).digest()
    return register


def rtmr0_events(
    *, td_hob: bytes, configuration_volume: bytes, secure_boot: SecureBoot, acpi: AcpiFiles
) -> tuple[MeasuredEvent, ...]:
    """Return the firmware's settings: memory, variables without any key, ACPI tables, boot options."""
    values = {"SecureBoot": b"\0"} if secure_boot is SecureBoot.OFF else {}
    return (
        MeasuredEvent.of("TD HOB", td_hob),
        MeasuredEvent.of("configuration firmware volume", configuration_volume),
        *(
            MeasuredEvent.of(f"variable {name}", variable_data(name, vendor, values.get(name, b"")))
            for name, vendor in _VARIABLES
        ),
        MeasuredEvent.of("separator", _SEPARATOR),
        MeasuredEvent.of("ACPI table loader", acpi.loader),
        MeasuredEvent.of("ACPI RSDP", acpi.rsdp),
        MeasuredEvent.of("ACPI tables", acpi.tables),
        MeasuredEvent.of("BootOrder", _BOOT_ORDER),
        MeasuredEvent.of("Boot0000", setup_boot_option()),
    )


def rtmr1_events(kernel_digest: bytes) -> tuple[MeasuredEvent, ...]:
    """Return the kernel and the steps of the boot.

    Args:
        kernel_digest: Authenticode digest of the kernel, 48 bytes.
    """
    return (
        MeasuredEvent(name="kernel", digest=kernel_digest),
        MeasuredEvent.of("boot option", _START),
        MeasuredEvent.of("separator", _SEPARATOR),
        *(MeasuredEvent.of("exit of the boot services", text) for text in _EXITS),
    )


def rtmr2_events(*, cmdline: str, initrd_digest: bytes | None) -> tuple[MeasuredEvent, ...]:
    """Return the kernel's command line and its initial RAM disk, each if there is one.

    Args:
        cmdline: as the VMM passes it, ASCII.
        initrd_digest: SHA-384 of the initial RAM disk; None without one.
    """
    text = cmdline if initrd_digest is None else cmdline + _INITRD_OPTION
    return (
        *((MeasuredEvent.of("command line", _utf16(text)),) if text else ()),
        *(() if initrd_digest is None else (MeasuredEvent(name="initial RAM disk", digest=initrd_digest),)),
    )


def variable_data(name: str, vendor: UUID, value: bytes) -> bytes:
    """Return UEFI_VARIABLE_DATA: vendor, length of the name, length of the value, name, value (empty: not set)."""
    lengths = len(name).to_bytes(8, "little") + len(value).to_bytes(8, "little")
    return vendor.bytes_le + lengths + name.encode("utf-16-le") + value


def setup_boot_option() -> bytes:
    """Return EFI_LOAD_OPTION of the firmware's own menu: attributes, length of the path, name, path."""
    path = _node(_VOLUME_NODE, _SETUP_VOLUME.bytes_le) + _node(_FILE_NODE, _SETUP_FILE.bytes_le) + _node(_END_NODE, b"")
    return _SETUP_ATTRIBUTES.to_bytes(4, "little") + len(path).to_bytes(2, "little") + _utf16(_SETUP_NAME) + path


def _node(kind: bytes, content: bytes) -> bytes:
    return kind + (4 + len(content)).to_bytes(2, "little") + content


def _utf16(text: str) -> bytes:
    """Return UTF-16LE with a final NUL."""
    return (text + "\0").encode("utf-16-le")
