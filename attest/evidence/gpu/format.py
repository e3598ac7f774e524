"""NVIDIA's GPUs and NVSwitches as evidence formats."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from attest.evidence.device_format import DeviceFormat, FormatTable, PeripheralFormat
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS
from attest.evidence.gpu.evidence import NVIDIA_PARSERS
from attest.evidence.gpu.topology import judge_set
from attest.evidence.gpu.verify import VerifiedGpu, authenticate_gpu, verify_gpu_evidence
from attest.evidence.proof_chain import ProofLink, issuer_link, root_link, shown

_VERIFY: Callable[..., VerifiedGpu] = verify_gpu_evidence


def gpu_chain(verified: VerifiedGpu) -> tuple[ProofLink, ...]:
    """Return the links from NVIDIA's root to the report."""
    chain = verified.chain
    return (
        root_link(chain.anchor),
        *(issuer_link(certificate) for certificate in reversed(chain.issuers)),
        ProofLink(chain.device.name, f"the device, {chain.product}"),
        ProofLink(chain.leaf.certificate.name, f"attestation key of its firmware {shown(chain.leaf.fwid)}"),
        ProofLink("report", "measurements of the device"),
    )


GPU = DeviceFormat(kind="nvidia-gpu", claims=GPU_CLAIMS, chain=gpu_chain)
SWITCH = DeviceFormat(kind="nvidia-switch", claims=SWITCH_CLAIMS, chain=gpu_chain)

GPU_FORMATS = FormatTable(
    kinds=(GPU, SWITCH),
    peripherals={
        media_type: PeripheralFormat(
            parse=parse,
            nonce=attrgetter("report.nonce"),
            verify=_VERIFY,
            kind_of=lambda verified: SWITCH if verified.kind == SWITCH.kind else GPU,
            judge_set=judge_set,
            authenticate=authenticate_gpu,
        )
        for media_type, parse in NVIDIA_PARSERS.items()
    },
)
