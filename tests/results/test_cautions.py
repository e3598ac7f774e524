"""What results warn of, without a change of their outcome."""

import json
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.endorsements.anchors import TrustAnchors
from attest.evidence.snp.tcb import SnpProduct
from attest.policy import Policy, load_policy
from attest.results import appraised_document, verified_document
from attest.results.cautions import token_cautions
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify
from tests.policy.documents import STRICT
from tests.samples import AT, report_evidence, scene

FRESH = ExpectedFreshness(report_data=bytes(64))


def verified(product: SnpProduct = SnpProduct.GENOA, expected: ExpectedFreshness | None = FRESH) -> VerifiedEvidence:
    made = scene(product)
    return verify(
        report_evidence(made.report),
        endorsements=made.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
    )


def codes(document: dict[str, Any]) -> list[str]:
    assert all(warning["message"] for warning in document["warnings"])
    return [warning["code"] for warning in document["warnings"]]


def test_verified_evidence_says_that_no_policy_judged_it() -> None:
    assert codes(verified_document(verified())) == ["policy-not-judged"]


def test_evidence_without_a_nonce_says_that_its_age_is_unknown() -> None:
    assert codes(verified_document(verified(expected=None))) == ["freshness-not-evaluated", "policy-not-judged"]


@pytest.mark.parametrize("product", [SnpProduct.MILAN, SnpProduct.TURIN])
def test_a_product_whose_report_keys_are_public_is_named_beside_the_verdict(product: SnpProduct) -> None:
    found = codes(verified_document(verified(product)))
    assert ("report-keys-extracted" in found) is (product is SnpProduct.MILAN)


def test_the_baseline_is_named_and_a_policy_is_not() -> None:
    strict = load_policy(json.dumps(STRICT).encode())
    assert codes(appraised_document(appraise(verified(), policy=strict, at=AT))) == []
    assert codes(appraised_document(appraise(verified(), policy=Policy.baseline(), at=AT))) == ["baseline-used"]


@pytest.mark.parametrize(
    ("freshness", "policy", "baseline", "expected"),
    [
        (Freshness.MATCHED, True, False, []),
        (Freshness.MATCHED, False, True, ["baseline-used"]),
        (Freshness.MATCHED, False, False, ["policy-not-judged"]),
        (Freshness.NOT_EVALUATED, True, False, ["freshness-not-evaluated"]),
    ],
)
def test_tokens_warn_of_what_was_not_judged(
    *, freshness: Freshness, policy: bool, baseline: bool, expected: list[str]
) -> None:
    assert [one.code for one in token_cautions(freshness, policy=policy, baseline=baseline)] == expected
