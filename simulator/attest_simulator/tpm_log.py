"""Measurements of a simulated boot into a TPM, with their log, and a bank for each hash.

Spec: TCG PC Client Platform Firmware Profile, sections 3.3 and 10; TCG PC Client Platform TPM Profile, the table of
PCR attributes; the registry of PCRs of the UAPI Group for what Linux systems measure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

from attest_simulator.intel.eventlog import (
    SHA1,
    SHA256,
    SHA384,
    LogEntry,
    MeasuredEvent,
    boot_application,
    boot_variable,
    efi_action,
    efi_variable,
    grub_command,
    kernel_command_line,
    opaque_event,
    separator,
    write_event_log,
)

PCRS: Final = 24
_BANKS = (SHA1, SHA256, SHA384)
_EV_NO_ACTION = 0x3
_EV_EVENT_TAG = 0x6
_EV_S_CRTM_VERSION = 0x8
_EV_IPL = 0xD
_EV_EFI_GPT_EVENT = 0x80000006
_LOAD_OPTIONS = 0x8F3B22ED
_INITRD = 0x8F3B22EC
_LOCALITY = b"StartupLocality\0"


def startup_locality(locality: int) -> LogEntry:
    """Return the event with PCR0's initial value; it extends nothing, and real logs have zero digests for it."""
    return LogEntry(index=0, event=MeasuredEvent(kind=_EV_NO_ACTION, data=_LOCALITY + bytes([locality])))


def stub_command_line(text: str) -> MeasuredEvent:
    """Return EV_IPL of systemd's EFI stub for a command line: UTF-16 with its NUL, hashed as logged."""
    return MeasuredEvent(kind=_EV_IPL, data=(text + "\0").encode("utf-16-le"))


def tagged_event(tag: int, text: bytes, *, measured: bytes) -> MeasuredEvent:
    """Return EV_EVENT_TAG: tag and length (u32, little-endian), and a text other than the hashed bytes."""
    data = tag.to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
    return opaque_event(_EV_EVENT_TAG, data, measured=measured)


def _section(name: str, content: bytes) -> tuple[MeasuredEvent, MeasuredEvent]:
    """Return the stub's measurements of a section of a unified kernel image: its name, then its content."""
    logged = (name + "\0").encode("utf-16-le")
    return (
        opaque_event(_EV_IPL, logged, measured=name.encode("ascii") + b"\0"),
        opaque_event(_EV_IPL, logged, measured=content),
    )


def typical_tpm_boot(
    *,
    secure_boot: bool = True,
    loader: Literal["grub", "stub"] = "grub",
    command_line: str = "/vmlinuz root=/dev/sda1 ro",
    kernel: bytes = b"simulated kernel",
) -> tuple[LogEntry, ...]:
    """Return the events of an ordinary boot: firmware, then shim and GRUB, or a unified kernel image.

    Args:
        secure_boot: value of the variable ``SecureBoot``.
        loader: starts the kernel.
        command_line: the kernel's.
        kernel: in place of the kernel's image.
    """
    firmware: tuple[tuple[int, MeasuredEvent], ...] = (
        (0, MeasuredEvent(kind=_EV_S_CRTM_VERSION, data="1.0\0".encode("utf-16-le"))),
        (7, efi_variable("SecureBoot", bytes([secure_boot]))),
        (7, efi_variable("PK", b"simulated platform key" if secure_boot else b"")),
        (7, efi_variable("KEK", b"simulated key exchange key" if secure_boot else b"")),
        (7, efi_variable("db", b"simulated allowed signers" if secure_boot else b"")),
        (7, efi_variable("dbx", b"")),
        (7, separator()),
        (1, boot_variable("BootOrder", bytes(2))),
        (4, efi_action("Calling EFI Application from Boot Option")),
        *((index, separator()) for index in range(7)),
        (5, MeasuredEvent(kind=_EV_EFI_GPT_EVENT, data=b"EFI PART".ljust(92, b"\0") + bytes(8))),
        (4, boot_application(b"simulated loader", path="\\EFI\\BOOT\\BOOTX64.EFI")),
    )
    by_grub: tuple[tuple[int, MeasuredEvent], ...] = (
        (14, opaque_event(_EV_IPL, b"MokList\0", measured=b"simulated owner keys")),
        (8, grub_command(f"linux {command_line}")),
        (9, opaque_event(_EV_IPL, b"/vmlinuz\0", measured=kernel)),
        (8, kernel_command_line(command_line)),
    )
    by_stub: tuple[tuple[int, MeasuredEvent], ...] = (
        *((11, event) for event in _section(".linux", kernel)),
        (12, stub_command_line(command_line)),
    )
    system: tuple[tuple[int, MeasuredEvent], ...] = (
        (9, tagged_event(_LOAD_OPTIONS, b"LOADED_IMAGE::LoadOptions\0", measured=command_line.encode("utf-16-le"))),
        (9, tagged_event(_INITRD, b"Linux initrd\0", measured=b"simulated initrd")),
        (5, efi_action("Exit Boot Services Invocation")),
        (5, efi_action("Exit Boot Services Returned with Success")),
    )
    events = (*firmware, *(by_grub if loader == "grub" else by_stub), *system)
    return tuple(LogEntry(index=index, event=event) for index, event in events)


def extended(value: bytes, digest: bytes) -> bytes:
    """Return a register of the SHA-256 bank after an extension."""
    return hashlib.sha256(value + digest).digest()


def replayed_pcrs(entries: Iterable[LogEntry]) -> tuple[bytes, ...]:
    """Return PCR0 to PCR23 of the SHA-256 bank after these events, from zeros, and ones in PCR17 to PCR22."""
    values = [b"\xff" * 32 if index in range(17, 23) else bytes(32) for index in range(PCRS)]
    for entry in entries:
        if entry.event.kind != _EV_NO_ACTION:
            values[entry.index] = extended(values[entry.index], entry.event.digest_of(SHA256))
        elif entry.event.data.startswith(_LOCALITY):
            values[entry.index] = bytes(31) + entry.event.data[-1:]
    return tuple(values)


def write_tpm_log(entries: Iterable[LogEntry], *, algorithms: tuple[int, ...] = _BANKS) -> bytes:
    """Return the content of ``/sys/kernel/security/tpm0/binary_bios_measurements``.

    Args:
        entries: in order.
        algorithms: TCG numbers of the banks.
    """
    return write_event_log(entries, algorithms=algorithms, header_index=0)
