"""The numbers of the policies, each with its value: one that is changed is changed here too, on purpose.

A number of a specification that is changed by mistake passes every test of which both sides use its name.
"""

import importlib
from datetime import timedelta

import pytest

from tests.constants import plain, plain_constants

CONSTANTS: dict[str, dict[str, object]] = {
    "attest.policy.authoring.comparison": {
        "_LAST": ((0x4000000000000000,), 0),
    },
    "attest.policy.authoring.draft_devices": {
        "_LAST_FAMILY": 255,
    },
    "attest.policy.authoring.draft_sections": {
        "_ADVISORY_DAYS": 90,
        "_STRICT_BITS": {
            "debug": False,
            "migrate_ma": False,
            "alias_check_complete": True,
            "sept_ve_disable": True,
            "migratable": False,
        },
        "_DRAFTED_PCRS": (*range(10), 11, 12, 13, 14, 15),
    },
    "attest.policy.authoring.lint_devices": {
        "_FIRST_OF_VBIOS": {"hopper": 150, "blackwell": 151},
    },
    "attest.policy.authoring.lint_findings": {
        "SOON": timedelta(seconds=2592000),
    },
    "attest.policy.authoring.lint_sections": {
        "_ALL_VMPLS": frozenset(
            (
                0,
                1,
                2,
                3,
            )
        ),
        "_PLAUSIBLE_EVALUATION": 255,
        "_OF_THE_SYSTEM": frozenset(
            (
                11,
                4,
                8,
                9,
            )
        ),
    },
    "attest.policy.authoring.yaml_text": {
        "_WIDTH": 110,
        "_COMMENT_WIDTH": 100,
    },
    "attest.policy.azure": {
        "_PCR_BYTES": 32,
        "VM_SWITCHES": (
            ("console_enabled", 0),
            ("secure_boot", 0),
            ("tpm_enabled", 0),
            ("tpm_persisted", 0),
            ("filtered_vpci_devices_allowed", 0),
        ),
        "_STRICT_CONFIGURATION": {"secure_boot": True, "tpm_enabled": True, "console_enabled": False},
    },
    "attest.policy.decoder": {
        "_ALIKE": 0.5,
        "_ALMOST_EQUAL": 0.8,
    },
    "attest.policy.dstack": {
        "COMPOSE_HASH_BYTES": 32,
        "OS_IMAGE_BYTES": 32,
        "APP_ID_BYTES": 20,
    },
    "attest.policy.foreign.convert_nvidia": {
        "_STRICT": {"rim": True, "fwid_required": True, "held_rim_signers": False},
    },
    "attest.policy.foreign.export_skr": {
        "_BY_NAME": frozenset(
            (
                "snp.measurement",
                "tdx.mr_td",
                "tdx.rtmr0",
                "tdx.rtmr1",
                "tdx.rtmr2",
                "tdx.rtmr3",
            )
        ),
    },
    "attest.policy.foreign.issuers": {
        "_DEFAULT_PORTS": {"https": 443, "http": 80},
        "_PORT_DIGITS": 5,
    },
    "attest.policy.foreign.skr": {
        "_BOOLEANS": {"true": True, "false": False},
    },
    "attest.policy.foreign.skr_evaluation": {
        "_SHOWN_CHARACTERS": 200,
    },
    "attest.policy.foreign.skr_carriers": {
        "_MINIMUM": {"equals": 0, "greaterOrEquals": 0, "greater": 1},
    },
    "attest.policy.foreign.skr_claims": {
        "DIGESTS": {
            "snp.measurement": ("x-ms-sevsnpvm-launchmeasurement", 48),
            "snp.host_data": ("x-ms-sevsnpvm-hostdata", 32),
            "snp.author_key_digests": ("x-ms-sevsnpvm-authorkeydigest", 48),
            "snp.id_key_digests": ("x-ms-sevsnpvm-idkeydigest", 48),
            "snp.family_ids": ("x-ms-sevsnpvm-familyId", 16),
            "snp.image_ids": ("x-ms-sevsnpvm-imageId", 16),
            "tdx.mr_td": ("tdx_mrtd", 48),
            "tdx.rtmr0": ("tdx_rtmr0", 48),
            "tdx.rtmr1": ("tdx_rtmr1", 48),
            "tdx.rtmr2": ("tdx_rtmr2", 48),
            "tdx.rtmr3": ("tdx_rtmr3", 48),
            "tdx.mr_seam": ("tdx_mrseam", 48),
            "tdx.mr_config_id": ("tdx_mrconfigid", 48),
            "tdx.mr_owner": ("tdx_mrowner", 48),
            "tdx.mr_owner_config": ("tdx_mrownerconfig", 48),
        },
        "BITS": {
            "snp.guest_policy.debug": ("x-ms-sevsnpvm-is-debuggable", False),
            "snp.guest_policy.migrate_ma": ("x-ms-sevsnpvm-migration-allowed", False),
            "snp.guest_policy.smt": ("x-ms-sevsnpvm-smt-allowed", None),
            "tdx.td_attributes.debug": ("tdx_td_attributes_debug", False),
            "tdx.td_attributes.kl": ("tdx_td_attributes_key_locker", None),
            "tdx.td_attributes.perfmon": ("tdx_td_attributes_perfmon", None),
            "tdx.td_attributes.pks": ("tdx_td_attributes_protection_keys", None),
            "tdx.td_attributes.sept_ve_disable": ("tdx_td_attributes_septve_disable", True),
        },
    },
    "attest.policy.gpu_references": {
        "IDENTITY_BYTES": 9,
        "FWID_BYTES": 48,
    },
    "attest.policy.gpu": {
        "GPU_MEASUREMENTS": 64,
        "SWITCH_MEASUREMENTS": 31,
    },
    "attest.policy.intel": {
        "_MRENCLAVE_BYTES": 32,
        "_STRICT_TD_ATTRIBUTES": {"debug": False, "sept_ve_disable": True, "migratable": False},
        "_STRICT_ENCLAVE_ATTRIBUTES": {"debug": False},
    },
    "attest.policy.reference_values.corim": {
        "_TAG_CORIM": 501,
        "_TAG_COMID": 506,
        "_TAG_OID": 111,
        "_TAG_TIME": 1,
        "_TAG_URI": 32,
    },
    "attest.policy.reference_values.corim_import": {
        "_SHA256_NUMBER": 1,
        "_SHA384_NUMBER": 7,
        "_DIGEST_BYTES": {1: 32, 7: 48},
        "_TAG_BYTES": 560,
        "_AMD_MEASUREMENT": 641,
        "_DIGESTS": 2,
        "_RAW_VALUE": 4,
        "_MASK": 5,
        "_REGISTERS": 14,
        "_MR_TEE": -83,
        "_MR_SIGNER": -84,
        "_BASE_FIELDS": frozenset(range(16)) - {12},
        "_INTEL_FIELDS": frozenset(
            (
                -73,
                -82,
                -83,
                -84,
                -85,
                -86,
            )
        ),
        "_AMD_MKEYS": {
            2: "policy",
            6: "current TCB",
            7: "platform info",
            640: "report data",
            645: "report id",
            646: "report id of the migration agent",
            647: "reported TCB",
            3328: "chip id",
            3329: "committed TCB",
            3330: "current version",
            3936: "committed version",
            3968: "launch TCB",
        },
        "_TRIPLES": {
            1: "endorsed values",
            2: "identity keys",
            3: "attestation keys",
            4: "dependencies",
            5: "memberships",
            6: "CoSWID tags",
            8: "conditional endorsement series",
            10: "conditional endorsements",
        },
    },
    "attest.policy.reference_values.reference_documents": {
        "DIGEST_BYTES": 32,
        "KIND_BYTES": {
            "snp-measurement": 48,
            "snp-id-key-digest": 48,
            "snp-author-key-digest": 48,
            "snp-host-data": 32,
            "tdx-mr-td": 48,
            "tdx-mr-seam": 48,
            "tdx-rtmr0": 48,
            "tdx-rtmr1": 48,
            "tdx-rtmr2": 48,
            "tdx-rtmr3": 48,
            "sgx-mr-enclave": 32,
            "sgx-mr-signer": 32,
            "gpu-fwid": 48,
            "nvidia-rim": 32,
            "azure-pcr0": 32,
            "azure-pcr1": 32,
            "azure-pcr2": 32,
            "azure-pcr3": 32,
            "azure-pcr4": 32,
            "azure-pcr5": 32,
            "azure-pcr6": 32,
            "azure-pcr7": 32,
            "azure-pcr8": 32,
            "azure-pcr9": 32,
            "azure-pcr10": 32,
            "azure-pcr11": 32,
            "azure-pcr12": 32,
            "azure-pcr13": 32,
            "azure-pcr14": 32,
            "azure-pcr15": 32,
            "azure-pcr16": 32,
            "azure-pcr17": 32,
            "azure-pcr18": 32,
            "azure-pcr19": 32,
            "azure-pcr20": 32,
            "azure-pcr21": 32,
            "azure-pcr22": 32,
            "azure-pcr23": 32,
        },
    },
    "attest.policy.references": {
        "_SHA256_BYTES": 32,
        "SHA384_BYTES": 48,
    },
    "attest.policy.snp": {
        "_STRICT_GUEST_POLICY": {"debug": False, "migrate_ma": False},
        "_STRICT_PLATFORM_INFO": {"alias_check_complete": True},
    },
    "attest.policy.verifiers": {
        "_DEFAULT_AGE": 300,
        "_SHOWN": 200,
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_a_constant_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: plain(getattr(found, name)) for name in CONSTANTS[module]} == CONSTANTS[module]


def test_every_number_of_a_module_is_written_down() -> None:
    written = {(module, name) for module, names in CONSTANTS.items() for name in names}
    assert plain_constants("attest/policy") <= written
