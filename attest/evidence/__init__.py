"""Evidence of an Attester: the envelope, its binding, and one package for each format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.evidence.binding import MAX_TEXT_CHARACTERS, NONCE_BYTES, Binding, parse_binding
    from attest.evidence.claims import ClaimTree, StatedClaims, StatedItem
    from attest.evidence.endorsement_files import MAX_FILE_BYTES, MAX_FILES
    from attest.evidence.envelope import (
        MEDIA_AZURE_CVM,
        MEDIA_BINDING,
        MEDIA_CONFIGFS_TSM,
        MEDIA_ENDORSEMENTS,
        MEDIA_INTEL_QUOTE,
        MEDIA_NVIDIA_DEVICE,
        MEDIA_NVIDIA_REPORT,
        MEDIA_PROVIDER_DOCUMENT,
        MEDIA_PROVIDER_KEYS,
        MEDIA_SAMPLE,
        MEDIA_SAMPLE_DEVICE,
        MEDIA_SNP_EXTENDED,
        MEDIA_SNP_REPORT,
        Evidence,
        EvidenceItem,
    )
    from attest.evidence.gpu.device_set import stated_devices
    from attest.evidence.gpu.verify import VerifiedGpu
    from attest.evidence.init_data import InitData, parse_init_data, require_init_data
    from attest.evidence.intel.verify import VerifiedIntelQuote
    from attest.evidence.providers.connection import connection_of
    from attest.evidence.registry import FORMATS
    from attest.evidence.snp.tcb import SnpProduct
    from attest.evidence.snp.verify import VerifiedSnpReport
    from attest.evidence.tolerances import (
        NO_DEVICE_TOLERANCES,
        NO_TOLERANCES,
        AcceptedValue,
        DeviceTolerances,
        GpuTolerances,
    )

__all__ = [
    "FORMATS",
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "MAX_TEXT_CHARACTERS",
    "MEDIA_AZURE_CVM",
    "MEDIA_BINDING",
    "MEDIA_CONFIGFS_TSM",
    "MEDIA_ENDORSEMENTS",
    "MEDIA_INTEL_QUOTE",
    "MEDIA_NVIDIA_DEVICE",
    "MEDIA_NVIDIA_REPORT",
    "MEDIA_PROVIDER_DOCUMENT",
    "MEDIA_PROVIDER_KEYS",
    "MEDIA_SAMPLE",
    "MEDIA_SAMPLE_DEVICE",
    "MEDIA_SNP_EXTENDED",
    "MEDIA_SNP_REPORT",
    "NONCE_BYTES",
    "NO_DEVICE_TOLERANCES",
    "NO_TOLERANCES",
    "AcceptedValue",
    "Binding",
    "ClaimTree",
    "DeviceTolerances",
    "Evidence",
    "EvidenceItem",
    "GpuTolerances",
    "InitData",
    "SnpProduct",
    "StatedClaims",
    "StatedItem",
    "VerifiedGpu",
    "VerifiedIntelQuote",
    "VerifiedSnpReport",
    "connection_of",
    "parse_binding",
    "parse_init_data",
    "require_init_data",
    "stated_devices",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.evidence.binding": ("Binding", "MAX_TEXT_CHARACTERS", "NONCE_BYTES", "parse_binding"),
        "attest.evidence.claims": ("ClaimTree", "StatedClaims", "StatedItem"),
        "attest.evidence.endorsement_files": ("MAX_FILES", "MAX_FILE_BYTES"),
        "attest.evidence.envelope": (
            "Evidence",
            "EvidenceItem",
            "MEDIA_AZURE_CVM",
            "MEDIA_BINDING",
            "MEDIA_CONFIGFS_TSM",
            "MEDIA_ENDORSEMENTS",
            "MEDIA_INTEL_QUOTE",
            "MEDIA_NVIDIA_DEVICE",
            "MEDIA_NVIDIA_REPORT",
            "MEDIA_PROVIDER_DOCUMENT",
            "MEDIA_PROVIDER_KEYS",
            "MEDIA_SAMPLE",
            "MEDIA_SAMPLE_DEVICE",
            "MEDIA_SNP_EXTENDED",
            "MEDIA_SNP_REPORT",
        ),
        "attest.evidence.gpu.device_set": ("stated_devices",),
        "attest.evidence.tolerances": (
            "AcceptedValue",
            "DeviceTolerances",
            "GpuTolerances",
            "NO_DEVICE_TOLERANCES",
            "NO_TOLERANCES",
        ),
        "attest.evidence.gpu.verify": ("VerifiedGpu",),
        "attest.evidence.init_data": ("InitData", "parse_init_data", "require_init_data"),
        "attest.evidence.intel.verify": ("VerifiedIntelQuote",),
        "attest.evidence.providers.connection": ("connection_of",),
        "attest.evidence.registry": ("FORMATS",),
        "attest.evidence.snp.tcb": ("SnpProduct",),
        "attest.evidence.snp.verify": ("VerifiedSnpReport",),
    },
)
