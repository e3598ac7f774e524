"""Verified evidence of several kinds, put together for policies that speak of them all."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.gpu.format import GPU, SWITCH
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.format import SNP
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES
from attest.verification import Freshness, VerifiedEvidence, VerifiedItem
from tests.evidence.azure.made import PCRS
from tests.policy.documents import MEASUREMENT
from tests.policy.gpu_documents import HOPPER, verified
from tests.policy.intel_documents import ENCLAVE, TD, verified_enclave, verified_td
from tests.samples import AT, scene

BINDING = Binding(context="kms-release/v1", role="workload", audience="kms", nonce=bytes(32), key=b"key")
GENOA_TCB = {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}
LOW_TCB = dict.fromkeys(GENOA_TCB, 0)
HIGH_TCB = dict.fromkeys(GENOA_TCB, 255)

HEAD: dict[str, Any] = {
    "schema": "attest.policy/1",
    "name": "test",
    "version": 1,
    "simulated": {"unchecked": "the tests have no hardware"},
    "reference_values": {
        "image": {"values": [MEASUREMENT], "origin": "the simulator"},
        "td": {"values": [TD.mr_td.hex()], "origin": "the simulator"},
        "boot": {"values": [TD.rtmrs[1].hex()], "origin": "the simulator"},
        "enclave": {"values": [ENCLAVE.mr_enclave.hex()], "origin": "the simulator"},
        "other": {"values": ["01" * 48], "origin": "nobody"},
        "other-enclave": {"values": ["01" * 32], "origin": "nobody"},
        "pcr4": {"values": [PCRS[4].hex()], "origin": "the simulator"},
        "pcr7": {"values": [PCRS[7].hex()], "origin": "the simulator"},
    },
}


def policy_with(**parts: object) -> dict[str, Any]:
    """A whole document with these sections and combinators."""
    return HEAD | parts


def snp(tcb: Mapping[str, int] | None = None, **more: object) -> dict[str, Any]:
    """A section that the simulated guest meets, unless it is changed."""
    return {
        "products": ["Genoa"],
        "measurement": ["image"],
        "minimum_tcb": {"Genoa": dict(tcb or GENOA_TCB)},
        **more,
    }


def gpu(**more: object) -> dict[str, Any]:
    """A section that the simulated Hopper meets, unless it is changed."""
    return {
        "architectures": ["hopper"],
        "driver_versions": {"at_least": "570.86"},
        "vbios_versions": {"at_least": "96.00.5E.00.01"},
        **more,
    }


def tdx(**more: object) -> dict[str, Any]:
    """A section that the simulated TD meets, unless it is changed."""
    return {"mr_td": ["td"], "rtmr1": ["boot"], **more}


def azure_td(**more: object) -> dict[str, Any]:
    """A section that the report of an Azure VM on TDX meets, whose RTMRs are zeros."""
    return {"mr_td": ["td"], **more}


def azure(**more: object) -> dict[str, Any]:
    """A section that the made-up VM meets, unless it is changed."""
    return {"pcr4": ["pcr4"], **more}


def sgx(**more: object) -> dict[str, Any]:
    """A section that the simulated enclave meets, unless it is changed."""
    return {"mr_enclave": ["enclave"], **more}


@cache
def snp_cpu(product: SnpProduct = SnpProduct.GENOA, **guest: int | bytes) -> VerifiedItem:
    """The CPU item of a simulated guest."""
    honest = scene(product)
    report = replace(honest.guest, **guest).report(bytes(64))  # type: ignore[arg-type]  # any field
    return VerifiedItem(name="cpu", format=SNP, verified=honest.verify(report))


@cache
def td_cpu(*, log: bool = False, version: int = 5) -> VerifiedItem:
    """The CPU item of a simulated TD."""
    return verified_td(log=log, version=version).items[0]


@cache
def enclave_cpu() -> VerifiedItem:
    """The CPU item of a simulated enclave."""
    return verified_enclave().items[0]


def mixed(
    *devices: VerifiedItem | VerifiedGpu, bound: bool = True, freshness: Freshness = Freshness.MATCHED
) -> VerifiedEvidence:
    """Evidence of a CPU, if there is one, and of GPUs and switches, numbered in their order."""
    items: list[VerifiedItem] = []
    for device in devices:
        if isinstance(device, VerifiedItem):
            items.append(device)
            continue
        row, prefix = (SWITCH, "nvswitch") if device.kind == "nvidia-switch" else (GPU, "gpu")
        number = sum(item.format is row for item in items)
        items.append(VerifiedItem(name=f"{prefix}{number}", format=row, verified=device))
    evidence = Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=b"put together"),))
    return VerifiedEvidence(
        evidence=evidence,
        items=tuple(items),
        binding=BINDING if bound else None,
        freshness=freshness,
        at=AT,
        unchecked=(),
        tolerances=NO_DEVICE_TOLERANCES,
        composite_checks=(),
        devices_bound=bound,
    )


def hopper() -> VerifiedGpu:
    """A GPU with nothing wrong."""
    return verified(HOPPER)
