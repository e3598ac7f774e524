"""``attest verify --second-opinion``: the findings of NVIDIA's own SDK for the same devices, beside our checks.

It never changes our answer. Where the two differ, ``docs/gpu.md`` names the rule that decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from attest.checks import Check
from attest.cli.verification_inputs import Case
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.evidence.envelope import Evidence
from attest.evidence.freshness import DEVICE_NONCE_BYTES
from attest.evidence.gpu.evidence import NVIDIA_PARSERS, ParsedGpuEvidence
from attest.evidence.providers.families import device_items
from attest.nvsdk import pair_documents, second_opinion, side_by_side


def nvidia_devices(evidence: Evidence) -> list[tuple[str, ParsedGpuEvidence]]:
    """Return the GPUs and switches of the evidence, by name; an ``EvidenceError`` if one is malformed."""
    return [
        (item.name, NVIDIA_PARSERS[item.essence](item.value))
        for item in device_items(evidence)
        if item.essence in NVIDIA_PARSERS
    ]


def second_opinion_document(case: Case, checks: Sequence[Check]) -> dict[str, JsonValue]:
    """Verify the GPUs and switches with NVIDIA's SDK, and put its findings beside these checks.

    Raises:
        ConfigurationError: ``option-not-applicable``, ``nvsdk-missing``, ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    devices = nvidia_devices(case.evidence)
    if not devices:
        raise ConfigurationError(
            "--second-opinion nvsdk: the evidence has no GPU and no NVSwitch",
            code="option-not-applicable",
            field="--second-opinion",
            hint="leave it out: NVIDIA's SDK verifies only NVIDIA's devices",
        )
    pool = case.evidence.presented.merged(case.endorsements)
    nonce = None if case.expected is None else case.expected.nonce
    opinion = second_opinion(
        devices,
        rims=pool.rims,
        at=case.at,
        nonce=nonce if nonce is not None and len(nonce) == DEVICE_NONCE_BYTES else None,
        certificates=pool.certificates,
    )
    pairs = side_by_side(opinion, checks)
    return {"second_opinion": {**opinion.document(), "side_by_side": pair_documents(pairs)}}
