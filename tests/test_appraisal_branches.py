"""Branches of a policy: what holds, what counts, and that nothing slips through between two alternatives."""

import json
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome, Tier
from attest.encoding import JsonValue
from attest.errors import AppraisalError
from attest.evidence.snp.tcb import SnpProduct
from attest.results.document import appraised_document
from attest.results.ear import EAR_PROFILE, VerifierId
from attest.results.ear_build import build_ear
from attest.verification import VerifiedEvidence
from tests.policy.documents import policy_of
from tests.policy.mixed import (
    HIGH_TCB,
    LOW_TCB,
    gpu,
    hopper,
    mixed,
    policy_with,
    sgx,
    snp,
    snp_cpu,
    td_cpu,
    tdx,
)
from tests.samples import AT

SNP = mixed(snp_cpu())
SNP_GPU = mixed(snp_cpu(), hopper())


def judged(verified: VerifiedEvidence, **parts: object) -> AttestationResult:
    return appraise(verified, policy=policy_of(policy_with(**parts)), at=AT)


def failed(result: AttestationResult) -> list[tuple[str, str | None]]:
    return [(check.id, check.branch) for check in result.failed]


def told(result: AttestationResult, check_id: str, branch: str | None) -> Check:
    (check,) = (c for c in result.policy_checks if (c.id, c.branch) == (check_id, branch))
    return check


GOOD: dict[str, Any] = {"snp": snp()}
BAD: dict[str, Any] = {"snp": snp(HIGH_TCB)}
INTEL: dict[str, Any] = {"tdx": tdx()}


def test_one_alternative_that_holds_is_enough_and_the_others_are_told_as_they_came_out() -> None:
    result = judged(SNP, any_of=[BAD, GOOD | {"name": "usual"}])
    assert result.affirmed
    result.require()
    assert result.set_aside == {"any_of[0]"}
    assert told(result, "policy.snp.minimum_tcb", "any_of[0]").outcome is Outcome.FAIL
    assert told(result, "policy.snp.minimum_tcb", "any_of[usual]").outcome is Outcome.PASS
    choice = told(result, "policy.any_of", None)
    assert (choice.outcome, choice.expected) == (Outcome.PASS, "at least 1 of any_of[0], any_of[usual]")
    assert choice.got == "any_of[usual] holds"
    assert result.status is Tier.AFFIRMING
    assert set(result.trustworthiness.values()) <= {Tier.AFFIRMING, Tier.NONE}


def test_when_no_alternative_holds_the_choice_is_what_failed() -> None:
    result = judged(SNP, any_of=[BAD, INTEL])
    assert failed(result) == [("policy.any_of", None)]
    assert told(result, "policy.any_of", None).got == "none of them holds"
    assert result.status is Tier.CONTRAINDICATED
    assert not result.trustworthiness
    with pytest.raises(AppraisalError, match=r"policy\.any_of"):
        result.require()


def test_an_alternative_about_another_kind_of_cpu_does_not_hold_for_want_of_anything_to_judge() -> None:
    result = judged(SNP, any_of=[INTEL, {"sgx": sgx()}])
    assert failed(result) == [("policy.any_of", None), ("policy.kind", None)]
    check = told(result, "policy.devices.cpu", "any_of[0]")
    assert (check.outcome, check.expected, check.got) == (Outcome.FAIL, "one of tdx", "sev-snp")
    assert judged(mixed(td_cpu()), any_of=[INTEL, GOOD]).affirmed
    assert judged(SNP, any_of=[INTEL, GOOD]).affirmed
    assert judged(SNP, any_of=[INTEL | GOOD]).affirmed  # a body with both takes either, as a policy does


def test_everything_in_a_body_has_to_hold() -> None:
    assert judged(SNP, **GOOD, any_of=[{"snp": snp(LOW_TCB)}, BAD]).affirmed
    assert failed(judged(SNP, **BAD, any_of=[GOOD])) == [("policy.snp.minimum_tcb", None)]
    assert failed(judged(SNP, **GOOD, any_of=[BAD])) == [("policy.any_of", None)]
    assert failed(judged(SNP, any_of=[GOOD], at_least={"count": 1, "of": [BAD]})) == [("policy.at_least", None)]
    inner = judged(SNP, any_of=[GOOD | {"any_of": [BAD]}, BAD])
    assert failed(inner) == [("policy.any_of", None)]
    assert told(inner, "policy.any_of", "any_of[0]").outcome is Outcome.FAIL
    assert inner.set_aside == {"any_of[0]", "any_of[0].any_of[0]", "any_of[1]"}


