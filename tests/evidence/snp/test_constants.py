"""The numbers of the reports of AMD, each with its value: one that is changed is changed here too, on purpose.

A number of a specification that is changed by mistake passes every test of which both sides use its name.
"""

import importlib

import pytest

from tests.constants import plain, plain_constants

CONSTANTS: dict[str, dict[str, object]] = {
    "attest.evidence.snp.certificate_table": {
        "_ENTRY_BYTES": 24,
        "_PAGE_BYTES": 4096,
    },
    "attest.evidence.snp.certificates": {
        "_OCTET_STRING": 4,
    },
    "attest.evidence.snp.leaves": {
        "LEAF_KINDS": {0: "vcek", 1: "vlek"},
    },
    "attest.evidence.snp.peer_forms": {
        "_SERDE_NUMBERS": {
            "version": (0, 4),
            "guest_svn": (4, 4),
            "policy": (8, 8),
            "vmpl": (48, 4),
            "sig_algo": (52, 4),
            "plat_info": (64, 8),
            "key_info": (72, 4),
            "cpuid_fam_id": (392, 1),
            "cpuid_mod_id": (393, 1),
            "cpuid_step": (394, 1),
            "current_build": (488, 1),
            "current_minor": (489, 1),
            "current_major": (490, 1),
            "committed_build": (492, 1),
            "committed_minor": (493, 1),
            "committed_major": (494, 1),
            "launch_mit_vector": (504, 8),
            "current_mit_vector": (512, 8),
            "_author_key_en": (72, 4),
            "_reserved_0": (76, 4),
            "_reserved_2": (491, 1),
            "_reserved_3": (495, 1),
        },
        "_SERDE_BYTES": {
            "family_id": ((16, 16),),
            "image_id": ((32, 16),),
            "report_data": ((80, 64),),
            "measurement": ((144, 48),),
            "host_data": ((192, 32),),
            "id_key_digest": ((224, 48),),
            "author_key_digest": ((272, 48),),
            "report_id": ((320, 32),),
            "report_id_ma": ((352, 32),),
            "chip_id": ((416, 64),),
            "_reserved_1": ((392, 24), (395, 21)),
            "_reserved_4": ((504, 168),),
        },
        "_SERDE_VERSIONS": {"current": 488, "committed": 492},
    },
    "attest.evidence.snp.peer_protobuf": {
        "_REPORT_FIELDS": {
            1: "version",
            2: "guest_svn",
            3: "policy",
            4: "family_id",
            5: "image_id",
            6: "vmpl",
            7: "signature_algo",
            8: "current_tcb",
            9: "platform_info",
            10: "key_info",
            11: "report_data",
            12: "measurement",
            13: "host_data",
            14: "id_key_digest",
            15: "author_key_digest",
            16: "report_id",
            17: "report_id_ma",
            18: "reported_tcb",
            19: "chip_id",
            20: "committed_tcb",
            21: "current_build",
            22: "current_minor",
            23: "current_major",
            24: "committed_build",
            25: "committed_minor",
            26: "committed_major",
            27: "launch_tcb",
            28: "signature",
            29: "cpuid1eax_fms",
            30: "launch_mit_vector",
            31: "current_mit_vector",
        },
        "_SIGNATURE_BYTES": 512,
        "_CPUID_FMS_MASK": 0xFFF0FFF,
        "_CHAIN_FIELDS": {1: "VCEK", 2: "ASK", 3: "ARK", 6: "VLEK"},
        "_CHAIN_EXTRAS": 7,
    },
    "attest.evidence.snp.structure": {
        "REPORT_BYTES": 1184,
        "SIGNED_BYTES": 672,
        "VERSIONS": (2, 3, 4, 5),
        "GUEST_POLICY_BITS": (
            ("smt", 16),
            ("migrate_ma", 18),
            ("debug", 19),
            ("single_socket", 20),
            ("cxl_allow", 21),
            ("mem_aes_256_xts", 22),
            ("rapl_dis", 23),
            ("ciphertext_hiding_dram", 24),
            ("page_swap_disable", 25),
        ),
        "_POLICY_MUST_BE_ONE": 0x20000,
        "_POLICY_RESERVED": 0xFFFFFFFFFC000000,
        "PLATFORM_INFO_BITS": (
            ("smt_en", 0),
            ("tsme_en", 1),
            ("ecc_en", 2),
            ("rapl_dis", 3),
            ("ciphertext_hiding_dram_en", 4),
            ("alias_check_complete", 5),
            ("tio_en", 7),
        ),
        "_KEY_INFO_RESERVED": 0xFFFFFFE0,
        "_BEFORE_CPUID": 18,
    },
    "attest.evidence.snp.tcb": {
        "_MODELS": (
            (25, range(16), "Milan"),
            (25, range(16, 32), "Genoa"),
            (25, range(160, 176), "Genoa"),
            (26, range(18), "Turin"),
        ),
    },
    "attest.evidence.snp.verify": {
        "_COORDINATE_BYTES": 48,
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_a_constant_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: plain(getattr(found, name)) for name in CONSTANTS[module]} == CONSTANTS[module]


def test_every_number_of_a_module_is_written_down() -> None:
    written = {(module, name) for module, names in CONSTANTS.items() for name in names}
    assert plain_constants("attest/evidence/snp") <= written
