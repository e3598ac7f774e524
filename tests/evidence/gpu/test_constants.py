"""The numbers of the reports of NVIDIA, each with its value: one that is changed is changed here too, on purpose.

A number of a specification that is changed by mistake passes every test of which both sides use its name.
"""

import importlib

import pytest

from tests.constants import plain, plain_constants

CONSTANTS: dict[str, dict[str, object]] = {
    "attest.evidence.gpu.certificates": {
        "_FWID_BYTES": 48,
        "_DIGITAL_SIGNATURE": 128,
        "_KEY_CERT_SIGN": 4,
        "_MODELS": (
            (65, "GH1", "nvidia-gpu", "hopper"),
            (65, "GB1", "nvidia-gpu", "blackwell"),
            (65, "GB2", "nvidia-gpu", "blackwell"),
            (80, "LS_10", "nvidia-switch", "ls10"),
        ),
    },
    "attest.evidence.gpu.chain": {
        "PATH_LENGTH": 4,
    },
    "attest.evidence.gpu.claims": {
        "_PROTECTED_PCIE": {85: False, 170: True},
        "_LOCKED": 1,
    },
    "attest.evidence.gpu.evidence": {
        "NONCE_BYTES": 32,
    },
    "attest.evidence.gpu.measurements": {
        "NVDEC_INDEX": 35,
        "NVDEC_DISABLED": 85,
    },
    "attest.evidence.gpu.opaque": {
        "_HEAD_BYTES": 4,
        "_VBIOS_BYTES": 8,
        "_VBIOS_ORDER": (3, 2, 1, 0, 4),
    },
    "attest.evidence.gpu.opaque_types": {
        "PDI_BYTES": 8,
        "LINKS": 18,
        "SWITCH_PORTS_BYTES": 64,
        "DRIVER_VERSION": 3,
        "GPU_INFO": 4,
        "VBIOS_VERSION": 6,
        "NVDEC0_STATUS": 11,
        "CHIP_SKU": 15,
        "PROJECT": 17,
        "PROJECT_SKU": 18,
        "FWID": 20,
        "PROTECTED_PCIE_STATUS": 21,
        "PDIS": 22,
        "LOCK_STATUS": 25,
        "SWITCH_GPU_PDIS": 26,
        "OPAQUE_VERSION": 34,
        "CHIP_INFO": 35,
        "FEATURE_FLAG": 36,
        "KNOWN_TYPES": {
            1: "certificate issuer name",
            2: "certificate authority key id",
            3: "driver version",
            4: "GPU info",
            5: "SKU",
            6: "VBIOS version",
            7: "manufacturer id",
            8: "tamper detection",
            9: "SMC",
            10: "VPR",
            11: "NVDEC0 status",
            12: "measurement counters",
            13: "CPR info",
            14: "board id",
            15: "chip SKU",
            16: "chip SKU modifier",
            17: "project",
            18: "project SKU",
            19: "project SKU modifier",
            20: "FWID",
            21: "protected PCIe status",
            22: "switch PDIs, or own PDI",
            23: "disabled ports",
            24: "position id",
            25: "lock status",
            26: "GPU PDIs",
            27: "switch ports",
            32: "GPU link connections",
            33: "system enable status",
            34: "opaque data version",
            35: "chip information",
            36: "feature flag",
        },
        "SIZES": {11: (1,), 20: (48,), 21: (1,), 22: (8, 144), 25: (2,), 26: (128,), 34: (2,), 36: (2,)},
        "TEXTS": frozenset(
            (
                15,
                16,
                17,
                18,
                19,
                3,
                35,
            )
        ),
        "VALUES": {
            11: frozenset(
                (
                    170,
                    85,
                )
            ),
            36: frozenset((0, 1, 2)),
            21: frozenset(
                (
                    170,
                    85,
                )
            ),
        },
        "PROTECTED_PCIE_ON": 170,
        "MODES": {0: "spt", 1: "mpt", 2: "protected-pcie"},
    },
    "attest.evidence.gpu.rim": {
        "EMBEDDED_CERTIFICATES": 4,
        "_DIGITAL_SIGNATURE": 128,
    },
    "attest.evidence.gpu.rim_document": {
        "INDICES": 64,
    },
    "attest.evidence.gpu.structure": {
        "BLOCK_COUNTS": (31, 64),
        "FIXED": {
            "request_spdm_version": 17,
            "request_code": 224,
            "request_param1": 1,
            "request_param2": 255,
            "slot_id": 0,
            "response_spdm_version": 17,
            "response_code": 96,
            "response_param1": 0,
            "response_param2": 0,
            "measurement_specification": 1,
            "measurement_size": 51,
            "value_type": 1,
            "value_size": 48,
        },
    },
    "attest.evidence.gpu.topology": {
        "BOARD_GPUS": 8,
        "BOARD_SWITCHES": 4,
        "_LOCKED": 1,
        "_OFF": bytes(8),
    },
    "attest.evidence.gpu.xml_signature": {
        "SIGNATURE_BYTES": 96,
        "DIGEST_BYTES": 48,
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_a_constant_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: plain(getattr(found, name)) for name in CONSTANTS[module]} == CONSTANTS[module]


def test_every_number_of_a_module_is_written_down() -> None:
    written = {(module, name) for module, names in CONSTANTS.items() for name in names}
    assert plain_constants("attest/evidence/gpu") <= written