def test_checks_of_all_of_count_as_those_of_the_body_that_it_stands_in() -> None:
    result = judged(SNP, all_of=[GOOD, {"name": "high", **BAD}])
    assert failed(result) == [("policy.snp.minimum_tcb", "all_of[high]")]
    assert judged(SNP, all_of=[GOOD, {"snp": snp(LOW_TCB)}]).affirmed
    within = judged(SNP, any_of=[{"all_of": [GOOD, BAD]}, GOOD])
    assert within.affirmed
    assert "any_of[0].all_of[0]" in within.set_aside


@pytest.mark.parametrize(("count", "holds"), [(1, True), (2, True), (3, False)])
def test_at_least_counts_the_branches_that_hold(count: int, holds: bool) -> None:
    result = judged(SNP, at_least={"count": count, "of": [GOOD, BAD, {"snp": snp(LOW_TCB)}]})
    assert result.affirmed is holds
    choice = told(result, "policy.at_least", None)
    assert choice.expected == f"at least {count} of at_least[0], at_least[1], at_least[2]"
    assert choice.got == "at_least[0], at_least[2] hold"


def test_a_bad_gpu_does_not_pass_by_an_alternative_that_says_nothing_of_gpus() -> None:
    result = judged(SNP_GPU, any_of=[GOOD, GOOD | {"gpu": gpu(architectures=["blackwell"])}])
    assert failed(result) == [("policy.kind", None)]
    (kind,) = result.failed
    assert (kind.item, kind.expected, kind.got) == ("gpu0", "one of sev-snp", "nvidia-gpu")
    assert judged(SNP_GPU, any_of=[GOOD, GOOD | {"gpu": gpu()}]).affirmed
    assert judged(SNP_GPU, gpu=gpu(), any_of=[GOOD, INTEL]).affirmed


def test_a_kind_that_no_body_speaks_of_is_refused() -> None:
    assert ("policy.kind", None) in failed(judged(SNP_GPU, any_of=[GOOD, INTEL]))


def test_demands_on_a_cpu_are_not_met_by_leaving_it_out() -> None:
    alone = mixed(hopper(), bound=False)
    anywhere = {"bound": {"unchecked": "looking at it"}}
    result = judged(alone, **GOOD, any_of=[{"gpu": gpu(), "devices": anywhere}])
    assert failed(result) == [("policy.devices.cpu", None)]
    assert failed(judged(alone, any_of=[GOOD | {"gpu": gpu(), "devices": anywhere}])) == [("policy.any_of", None)]
    assert judged(alone, any_of=[{"gpu": gpu(), "devices": anywhere}]).affirmed


def test_a_warning_of_an_alternative_that_holds_is_a_warning_of_the_result() -> None:
    milan = {"products": ["Milan"], "minimum_tcb": {"Milan": LOW_TCB}}
    verified = mixed(snp_cpu(SnpProduct.MILAN))
    warned = judged(verified, any_of=[{"snp": snp() | milan}, GOOD])
    assert warned.affirmed
    assert warned.status is Tier.WARNING
    assert warned.trustworthiness["hardware"] is Tier.WARNING


def test_the_document_says_which_checks_do_not_count() -> None:
    result = judged(SNP, any_of=[BAD, GOOD])
    document = appraised_document(result)
    assert document["outcome"] == "affirmed"
    checks: Any = document["checks"]
    branches: dict[str, JsonValue] = {c["branch"]: c["counts"] for c in checks if "branch" in c}
    assert branches == {"any_of[0]": False, "any_of[1]": True}
    assert json.dumps(appraised_document(judged(SNP, any_of=[BAD, GOOD]))) == json.dumps(document)


def test_an_ear_of_a_choice_that_holds_affirms() -> None:
    result = judged(SNP, any_of=[BAD, GOOD])
    ear = build_ear((result,), verifier=VerifierId(developer="tests", build="1"))
    assert ear.profile == EAR_PROFILE
    assert ear.details is not None
    assert (ear.details.affirmed, ear.details.failed) == (True, ())
