"""Measurements of a simulated boot, with their log (CCEL, TCG crypto-agile form).

An event has hashed bytes and logged data; they differ for some real events (a boot application
is logged by its path and hashed as an image), and in hostile logs for others.

Spec: TCG PC Client Platform Firmware Profile, sections 9 and 10; UEFI 2.10, section 38; specs/intel-tdx-sgx.md,
section 19.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SHA1: Final = 0x0004
SHA256: Final = 0x000B
SHA384: Final = 0x000C
REGISTER_BYTES: Final = 48
LOG_AREA_BYTES: Final = 65536
"""Size of the log area of real machines; the unused part is 0xFF."""
AAEL_TAG: Final = b"LEAA"
"""0x4141454C, little-endian."""

_EV_NO_ACTION = 0x3
_EV_SEPARATOR = 0x4
_EV_EVENT_TAG = 0x6
_EV_PLATFORM_CONFIG_FLAGS = 0xA
_EV_IPL = 0xD
_EV_EFI_VARIABLE_DRIVER_CONFIG = 0x80000001
_EV_EFI_VARIABLE_BOOT = 0x80000002
_EV_EFI_BOOT_SERVICES_APPLICATION = 0x80000003
_EV_EFI_ACTION = 0x80000007
_EV_EFI_PLATFORM_FIRMWARE_BLOB2 = 0x8000000A
_EV_EFI_HANDOFF_TABLES2 = 0x8000000B
_GLOBAL_VARIABLE = bytes.fromhex("61dfe48bca93d211aa0d00e098032b8c")
_IMAGE_SECURITY_DATABASE = bytes.fromhex("cbb219d73a3d9645a3bcdad00e67656f")
_HASHES = {SHA1: "sha1", SHA256: "sha256", SHA384: "sha384"}
_DEVICE_PATH_END = bytes.fromhex("7fff0400")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEvent:
    """A measurement with its log data.

    Attributes:
        kind: event type, 32 bits.
        data: the event data in the log.
        measured: hashed bytes; None means the event data.
        digest: SHA-384 to extend and log instead of that of ``measured``, 48 bytes.
    """

    kind: int
    data: bytes
    measured: bytes | None = None
    digest: bytes | None = None

    def digest_of(self, algorithm: int) -> bytes:
        """Return the digest of an algorithm by its TCG number; zeros for a logged but unmeasured event.

        Raises:
            ValueError: another algorithm than SHA-1, SHA-256 and SHA-384.
        """
        if algorithm == SHA384 and self.digest is not None:
            return self.digest
        if algorithm not in _HASHES:
            raise ValueError(f"algorithm {algorithm:#06x}: expected SHA-1, SHA-256 or SHA-384")
        digest = hashlib.new(_HASHES[algorithm], self.data if self.measured is None else self.measured).digest()
        return bytes(len(digest)) if self.kind == _EV_NO_ACTION else digest


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An event with its index in the log: 0 is MRTD, 1 to 4 are RTMR0 to RTMR3; or a PCR."""

    index: int
    event: MeasuredEvent


# -- events


def separator(data: bytes = bytes(4)) -> MeasuredEvent:
    """Return EV_SEPARATOR; the digest is over the data."""
    return MeasuredEvent(kind=_EV_SEPARATOR, data=data)


def efi_action(text: str) -> MeasuredEvent:
    """Return EV_EFI_ACTION; the digest is over the text, without a NUL."""
    return MeasuredEvent(kind=_EV_EFI_ACTION, data=text.encode("ascii"))


