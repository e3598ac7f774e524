"""The measurement that a guest will have, computed from the files that it is launched from.

These modules read files, so they stand beside ``attest.fetch`` and not in the pure core. What computes is pure.
"""

from __future__ import annotations

from attest.measure.boot_events import MeasuredEvent, SecureBoot
from attest.measure.dstack import (
    DstackImage,
    VmConfig,
    dstack_launch,
    parse_vm_config,
    read_dstack_image,
    read_vm_config,
)
from attest.measure.endorsed_firmware import read_endorsement, require_endorsed_firmware
from attest.measure.launch_endorsement import (
    ParsedLaunchEndorsement,
    VerifiedLaunchEndorsement,
    parse_launch_endorsement,
    parse_root,
    verify_launch_endorsement,
)
from attest.measure.linux_image import KernelHeader
from attest.measure.snp import SnpLaunch, Vmm, launch_digest, parse_firmware, vcpu_types
from attest.measure.tdvf import PageOrder
from attest.measure.tdx import TdxLaunch, TdxMeasurements, kernel_header_of, page_order_of, tdx_measurements

__all__ = [
    "DstackImage",
    "KernelHeader",
    "MeasuredEvent",
    "PageOrder",
    "ParsedLaunchEndorsement",
    "SecureBoot",
    "SnpLaunch",
    "TdxLaunch",
    "TdxMeasurements",
    "VerifiedLaunchEndorsement",
    "VmConfig",
    "Vmm",
    "dstack_launch",
    "kernel_header_of",
    "launch_digest",
    "page_order_of",
    "parse_firmware",
    "parse_launch_endorsement",
    "parse_root",
    "parse_vm_config",
    "read_dstack_image",
    "read_endorsement",
    "read_vm_config",
    "require_endorsed_firmware",
    "tdx_measurements",
    "vcpu_types",
    "verify_launch_endorsement",
]
