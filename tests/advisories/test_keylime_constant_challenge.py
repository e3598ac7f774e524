"""Keylime CVE-2026-6420: a constant challenge. Evidence that answers a fixed or empty question is not fresh."""

import pytest

from attest.appraisal import appraise
from attest.endorsements.anchors import TrustAnchors
from attest.policy import Policy
from attest.verification import ExpectedFreshness, Freshness, verify
from tests.samples import AT, report_evidence, scene


def test_an_empty_nonce_is_no_question() -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        ExpectedFreshness(nonce=b"")


def test_without_a_question_nothing_is_affirmed() -> None:
    honest = scene()
    verified = verify(
        report_evidence(honest.report), endorsements=honest.endorsements, anchors=TrustAnchors.simulation(), at=AT
    )
    assert verified.freshness is Freshness.NOT_EVALUATED
    assert "freshness" in {check.id for check in appraise(verified, policy=Policy.baseline(), at=AT).failed}
