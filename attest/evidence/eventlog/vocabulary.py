"""Numbers of the TCG formats and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHA256 = 0x000B
SHA384 = 0x000C


@dataclass(frozen=True, slots=True, kw_only=True)
class TcgAlgorithm:
    """A digest algorithm of the TCG registry: its spelling in messages, and the bytes of a digest."""

    name: str
    size: int


ALGORITHMS: Mapping[int, TcgAlgorithm] = {
    0x0004: TcgAlgorithm(name="SHA-1", size=20),
    SHA256: TcgAlgorithm(name="SHA-256", size=32),
    SHA384: TcgAlgorithm(name="SHA-384", size=48),
    0x000D: TcgAlgorithm(name="SHA-512", size=64),
    0x0012: TcgAlgorithm(name="SM3-256", size=32),
}
"""Known algorithms. A log may declare others with their size; they are carried and mean nothing here."""

EV_RUNTIME = 0x08000001
"""An event that dstack extends at run time; no type of the TCG."""
EV_NO_ACTION = 0x00000003
EV_SEPARATOR = 0x00000004
EV_EVENT_TAG = 0x00000006
EV_IPL = 0x0000000D
EV_EFI_VARIABLE_DRIVER_CONFIG = 0x80000001
EV_EFI_VARIABLE_BOOT = 0x80000002
EV_EFI_BOOT_SERVICES_APPLICATION = 0x80000003
_EV_EFI_GPT_EVENT = 0x80000006
_EV_EFI_ACTION = 0x80000007
EV_EFI_VARIABLE_BOOT2 = 0x8000000C
EV_EFI_VARIABLE_AUTHORITY = 0x800000E0

WHOLE_DATA_TYPES = frozenset(
    {
        EV_SEPARATOR,
        _EV_EFI_ACTION,
        EV_EFI_VARIABLE_DRIVER_CONFIG,
        EV_EFI_VARIABLE_AUTHORITY,
        _EV_EFI_GPT_EVENT,
    }
)
"""Types whose digest is over the whole event data."""

EVENT_TYPES: Mapping[int, str] = {
    0x00000000: "EV_PREBOOT_CERT",
    0x00000001: "EV_POST_CODE",
    0x00000002: "EV_UNUSED",
    EV_NO_ACTION: "EV_NO_ACTION",
    EV_SEPARATOR: "EV_SEPARATOR",
    0x00000005: "EV_ACTION",
    EV_EVENT_TAG: "EV_EVENT_TAG",
    0x00000007: "EV_S_CRTM_CONTENTS",
    0x00000008: "EV_S_CRTM_VERSION",
    0x00000009: "EV_CPU_MICROCODE",
    0x0000000A: "EV_PLATFORM_CONFIG_FLAGS",
    0x0000000B: "EV_TABLE_OF_DEVICES",
    0x0000000C: "EV_COMPACT_HASH",
    EV_IPL: "EV_IPL",
    0x0000000E: "EV_IPL_PARTITION_DATA",
    0x0000000F: "EV_NONHOST_CODE",
    0x00000010: "EV_NONHOST_CONFIG",
    0x00000011: "EV_NONHOST_INFO",
    0x00000012: "EV_OMIT_BOOT_DEVICE_EVENTS",
    0x00000013: "EV_POST_CODE2",
    EV_EFI_VARIABLE_DRIVER_CONFIG: "EV_EFI_VARIABLE_DRIVER_CONFIG",
    EV_EFI_VARIABLE_BOOT: "EV_EFI_VARIABLE_BOOT",
    EV_EFI_BOOT_SERVICES_APPLICATION: "EV_EFI_BOOT_SERVICES_APPLICATION",
    0x80000004: "EV_EFI_BOOT_SERVICES_DRIVER",
    0x80000005: "EV_EFI_RUNTIME_SERVICES_DRIVER",
    _EV_EFI_GPT_EVENT: "EV_EFI_GPT_EVENT",
    _EV_EFI_ACTION: "EV_EFI_ACTION",
    0x80000008: "EV_EFI_PLATFORM_FIRMWARE_BLOB",
    0x80000009: "EV_EFI_HANDOFF_TABLES",
    0x8000000A: "EV_EFI_PLATFORM_FIRMWARE_BLOB2",
    0x8000000B: "EV_EFI_HANDOFF_TABLES2",
    EV_EFI_VARIABLE_BOOT2: "EV_EFI_VARIABLE_BOOT2",
    0x8000000D: "EV_EFI_GPT_EVENT2",
    0x80000010: "EV_EFI_HCRTM_EVENT",
    EV_EFI_VARIABLE_AUTHORITY: "EV_EFI_VARIABLE_AUTHORITY",
    0x800000E1: "EV_EFI_SPDM_FIRMWARE_BLOB",
    0x800000E2: "EV_EFI_SPDM_FIRMWARE_CONFIG",
}


def type_name(event_type: int) -> str:
    """Return the TCG's name of an event type, or its number in hex."""
    return EVENT_TYPES.get(event_type, f"{event_type:#010x}")
