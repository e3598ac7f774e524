"""Milan VCEK seed extraction, arXiv 2605.12990: any report of any TCB can be forged (must-check 8).

The attack in full: a forger holds a genuine chip's key, so the signature, the chain and every field are right. No
verifier can tell; only a policy that does not name the product line can refuse, and every result must warn.
"""

from dataclasses import replace

import pytest

from attest.appraisal import appraise
from attest.checks import Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AppraisalError
from attest.evidence.snp.tcb import SnpProduct
from attest.policy import Policy
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from tests.policy.documents import document, policy_of
from tests.samples import AT, report_evidence, scene


@pytest.fixture
def forged() -> VerifiedEvidence:
    """A report that claims the victim's measurement, signed with an extracted key."""
    milan = scene(SnpProduct.MILAN)
    claims = replace(milan.guest, measurement=scene().guest.measurement)
    return verify(
        report_evidence(claims.report(bytes(64))),
        endorsements=milan.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(report_data=bytes(64)),
    )


def test_mc_8_a_policy_that_does_not_name_milan_refuses_the_whole_generation(forged: VerifiedEvidence) -> None:
    with pytest.raises(AppraisalError) as outcome:
        appraise(forged, policy=policy_of(document(products=["Genoa", "Turin"])), at=AT).require()
    assert "policy.snp.products" in outcome.value.message


def test_every_result_about_milan_warns_even_under_the_baseline(forged: VerifiedEvidence) -> None:
    result = appraise(forged, policy=Policy.baseline(), at=AT)
    warnings = [check for check in result.checks if check.outcome is Outcome.WARNING]
    assert [check.id for check in warnings] == ["policy.snp.product_known_broken"]
