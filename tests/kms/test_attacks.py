"""Attacks on the exchange that no other file tries. ``docs/attacks.md`` names them all."""

from dataclasses import replace
from typing import Any

import pytest

from attest.errors import AttestError, BindingError, VerificationError
from attest.evidence.envelope import MEDIA_BINDING, Evidence
from attest.release import KEM_HYBRID, KEM_X25519, ReleaseRequest, WorkloadKey, release_info, seal
from tests.kms.support import MATERIAL, Harness, Workload

HYBRID, WEAK = WorkloadKey.generate(KEM_HYBRID), WorkloadKey.generate(KEM_X25519)


def test_a_key_of_a_weaker_suite_in_the_place_of_the_proved_one_is_refused(harness: Harness) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    honest, weaker = (Workload(key=key).request(challenge, "model") for key in (HYBRID, WEAK))
    exchanged = tuple(
        other if item.media_type == MEDIA_BINDING else item
        for item, other in zip(honest.evidence.items, weaker.evidence.items, strict=True)
    )
    with pytest.raises(BindingError) as refusal:
        harness.releases.release(replace(honest, evidence=Evidence(items=exchanged)))
    assert refusal.value.code == "binding-report-data-mismatch"


@pytest.mark.parametrize("label", [HYBRID.public[:2], WEAK.public[:2]])
def test_a_key_that_says_it_is_of_another_suite_is_refused(harness: Harness, label: bytes) -> None:
    harness.add_key("model")
    other = WEAK if label == HYBRID.public[:2] else HYBRID
    workload = Workload(key=other, public=label + other.public[2:])
    with pytest.raises(VerificationError):
        harness.releases.release(workload.request(harness.releases.challenge(), "model"))


def test_an_answer_that_was_sealed_for_a_weaker_suite_does_not_open() -> None:
    info = release_info(
        audience="a",
        nonce=bytes(32),
        evidence_digest=bytes(48),
        tenant="default",
        key_id="model",
        version=1,
        purpose="model-key",
        policy_digest=bytes(32),
        decision_digest=bytes(32),
    )
    assert HYBRID.open(seal(MATERIAL, recipient=HYBRID.public, info=info), info=info) == MATERIAL
    with pytest.raises(AttestError):
        HYBRID.open(seal(MATERIAL, recipient=WEAK.public, info=info), info=info)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"context": "channel/v1"}, "binding-context-mismatch"),
        ({"context": "kms-identity/v1"}, "binding-context-mismatch"),
        ({"role": "service"}, "binding-role-mismatch"),
        ({"audience": "kms.test/other+00000000+AAAA"}, "binding-audience-mismatch"),
        ({"nonce": bytes(32)}, "nonce-mismatch"),
    ],
)
def test_a_proof_for_another_purpose_role_or_party_gets_no_key(
    harness: Harness, changes: dict[str, Any], code: str
) -> None:
    harness.add_key("model")
    request: ReleaseRequest = replace(Workload(), **changes).request(harness.releases.challenge(), "model")
    with pytest.raises(BindingError) as refusal:
        harness.releases.release(request)
    assert refusal.value.code == code
    assert harness.decisions()[-1]["outcome"] == "deny"
