"""Types of the entries of opaque data, and the values that those have that are interpreted.

Spec: specs/nvidia-gpu.md, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping

PDI_BYTES = 8
LINKS = 18
"""Number of links from a GPU to NVSwitches."""
SWITCH_PORTS_BYTES = 64
"""Behind the GPUs that a switch knows: for each port the number of a GPU."""

DRIVER_VERSION = 3
GPU_INFO = 4
VBIOS_VERSION = 6
NVDEC0_STATUS = 11
CHIP_SKU = 15
PROJECT = 17
PROJECT_SKU = 18
FWID = 20
PROTECTED_PCIE_STATUS = 21
PDIS = 22
LOCK_STATUS = 25
SWITCH_GPU_PDIS = 26
OPAQUE_VERSION = 34
CHIP_INFO = 35
FEATURE_FLAG = 36

KNOWN_TYPES: Mapping[int, str] = {
    1: "certificate issuer name",
    2: "certificate authority key id",
    DRIVER_VERSION: "driver version",
    GPU_INFO: "GPU info",
    5: "SKU",
    VBIOS_VERSION: "VBIOS version",
    7: "manufacturer id",
    8: "tamper detection",
    9: "SMC",
    10: "VPR",
    NVDEC0_STATUS: "NVDEC0 status",
    12: "measurement counters",
    13: "CPR info",
    14: "board id",
    CHIP_SKU: "chip SKU",
    16: "chip SKU modifier",
    PROJECT: "project",
    PROJECT_SKU: "project SKU",
    19: "project SKU modifier",
    FWID: "FWID",
    PROTECTED_PCIE_STATUS: "protected PCIe status",
    PDIS: "switch PDIs, or own PDI",
    23: "disabled ports",
    24: "position id",
    LOCK_STATUS: "lock status",
    SWITCH_GPU_PDIS: "GPU PDIs",
    27: "switch ports",
    32: "GPU link connections",
    33: "system enable status",
    OPAQUE_VERSION: "opaque data version",
    CHIP_INFO: "chip information",
    FEATURE_FLAG: "feature flag",
}
"""Names of the entries in specs/nvidia-gpu.md, section 4.1. Others are listed as unknown."""

SIZES: Mapping[int, tuple[int, ...]] = {
    NVDEC0_STATUS: (1,),
    FWID: (48,),
    PROTECTED_PCIE_STATUS: (1,),
    PDIS: (PDI_BYTES, LINKS * PDI_BYTES),
    LOCK_STATUS: (2,),
    SWITCH_GPU_PDIS: (8 * PDI_BYTES + SWITCH_PORTS_BYTES,),
    OPAQUE_VERSION: (2,),
    FEATURE_FLAG: (2,),
}
"""Bytes of the entries that are interpreted. The first size of ``PDIS`` is that of a switch, the other of a GPU."""
TEXTS = frozenset({DRIVER_VERSION, CHIP_SKU, 16, PROJECT, PROJECT_SKU, 19, CHIP_INFO})
PROTECTED_PCIE_ON = 0xAA
"""Status of protected PCIe; 0x55 is off."""
PROTECTED_PCIE = "protected-pcie"
MODES: Mapping[int, str] = {0: "spt", 1: "mpt", 2: PROTECTED_PCIE}
"""Modes by feature flag: single GPU pass-through, multi GPU pass-through, protected PCIe."""
UNPROTECTED = "unprotected"
"""Mode of which only this is stated: that it is not protected PCIe."""
VALUES: Mapping[int, frozenset[int]] = {
    NVDEC0_STATUS: frozenset({0x55, 0xAA}),
    PROTECTED_PCIE_STATUS: frozenset({0x55, 0xAA}),
    FEATURE_FLAG: frozenset(MODES),
}
"""Closed sets, which newer drivers may extend. A value outside them states nothing, and a policy has to name it."""


def is_sized(entry_type: int, value: bytes) -> bool:
    """Return whether a value has a size of its type; types that are not interpreted have any."""
    sizes = SIZES.get(entry_type)
    return sizes is None or len(value) in sizes


def is_understood(entry_type: int, value: bytes) -> bool:
    """Return whether a value is in the closed set of its type; other types have none."""
    allowed = VALUES.get(entry_type)
    return allowed is None or (is_sized(entry_type, value) and int.from_bytes(value, "little") in allowed)
