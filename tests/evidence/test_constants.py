"""The numbers of the evidence, each with its value: one that is changed is changed here too, on purpose.

A number of a specification that is changed by mistake passes every test of which both sides use its name.
"""

import importlib

import pytest

from tests.constants import plain, plain_constants

CONSTANTS: dict[str, dict[str, object]] = {
    "attest.evidence.attachment.certificate": {
        "_INTEL_QUOTE_TAG": 60000,
    },
    "attest.evidence.attachment.uvm_endorsement": {
        "_COSE_SIGN1": 18,
        "_ALGORITHM": 1,
        "_CRITICAL": 2,
        "_CONTENT_TYPE": 3,
        "_X5CHAIN": 33,
    },
    "attest.evidence.azure.claims": {
        "RESETTABLE_PCRS": (16, 23),
    },
    "attest.evidence.azure.forms": {
        "_SIGNATURE_BYTES": (256, 384, 512),
    },
    "attest.evidence.azure.runtime": {
        "USER_DATA_BYTES": 64,
        "_AK_BITS": range(2048, 4097),
        "_EXPONENT": 0x10001,
    },
    "attest.evidence.azure.structure": {
        "HARDWARE_BYTES": 1184,
        "TD_REPORT_BYTES": 1024,
        "TD_INFO_BYTES": 400,
        "_DATA_HEAD_BYTES": 20,
        "_REPORT_DATA_BYTES": 64,
        "_ONLY": (
            ("version", 4, (1, 2)),
            ("request_type", 12, (2,)),
            ("status", 16, (0,)),
            ("data_version", 1220, (1,)),
            ("report_type", 1224, (2, 4)),
            ("hash_type", 1228, (1, 2, 3)),
        ),
    },
    "attest.evidence.azure.verify": {
        "_TD_INFO_OFFSET": 120,
    },
    "attest.evidence.binding": {
        "NONCE_BYTES": 32,
        "EXTRA_DATA_BYTES": 48,
        "_DEVICE_DIGEST_BYTES": 48,
    },
    "attest.evidence.dstack.compose": {
        "_CONFIG_ID_BYTES": 48,
        "_DIGEST_BYTES": 32,
        "_KINDS": {"none": 0, "local-sgx": 1, "kms": 2, "tpm": 3},
    },
    "attest.evidence.dstack.facts": {
        "_PAYLOAD_BYTES": {
            "system-preparing": (0,),
            "app-id": (20,),
            "compose-hash": (32,),
            "instance-id": (20, 0),
            "boot-mr-done": (0,),
            "mr-kms": (32,),
            "os-image-hash": (32,),
            "system-ready": (0,),
        },
    },
    "attest.evidence.dstack.statements": {
        "_REPORT_DATA_BYTES": 64,
        "_REGISTER_BYTES": 48,
        "_OF_INFO": {
            "app_id": ("app_id", 20),
            "instance_id": ("instance_id", 20),
            "compose_hash": ("compose_hash", 32),
            "os_image_hash": ("os_image_hash", 32),
            "mr_aggregated": ("mr_aggregated", 32),
        },
        "_OF_TCB_INFO": {
            "app_id": ("app_id", 20),
            "instance_id": ("instance_id", 20),
            "compose_hash": ("compose_hash", 32),
            "os_image_hash": ("os_image_hash", 32),
            "mr_aggregated": ("mr_aggregated", 32),
            "mrtd": ("mr_td", 48),
            "rtmr0": ("rtmr0", 48),
            "rtmr1": ("rtmr1", 48),
            "rtmr2": ("rtmr2", 48),
            "rtmr3": ("rtmr3", 48),
        },
        "_OF_VM_CONFIG": {"os_image_hash": ("os_image_hash", 32)},
    },
    "attest.evidence.dstack.structure": {
        "_RUNTIME_IMR": 3,
        "_DIGEST_BYTES": 48,
        "_MEMBERS_OF_EVENT": 8,
    },
    "attest.evidence.endorsement_files": {
        "_SEQUENCE": 48,
        "_LONG_FORM": 128,
    },
    "attest.evidence.envelope": {
        "_EVIDENCE": 4,
        "_ENDORSEMENTS": 2,
    },
    "attest.evidence.eventlog.content": {
        "AAEL_TAG": 0x4141454C,
    },
    "attest.evidence.eventlog.facts": {
        "_STUB_INITRD": 0x8F3B22EC,
        "_STUB_LOAD_OPTIONS": 0x8F3B22ED,
        "_SEPARATORS": (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00"),
    },
    "attest.evidence.eventlog.kinds": {
        "_GROWTH": {
            8: "system",
            9: "system",
            10: "system alone",
            11: "system",
            12: "system",
            13: "system",
            15: "system alone",
            16: "system alone",
            17: "system alone",
            18: "system alone",
            19: "system alone",
            20: "system alone",
            21: "system alone",
            22: "system alone",
            23: "system alone",
        },
    },
    "attest.evidence.eventlog.structure": {
        "_SHA1_BYTES": 20,
        "_END_INDEX": 0xFFFFFFFF,
    },
    "attest.evidence.eventlog.vocabulary": {
        "SHA256": 11,
        "SHA384": 12,
        "EV_RUNTIME": 0x08000001,
        "EV_NO_ACTION": 3,
        "EV_SEPARATOR": 4,
        "EV_EVENT_TAG": 6,
        "EV_IPL": 13,
        "EV_EFI_VARIABLE_DRIVER_CONFIG": 0x80000001,
        "EV_EFI_VARIABLE_BOOT": 0x80000002,
        "EV_EFI_BOOT_SERVICES_APPLICATION": 0x80000003,
        "_EV_EFI_GPT_EVENT": 0x80000006,
        "_EV_EFI_ACTION": 0x80000007,
        "EV_EFI_VARIABLE_BOOT2": 0x8000000C,
        "EV_EFI_VARIABLE_AUTHORITY": 0x800000E0,
        "EVENT_TYPES": {
            0: "EV_PREBOOT_CERT",
            1: "EV_POST_CODE",
            2: "EV_UNUSED",
            3: "EV_NO_ACTION",
            4: "EV_SEPARATOR",
            5: "EV_ACTION",
            6: "EV_EVENT_TAG",
            7: "EV_S_CRTM_CONTENTS",
            8: "EV_S_CRTM_VERSION",
            9: "EV_CPU_MICROCODE",
            10: "EV_PLATFORM_CONFIG_FLAGS",
            11: "EV_TABLE_OF_DEVICES",
            12: "EV_COMPACT_HASH",
            13: "EV_IPL",
            14: "EV_IPL_PARTITION_DATA",
            15: "EV_NONHOST_CODE",
            16: "EV_NONHOST_CONFIG",
            17: "EV_NONHOST_INFO",
            18: "EV_OMIT_BOOT_DEVICE_EVENTS",
            19: "EV_POST_CODE2",
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
        },
    },
    "attest.evidence.freshness": {
        "REPORT_DATA_BYTES": 64,
        "DEVICE_NONCE_BYTES": 32,
        "_DIGEST_BYTES": range(32, 65),
    },
    "attest.evidence.init_data": {
        "_PCR": 8,
        "_PCR_DIGEST_BYTES": 32,
    },
    "attest.evidence.input_files": {
        "_ENDORSEMENTS_INDICATOR": 2,
    },
    "attest.evidence.intel.authenticity": {
        "_COORDINATE_BYTES": 32,
        "_UNUSED_REPORT_DATA": bytes(32),
        "_PPID_CLEAR": 1,
        "_PPID_TYPES": (1, 2, 3),
    },
    "attest.evidence.intel.chain": {
        "_P256_SPKI_BYTES": 91,
    },
    "attest.evidence.intel.claims": {
        "_UNDER_DEBUG": 255,
        "_NAMED_TD_BITS": 0x80000000F0000001,
    },
    "attest.evidence.intel.collateral_forms": {
        "_LONG_FORM": 128,
    },
    "attest.evidence.intel.quoting_enclave": {
        "_DEBUG": 2,
        "_INTEL_QE": {
            "sgx": ("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff", 1),
            "tdx": ("dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5", 2),
        },
    },
    "attest.evidence.intel.pck": {
        "_ENUMERATED": 10,
    },
    "attest.evidence.intel.quote": {
        "PCK_CHAIN": 5,
        "_TEES": {0: "sgx", 129: "tdx"},
        "_VERSIONS": {3: ("sgx",), 4: ("sgx", "tdx"), 5: ("sgx", "tdx")},
        "_BODY_SIZES": {1: 384, 2: 584, 3: 648, 4: 885},
        "_BODY_TYPES": {"sgx": (1,), "tdx": (2, 3, 4)},
        "_ECDSA_P256": 2,
        "_QE_REPORT_CERTIFICATION": 6,
        "_CERTIFICATION_SIZES": {1: 36, 2: 276, 3: 404, 4: None, 5: None},
        "_LENGTH_BYTES": 4,
    },
    "attest.evidence.intel.tcb_info": {
        "COMPONENTS": 16,
    },
    "attest.evidence.keccak": {
        "_RATE": 136,
        "_ROUNDS": 24,
        "_LANE": 0xFFFFFFFFFFFFFFFF,
        "_KECCAK_SUFFIX": 1,
        "_LAST_PADDING": 128,
        "_FIRST_LANE": 1,
    },
    "attest.evidence.open_enclave": {
        "_REPORT": 1,
        "_OLDER_EVIDENCE": 2,
        "_EVIDENCE": 3,
        "_LOCAL": 1,
        "_REMOTE": 2,
        "_REPORT_HEAD_BYTES": 16,
        "_EVIDENCE_HEAD_BYTES": 32,
        "_ALIGNMENT_BYTES": 4,
    },
    "attest.evidence.proof_chain": {
        "_SHOWN_BYTES": 8,
    },
    "attest.evidence.providers.chutes": {
        "KEM_KEY_BYTES": 1184,
    },
    "attest.evidence.providers.ohttp": {
        "_SIGNATURE_BYTES": 64,
    },
    "attest.evidence.providers.signing_keys": {
        "_POINT_BYTES": 64,
    },
    "attest.evidence.providers.tinfoil": {
        "_GZIP_WINDOW": 31,
    },
    "attest.evidence.providers.values": {
        "DIGEST_BYTES": 32,
    },
    "attest.evidence.quote_forms": {
        "_HEADER_LETTERS": 12,
        "_TDX_TEE_TYPE": 129,
    },
    "attest.evidence.reader": {
        "_UNSIGNED": {"u8": ("B", 1), "u16": ("H", 2), "u32": ("I", 4), "u64": ("Q", 8)},
    },
    "attest.evidence.sgx.structure": {
        "ENCLAVE_REPORT_BYTES": 384,
        "ATTRIBUTE_BITS": (
            ("init", 0),
            ("debug", 1),
            ("mode64bit", 2),
            ("provision_key", 4),
            ("einittoken_key", 5),
            ("cet", 6),
            ("kss", 7),
            ("aex_notify", 10),
        ),
    },
    "attest.evidence.tdx.structure": {
        "_TDX_1_0": 2,
        "_TDX_1_5": 3,
        "_TDX_1_5_EXTENDED": 4,
        "TD_ATTRIBUTE_BITS": (
            ("debug", 0),
            ("sept_ve_disable", 28),
            ("migratable", 29),
            ("pks", 30),
            ("kl", 31),
            ("perfmon", 63),
        ),
        "_UNDER_DEBUG": 255,
        "XFAM_FIXED_ONE": 3,
        "XFAM_KNOWN": 0x6DBE7,
    },
    "attest.evidence.tpm.structure": {
        "SHA256": 11,
        "SHA256_BYTES": 32,
        "RSASSA": 20,
        "_SELECT_BYTES": 3,
        "_MAGIC": 0xFF544347,
        "_QUOTE": 0x8018,
        "_INTEGERS": {"u8": 1, "u16": 2, "u32": 4, "u64": 8},
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_a_constant_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: plain(getattr(found, name)) for name in CONSTANTS[module]} == CONSTANTS[module]


def test_every_number_of_a_module_is_written_down() -> None:
    written = {(module, name) for module, names in CONSTANTS.items() for name in names}
    assert plain_constants("attest/evidence") <= written
