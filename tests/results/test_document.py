"""The JSON result: versioned, complete, and its outcome follows from its checks."""

import json

import pytest

from attest.appraisal import appraise
from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, BindingError, EvidenceError
from attest.policy import Policy, load_policy
from attest.results import appraised_document, refused_document, verified_document
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from tests.policy.documents import STRICT
from tests.samples import AT, report_evidence, scene

HONEST = scene()
HEAD = {"schema", "command", "outcome", "at", "simulated", "freshness", "unchecked", "error", "items", "checks"}


def verified(*, expected: ExpectedFreshness | None = None) -> VerifiedEvidence:
    """Verify the honest guest's report over zeros."""
    return verify(
        report_evidence(HONEST.report),
        endorsements=HONEST.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
    )


def test_verified_evidence_is_told_with_its_claims_and_checks() -> None:
    document = verified_document(verified())
    assert set(document) >= HEAD
    assert (document["schema"], document["outcome"], document["error"]) == ("attest.result/1", "verified", None)
    assert document["simulated"] is True
    text = json.dumps(document)
    claims = json.loads(text)["items"][0]["claims"]
    assert claims["measurement"] == HONEST.guest.measurement.hex()
    assert claims["policy"]["debug"] is False
    assert set(claims["reported_tcb"]) == {"bootloader", "tee", "snp", "microcode"}
    assert None not in claims.values()
    assert all({"id", "outcome", "expected", "got", "clause"} <= set(c) for c in json.loads(text)["checks"])


def test_an_appraisal_is_told_with_its_policy_and_vector() -> None:
    policy = load_policy(json.dumps(STRICT).encode())
    good = appraised_document(
        appraise(verified(expected=ExpectedFreshness(report_data=bytes(64))), policy=policy, at=AT)
    )
    assert (good["outcome"], good["status"], good["freshness"]) == ("affirmed", "affirming", "matched")
    assert good["policy"] == {
        "name": "test",
        "version": 1,
        "digest": policy.digest.hex(),
        "production": True,
        "reference_values_digest": policy.reference_digest.hex(),
    }
    bad = appraised_document(appraise(verified(), policy=Policy.baseline(), at=AT))
    assert (bad["outcome"], bad["status"]) == ("not-affirmed", "contraindicated")


def test_a_refusal_repeats_no_claim_and_lists_the_checks() -> None:
    relaxed = (Unchecked(check="rim", reason="none"),)
    with pytest.raises(BindingError) as outcome:
        verified(expected=ExpectedFreshness(nonce=b"x"))
    document = refused_document(outcome.value, command="appraise", at=AT, unchecked=relaxed)
    assert (document["outcome"], document["freshness"], document["items"]) == ("refused", "mismatched", [])
    assert document["unchecked"] == [{"check": "rim", "reason": "none"}]
    told = json.loads(json.dumps(document))
    assert told["error"]["code"] == "nonce-mismatch"
    assert any(check["outcome"] == "fail" for check in told["checks"])


def test_a_matched_nonce_is_told_even_when_the_rest_does_not_hold() -> None:
    with pytest.raises(AttestError) as outcome:
        verify(
            report_evidence(HONEST.report),
            endorsements=Endorsements(),
            anchors=TrustAnchors.simulation(),
            at=AT,
            expected=ExpectedFreshness(report_data=bytes(64)),
        )
    assert refused_document(outcome.value, command="verify", at=AT)["freshness"] == "matched"


@pytest.mark.parametrize(
    ("error", "check"),
    [
        (EvidenceError("not evidence", code="evidence-unrecognised"), "evidence.format"),
        (BindingError("not ours", code="nonce-mismatch"), "freshness"),
    ],
)
def test_a_refusal_without_a_procedure_is_one_failed_check(error: AttestError, check: str) -> None:
    told = json.loads(json.dumps(refused_document(error, command="verify", at=AT)))
    assert [(c["id"], c["outcome"]) for c in told["checks"]] == [(check, "fail")]