def _variable_data(guid: bytes, name: str, value: bytes) -> bytes:
    """Return UEFI_VARIABLE_DATA: GUID, length of the name in UTF-16 units (u64) and of the data (u64), name, data."""
    encoded = name.encode("utf-16-le")
    lengths = (len(encoded) // 2).to_bytes(8, "little") + len(value).to_bytes(8, "little")
    return guid + lengths + encoded + value


def efi_variable(name: str, value: bytes) -> MeasuredEvent:
    """Return EV_EFI_VARIABLE_DRIVER_CONFIG, such as of ``SecureBoot``; the digest is over the whole structure."""
    guid = _IMAGE_SECURITY_DATABASE if name in {"db", "dbx"} else _GLOBAL_VARIABLE
    return MeasuredEvent(kind=_EV_EFI_VARIABLE_DRIVER_CONFIG, data=_variable_data(guid, name, value))


def boot_variable(name: str, value: bytes) -> MeasuredEvent:
    """Return EV_EFI_VARIABLE_BOOT; the digest is over the variable's value alone."""
    data = _variable_data(_GLOBAL_VARIABLE, name, value)
    return MeasuredEvent(kind=_EV_EFI_VARIABLE_BOOT, data=data, measured=value)


def boot_application(image: bytes, *, path: str) -> MeasuredEvent:
    """Return EV_EFI_BOOT_SERVICES_APPLICATION of an image.

    NOTE: the digest is over the plain image instead of the PE Authenticode hash, which needs a PE file. No verifier can
    recompute either from the log.

    Args:
        image: in place of the file.
        path: file path of the device path, with backslashes.
    """
    text = (path + "\0").encode("utf-16-le")
    node = b"\x04\x04" + (len(text) + 4).to_bytes(2, "little") + text + _DEVICE_PATH_END
    head = (0x7AE45018, len(image), 0, len(node))
    data = b"".join(value.to_bytes(8, "little") for value in head) + node
    return MeasuredEvent(kind=_EV_EFI_BOOT_SERVICES_APPLICATION, data=data, measured=image)


def opaque_event(kind: int, data: bytes, *, measured: bytes) -> MeasuredEvent:
    """Return an event whose data does not determine the hashed bytes."""
    return MeasuredEvent(kind=kind, data=data, measured=measured)


def _grub(prefix: str, text: str) -> MeasuredEvent:
    measured = text.encode("utf-8")
    return MeasuredEvent(kind=_EV_IPL, data=prefix.encode("ascii") + measured + b"\0", measured=measured)


def grub_command(text: str) -> MeasuredEvent:
    """Return EV_IPL of upstream GRUB for a command; the digest is over the text without prefix and NUL."""
    return _grub("grub_cmd: ", text)


def kernel_command_line(text: str) -> MeasuredEvent:
    """Return EV_IPL of upstream GRUB for the kernel's command line; digest as ``grub_command``."""
    return _grub("kernel_cmdline: ", text)


def application_event(domain: str, operation: str, content: str) -> MeasuredEvent:
    """Return EV_EVENT_TAG of the application event log (AAEL); the digest is over the whole event data.

    It consists of tag and length (u32, little-endian) and the text ``domain operation content``.
    """
    text = f"{domain} {operation} {content}".encode()
    return MeasuredEvent(kind=_EV_EVENT_TAG, data=AAEL_TAG + len(text).to_bytes(4, "little") + text)


def typical_boot(
    *,
    secure_boot: bool = True,
    command_line: str = "/vmlinuz root=/dev/vda1 ro console=ttyS0",
    kernel: bytes = b"simulated kernel",
    firmware: bytes = b"simulated firmware",
) -> tuple[LogEntry, ...]:
    """Return the events of an ordinary boot: firmware, SecureBoot variables, GRUB, a kernel and its command line.

    Args:
        secure_boot: value of the variable ``SecureBoot``.
        command_line: the kernel's.
        kernel: in place of the kernel's image.
        firmware: in place of the firmware's configuration.
    """
    rtmr0 = (
        opaque_event(_EV_EFI_HANDOFF_TABLES2, b"\x09TdxTable\0" + bytes(8), measured=b"TD HOB " + firmware),
        opaque_event(_EV_EFI_PLATFORM_FIRMWARE_BLOB2, b"\x03CFV" + bytes(16), measured=b"CFV " + firmware),
        efi_variable("SecureBoot", bytes([secure_boot])),
        efi_variable("PK", b"simulated platform key" if secure_boot else b""),
        efi_variable("KEK", b"simulated key exchange key" if secure_boot else b""),
        efi_variable("db", b"simulated allowed signers" if secure_boot else b""),
        efi_variable("dbx", b""),
        separator(),
        opaque_event(_EV_PLATFORM_CONFIG_FLAGS, b"ACPI DATA", measured=b"ACPI " + firmware),
        boot_variable("BootOrder", bytes(2)),
    )
    rtmr1 = (
        efi_action("Calling EFI Application from Boot Option"),
        separator(),
        boot_application(b"simulated shim", path="\\EFI\\BOOT\\BOOTX64.EFI"),
        boot_application(kernel, path="\\vmlinuz"),
        efi_action("Exit Boot Services Invocation"),
        efi_action("Exit Boot Services Returned with Success"),
    )
    rtmr2 = (grub_command(f"linux {command_line}"), kernel_command_line(command_line))
    return tuple(
        LogEntry(index=index, event=event) for index, events in enumerate((rtmr0, rtmr1, rtmr2), 1) for event in events
    )


# -- registers and the log


def replayed(entries: Iterable[LogEntry]) -> tuple[bytes, bytes, bytes, bytes]:
    """Return RTMR0 to RTMR3 after these events: ``R = SHA-384(R || digest)`` from 48 zero bytes."""
    registers = [bytes(REGISTER_BYTES) for _ in range(4)]
    for entry in entries:
        if entry.index in range(1, 5) and entry.event.kind != _EV_NO_ACTION:
            extended = registers[entry.index - 1] + entry.event.digest_of(SHA384)
            registers[entry.index - 1] = hashlib.sha384(extended).digest()
    return registers[0], registers[1], registers[2], registers[3]


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def _algorithms(algorithms: tuple[int, ...], *parts: bytes) -> bytes:
    """Return each algorithm's number (u16) followed by its part."""
    return b"".join(number.to_bytes(2, "little") + part for number, part in zip(algorithms, parts, strict=True))


def _record(entry: LogEntry, algorithms: tuple[int, ...]) -> bytes:
    digests = _algorithms(algorithms, *map(entry.event.digest_of, algorithms))
    head = _u32(entry.index, entry.event.kind, len(algorithms))
    return head + digests + _u32(len(entry.event.data)) + entry.event.data


def write_event_log(
    entries: Iterable[LogEntry],
    *,
    algorithms: tuple[int, ...] = (SHA384,),
    size: int | None = None,
    fill: int = 0xFF,
    header_index: int = 1,
) -> bytes:
    """Return the content of ``/sys/firmware/acpi/tables/data/CCEL``.

    Args:
        entries: in order.
        algorithms: TCG numbers of the digests in each record.
        size: bytes of the log area; None means up to the last record.
        fill: the byte of the unused area.
        header_index: register index of the header; a TPM's log has 0.
    """
    widths = tuple(hashlib.new(_HASHES[number]).digest_size.to_bytes(2, "little") for number in algorithms)
    versions = bytes((0, 2, 0, 2))  # minor, major, errata, and 2 for 64-bit integers
    spec = b"Spec ID Event03\0" + _u32(0) + versions + _u32(len(algorithms)) + _algorithms(algorithms, *widths) + b"\0"
    header = _u32(header_index, _EV_NO_ACTION) + bytes(20) + _u32(len(spec)) + spec
    log = header + b"".join(_record(entry, algorithms) for entry in entries)
    return log if size is None else log.ljust(size, bytes([fill]))


def ccel_table(*, log_bytes: int = LOG_AREA_BYTES, address: int = 0) -> bytes:
    """Return the ACPI table CCEL, 56 bytes, for TDX; its bytes sum up to zero modulo 256.

    Args:
        log_bytes: LAML, size of the log area.
        address: LASA, start of the log area.
    """
    head = b"CCEL" + _u32(56) + b"\x01\0" + b"SIMULA" + b"SIMULATD" + _u32(1) + b"SIM " + _u32(1)
    table = head + bytes((2, 0, 0, 0)) + log_bytes.to_bytes(8, "little") + address.to_bytes(8, "little")
    return table[:9] + bytes([-sum(table) % 256]) + table[10:]
