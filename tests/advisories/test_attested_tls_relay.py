"""Identity Crisis (AsiaCCS 2026) and CVE-2026-33697: a proof relayed by a machine in the middle (must-check 2, 18).

The relay has a genuine workload prove itself under the victim's nonce and forwards the evidence. It cannot change
the key in it, so what is sealed to the evidence's key is of no use to the relay; and it cannot take a proof that was
made for another Relying Party.
"""

from dataclasses import replace

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.errors import BindingError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import Evidence
from attest.release import WorkloadKey, seal
from attest.verification import VerifiedEvidence, verify
from tests.samples import AT, NONCE, binding, bound_evidence, scene

HONEST = scene()
EXPECTED = ExpectedBinding(context="kms-release/v1", role="workload", audience="kms", nonce=NONCE)


def judge(evidence: Evidence) -> VerifiedEvidence:
    """What the key-release service does with evidence."""
    return verify(
        evidence, endorsements=HONEST.endorsements, anchors=TrustAnchors.simulation(), at=AT, expected=EXPECTED
    )


def test_what_is_sealed_to_a_relayed_proof_opens_for_the_prover_alone() -> None:
    workload, relay = WorkloadKey.generate(), WorkloadKey.generate()
    relayed = judge(bound_evidence(HONEST.guest, binding(audience="kms", key=workload.public)))
    assert relayed.binding is not None
    sealed = seal(b"model key", recipient=relayed.binding.key, info=b"exchange")
    with pytest.raises(BindingError):
        relay.open(sealed, info=b"exchange")
    assert workload.open(sealed, info=b"exchange") == b"model key"


def test_a_relay_cannot_put_its_own_key_into_the_proof() -> None:
    relay = WorkloadKey.generate()
    honest = bound_evidence(HONEST.guest, binding(audience="kms"))
    swapped = tuple(
        replace(item, value=binding(audience="kms", key=relay.public).to_bytes()) if item.name == "binding" else item
        for item in honest.items
    )
    with pytest.raises(BindingError) as outcome:
        judge(replace(honest, items=swapped))
    assert outcome.value.code == "binding-report-data-mismatch"


def test_a_proof_for_another_relying_party_is_no_proof() -> None:
    with pytest.raises(BindingError) as outcome:
        judge(bound_evidence(HONEST.guest, binding(audience="another service")))
    assert outcome.value.code == "binding-audience-mismatch"
