"""Evidence with values without a known meaning, and policies that name them."""

import copy
from datetime import UTC, datetime
from typing import Any

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.freshness import ExpectedFreshness
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tolerances import DeviceTolerances
from attest.verification import VerifiedEvidence, verify
from attest_simulator import SimulatedChip, SimulatedGuest
from tests.policy.documents import document
from tests.policy.gpu_documents import NONCE, gpu_document
from tests.unknown_values import extended_chip, extended_gpu

AT = datetime(2026, 6, 1, tzinfo=UTC)
GPU = extended_gpu({36: b"\3\0"})
CHIP = extended_chip(SimulatedChip.of(SnpProduct.GENOA), {"spl4": 3})
SNP = document(accepted_spls={"spl4:3": "AMD told us"})
OPAQUE = {"36:0300": "the mode of driver 600"}


def gpus(**opaque: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """A policy on SEV-SNP and GPUs, which need not be bound."""
    policy = {**gpu_document(**opaque), "devices": {"bound": {"unchecked": "one nonce"}}}
    del policy["nvswitch"]
    return {**policy, **{name: copy.deepcopy(SNP[name]) for name in ("snp", "reference_values")}}


def evidence() -> Evidence:
    report = SimulatedGuest(chip=CHIP).report(NONCE.ljust(64, b"\0"))
    return Evidence(
        items=(
            EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=report),
            EvidenceItem(name="gpu0", media_type=MEDIA_NVIDIA_DEVICE, value=GPU.device_item(NONCE)),
        )
    )


POOL: Endorsements = CHIP.endorsements(at=AT).merged(GPU.endorsements(at=AT))


def verified(tolerances: DeviceTolerances) -> VerifiedEvidence:
    return verify(
        evidence(),
        endorsements=POOL,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(nonce=NONCE),
        tolerances=tolerances,
    )
