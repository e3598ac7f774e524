"""Types of events, by the TCG's numbers."""

import pytest

from attest.evidence.eventlog.vocabulary import ALGORITHMS, EVENT_TYPES, WHOLE_DATA_TYPES, type_name

# TCG PC Client Platform Firmware Profile, the table of event types.
NAMES = {
    0x00000000: "EV_PREBOOT_CERT",
    0x00000001: "EV_POST_CODE",
    0x00000002: "EV_UNUSED",
    0x00000003: "EV_NO_ACTION",
    0x00000004: "EV_SEPARATOR",
    0x00000005: "EV_ACTION",
    0x00000006: "EV_EVENT_TAG",
    0x00000007: "EV_S_CRTM_CONTENTS",
    0x00000008: "EV_S_CRTM_VERSION",
    0x00000009: "EV_CPU_MICROCODE",
    0x0000000A: "EV_PLATFORM_CONFIG_FLAGS",
    0x0000000B: "EV_TABLE_OF_DEVICES",
    0x0000000C: "EV_COMPACT_HASH",
    0x0000000D: "EV_IPL",
    0x0000000E: "EV_IPL_PARTITION_DATA",
    0x0000000F: "EV_NONHOST_CODE",
    0x00000010: "EV_NONHOST_CONFIG",
    0x00000011: "EV_NONHOST_INFO",
    0x00000012: "EV_OMIT_BOOT_DEVICE_EVENTS",
    0x00000013: "EV_POST_CODE2",
    0x80000001: "EV_EFI_VARIABLE_DRIVER_CONFIG",
    0x80000002: "EV_EFI_VARIABLE_BOOT",
    0x80000003: "EV_EFI_BOOT_SERVICES_APPLICATION",
    0x80000004: "EV_EFI_BOOT_SERVICES_DRIVER",
    0x80000005: "EV_EFI_RUNTIME_SERVICES_DRIVER",
    0x80000006: "EV_EFI_GPT_EVENT",
    0x80000007: "EV_EFI_ACTION",
    0x80000008: "EV_EFI_PLATFORM_FIRMWARE_BLOB",
    0x80000009: "EV_EFI_HANDOFF_TABLES",
    0x8000000A: "EV_EFI_PLATFORM_FIRMWARE_BLOB2",
    0x8000000B: "EV_EFI_HANDOFF_TABLES2",
    0x8000000C: "EV_EFI_VARIABLE_BOOT2",
    0x8000000D: "EV_EFI_GPT_EVENT2",
    0x80000010: "EV_EFI_HCRTM_EVENT",
    0x800000E0: "EV_EFI_VARIABLE_AUTHORITY",
    0x800000E1: "EV_EFI_SPDM_FIRMWARE_BLOB",
    0x800000E2: "EV_EFI_SPDM_FIRMWARE_CONFIG",
}


def test_the_types_are_those_of_the_specification() -> None:
    assert EVENT_TYPES == NAMES


@pytest.mark.parametrize("number", [0x14, 0x7FFFFFFF, 0x80000000, 0x8000000E, 0x800000E3])
def test_a_type_without_a_name_is_its_number(number: int) -> None:
    assert type_name(number) == f"0x{number:08x}"


def test_the_digest_of_these_types_is_over_all_of_their_data() -> None:
    assert {NAMES[number] for number in WHOLE_DATA_TYPES} == {
        "EV_SEPARATOR",
        "EV_EFI_ACTION",
        "EV_EFI_VARIABLE_DRIVER_CONFIG",
        "EV_EFI_VARIABLE_AUTHORITY",
        "EV_EFI_GPT_EVENT",
    }


def test_a_digest_has_the_size_of_its_algorithm() -> None:
    # TCG Algorithm Registry: SHA-1, the SHA-2 family and SM3-256.
    sizes = {0x0004: 20, 0x000B: 32, 0x000C: 48, 0x000D: 64, 0x0012: 32}
    assert {number: algorithm.size for number, algorithm in ALGORITHMS.items()} == sizes
