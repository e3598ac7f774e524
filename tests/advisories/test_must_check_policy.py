"""The refusal laws of policies, by their numbers: must-check 15, 16, 17, 22 and 23."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from attest.appraisal import appraise
from attest.checks import Check, Outcome, Tier
from attest.encoding import rfc3339_text
from attest.endorsements.anchors import TrustAnchors
from attest.errors import ConfigurationError, SignatureError, VerificationError
from attest.policy import Policy, load_policy
from attest.policy.rule_tree import AllBranch
from attest.policy.signatures import DocumentIdentity, require_newer
from attest.release import KeyName
from attest.results.document import appraised_document
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from kms.domain.decide import KeyState, ReleaseOutcome, ReleaseTerms, decide
from tests.policy.documents import STRICT, policy_of
from tests.policy.mixed import HIGH_TCB, gpu, hopper, mixed, policy_with, snp, snp_cpu
from tests.policy.random_pairs import pool
from tests.samples import AT, report_evidence, scene

ROOT = Path(__file__).parents[2]
FRESH = ExpectedFreshness(report_data=bytes(64))


def genuine() -> VerifiedEvidence:
    honest = scene()
    return verify(
        report_evidence(honest.report),
        endorsements=honest.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=FRESH,
    )


# -- 15: what a result names


def test_must_check_15_a_result_names_policy_reference_values_collateral_time_and_evidence() -> None:
    """must-check 15."""
    verified, honest = genuine(), scene()
    told: Any = appraised_document(appraise(verified, policy=policy_of(STRICT), at=AT))
    assert told["policy"]["digest"] == sha256(rfc8785.dumps(STRICT)).hexdigest()
    assert told["at"] == rfc3339_text(AT)
    assert told["evidence_digest"] == verified.evidence.digest.hex()
    relied = {entry["sha256"]: entry for entry in told["endorsements"]}
    pool_digests = {sha256(c.der).hexdigest() for c in honest.endorsements.certificates}
    pool_digests |= {sha256(crl.der).hexdigest() for crl in honest.endorsements.crls}
    assert relied
    assert set(relied) <= pool_digests
    assert {"vcek", "intermediate", "crl"} == {entry["kind"] for entry in relied.values()}
    assert all(entry["begins"] <= told["at"] <= entry["ends"] for entry in relied.values())


def test_must_check_15_the_digest_of_reference_values_is_theirs_and_nothing_elses() -> None:
    """must-check 15."""

    def digest(**changes: object) -> bytes:
        return policy_of(STRICT | changes).reference_digest

    values = STRICT["reference_values"]
    image = values["image"]
    expected = {"image": {"values": image["values"], "origin": image["origin"], "expires": None}}
    assert digest() == sha256(rfc8785.dumps(expected)).digest()
    assert digest() == digest(version=2, description="other words")
    more = [*image["values"], "01" * 48]
    changed = [
        {"image": image | {"values": more}},
        {"image": image | {"origin": "elsewhere"}},
        {"image": image | {"expires": "2027-01-01T00:00:00Z"}},
        values | {"other": image},
    ]
    digests = {digest(), *(digest(reference_values=one) for one in changed)}
    assert len(digests) == 1 + len(changed)
    assert digest(reference_values={"image": image | {"values": more[::-1]}}) == digest(reference_values=changed[0])


def test_must_check_15_a_result_can_be_recomputed_offline() -> None:
    """must-check 15: the same evidence, endorsements, policy and moment give the same result."""
    first, second = (
        json.dumps(appraised_document(appraise(genuine(), policy=policy_of(STRICT), at=AT))) for _ in range(2)
    )
    assert first == second


def test_must_check_15_endorsements_of_every_kind_are_named() -> None:
    """must-check 15."""
    kinds: set[str] = set()
    for _, verified, _ in pool():
        told: Any = appraised_document(appraise(verified, policy=Policy.baseline(), at=verified.at))
        assert {entry["item"] for entry in told["endorsements"]} == {item.name for item in verified.items}
        for entry in told["endorsements"]:
            assert "sha256" in entry or "number" in entry
            kinds.add(entry["kind"])
    assert kinds >= {"vcek", "vlek", "crl", "pck", "tcb-info", "qe-identity", "driver-rim", "vbios-rim", "ocsp"}


# -- 16: status


def test_must_check_16_status_follows_from_the_checks_and_can_be_set_by_nobody() -> None:
    """must-check 16."""
    result = appraise(genuine(), policy=policy_of(STRICT), at=AT)
    assert result.affirmed
    for name in ("affirmed", "status", "failed", "trustworthiness"):
        with pytest.raises((AttributeError, TypeError)):
            replace(result, **{name: True})  # type: ignore[arg-type]
    bad = Check(id="x", outcome=Outcome.FAIL, expected="", got="", clause="")
    spoiled = replace(result, policy_checks=(*result.policy_checks, bad))
    assert (spoiled.affirmed, spoiled.status) == (False, Tier.CONTRAINDICATED)
    with pytest.raises(TypeError):
        bool(result)


def test_must_check_16_a_check_of_a_branch_that_nobody_set_aside_counts() -> None:
    """must-check 16: unknown refuses."""
    result = appraise(genuine(), policy=policy_of(STRICT), at=AT)
    unknown = Check(id="x", outcome=Outcome.FAIL, expected="", got="", clause="", branch="any_of[nobody knows]")
    assert not replace(result, policy_checks=(*result.policy_checks, unknown)).affirmed


def test_must_check_16_a_claim_that_is_not_there_fails_every_rule_that_is_not_relaxed() -> None:
    """must-check 16: unknown refuses, and a missing value equals no default."""
    for policy in [load_policy(path.read_bytes()) for path in _production()] + [policy_of(STRICT)]:
        for placed in policy.all_rules():
            absent = replace(placed.rule, claim=replace(placed.rule.claim, get=lambda _: None))
            outcome = absent.judge(None, at=AT, item=None).outcome
            assert outcome is not Outcome.PASS
            if placed.rule.relaxed is None and placed.rule.otherwise is Outcome.FAIL:
                assert outcome is Outcome.FAIL


# -- 17: test evidence


def _production() -> list[Path]:
    paths = (ROOT / "policies").glob("*.yaml")
    return sorted(p for p in paths if "simulated" not in p.name and not p.name.endswith(".tests.yaml"))


def test_must_check_17_production_policies_refuse_simulated_evidence_of_every_kind() -> None:
    """must-check 17."""
    assert _production()
    for path in _production():
        policy = load_policy(path.read_bytes())
        assert policy.simulated is None
        for name, verified, _ in pool():
            assert verified.simulated
            result = appraise(verified, policy=policy, at=AT)
            assert "policy.not_simulated" in {check.id for check in result.failed}, (path.name, name)


def test_must_check_17_no_branch_can_let_simulated_evidence_in() -> None:
    """must-check 17: only the policy as a whole can, and then says so in every result."""
    relaxed = {"simulated": {"unchecked": "a test"}}
    everywhere: list[dict[str, Any]] = [{"any_of": [{"snp": snp(), **relaxed}]}, {"snp": snp() | relaxed}]
    for parts in everywhere:
        with pytest.raises(ConfigurationError, match="simulated: expected a known key"):
            policy_of(policy_with(**parts))
    document = {name: value for name, value in policy_with(any_of=[{"snp": snp()}]).items() if name != "simulated"}
    assert [c.id for c in appraise(mixed(snp_cpu()), policy=policy_of(document), at=AT).failed] == [
        "policy.not_simulated"
    ]


def test_must_check_17_the_vendors_anchors_verify_nothing_that_the_simulator_signed() -> None:
    """must-check 17."""
    honest = scene()
    with pytest.raises(VerificationError):
        verify(
            report_evidence(honest.report),
            endorsements=honest.endorsements,
            anchors=TrustAnchors.vendors(),
            at=AT,
            expected=FRESH,
        )


def test_must_check_17_debug_is_refused_by_every_production_policy_without_being_mentioned() -> None:
    """must-check 17: debug keys and debug states."""
    strict = {rule.id: rule for path in _production() for one in [load_policy(path.read_bytes())] for rule in _all(one)}
    for rule_id in ("policy.snp.guest_policy.debug", "policy.tdx.under_debug", "policy.tdx.td_attributes.debug"):
        assert strict[rule_id].relaxed is None
        assert strict[rule_id].holds(True, AT) is False


def _all(policy: Policy) -> list[Any]:
    return [placed.rule for placed in policy.all_rules()]


# -- 22: default deny

DEMAND = ReleaseTerms(
    context="kms-release/v1",
    role="workload",
    audience="kms",
    nonce=bytes(32),
    purposes=frozenset({"model-key"}),
    allow_simulated=True,
)


def released(policy: Policy, *, key_policy: Policy | None = None, appraised: bool = True) -> list[str]:
    """The reasons against releasing a key to a machine that conforms."""
    result = appraise(mixed(snp_cpu()), policy=policy, at=AT)
    guarding = key_policy or policy
    state = KeyState(
        asked="k",
        name=KeyName(key_id="k"),
        version=1,
        purpose="model-key",
        policy_digest=guarding.digest,
        enabled=True,
        reference_digest=guarding.reference_digest,
    )
    decision = decide(
        requested=("k",), keys={"k": state}, results={"k": result} if appraised else {}, demand=DEMAND, at=AT
    )
    assert (decision.outcome is ReleaseOutcome.ALLOW) is (not decision.reasons)
    return [reason.code for reason in decision.reasons]


def test_must_check_22_no_policy_no_release() -> None:
    """must-check 22."""
    good = policy_of(policy_with(snp=snp()))
    assert released(good) == []
    assert released(good, appraised=False) == ["not-appraised"]
    assert "policy-not-production" in released(Policy.baseline())
    other = policy_of(policy_with(snp=snp(), version=2))
    assert released(good, key_policy=other) == ["policy-mismatch"]


def test_must_check_22_an_empty_list_matches_nothing() -> None:
    """must-check 22: it does not load, and a policy that demands nothing affirms nobody."""
    nothing: list[dict[str, Any]] = [{}, {"any_of": []}, {"all_of": []}, {"snp": snp(vmpl=[])}]
    for parts in [*nothing, {"at_least": {"count": 1, "of": []}}]:
        with pytest.raises(ConfigurationError):
            policy_of(policy_with(**parts))
    silent = replace(policy_of(policy_with(snp=snp())), tree=AllBranch(path="", members=()))
    assert released(silent) == ["policy-not-met"]


def test_must_check_22_what_no_demand_that_holds_speaks_of_is_refused() -> None:
    """must-check 22: for kinds of machines and for branches."""
    policy = policy_of(policy_with(any_of=[{"snp": snp()}, {"snp": snp(HIGH_TCB), "gpu": gpu()}]))
    result = appraise(mixed(snp_cpu(), hopper()), policy=policy, at=AT)
    assert [check.id for check in result.failed] == ["policy.kind"]


def test_must_check_22_a_branch_that_is_taken_away_takes_its_machines_away() -> None:
    """must-check 22: removed policy removes access."""
    strict: dict[str, Any] = {"name": "new", "snp": snp(HIGH_TCB)}
    both = policy_of(policy_with(any_of=[{"name": "old", "snp": snp()}, strict]))
    assert released(both) == []
    assert released(policy_of(policy_with(any_of=[strict]))) == ["policy-not-met"]


# -- 23: change


def identity(policy: Policy) -> DocumentIdentity:
    return DocumentIdentity(name=policy.name, version=policy.version, digest=policy.digest)


def test_must_check_23_a_policy_cannot_be_rolled_back() -> None:
    """must-check 23: monotonic version."""
    versions = [identity(policy_of(STRICT | {"version": number})) for number in (1, 2, 3)]
    require_newer(versions[1], than=versions[0])
    require_newer(versions[2], than=1)
    for old, new in ((versions[2], versions[1]), (versions[1], versions[1])):
        with pytest.raises(SignatureError) as caught:
            require_newer(new, than=old)
        assert caught.value.code == "policy-rolled-back"


def test_must_check_23_a_changed_policy_under_its_old_version_is_refused() -> None:
    """must-check 23: a change raises the version."""
    old, changed = policy_of(STRICT), policy_of(STRICT | {"description": "changed in silence"})
    assert old.digest != changed.digest
    with pytest.raises(SignatureError, match="above 1, got 1"):
        require_newer(identity(changed), than=identity(old))
    assert released(policy_of(policy_with(snp=snp())), key_policy=changed) == [
        "policy-mismatch",
        "references-mismatch",  # the two have other reference values as well
    ]


@pytest.mark.parametrize("version", [0, -1, 1.5, "2", True, None, 2**31 + 1])
def test_must_check_23_a_version_is_a_number_that_can_only_grow(version: object) -> None:
    """must-check 23."""
    with pytest.raises(ConfigurationError, match="version: expected an integer"):
        policy_of(STRICT | {"version": version})
