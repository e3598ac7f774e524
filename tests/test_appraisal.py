"""A policy judges verified evidence: every rule yields a check, and the outcome follows from the checks."""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome, Tier, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AppraisalError
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.policy import Policy
from attest.policy.rule_tree import AllBranch
from attest.policy.snp_tcb import ProductTcb, shortfall
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from attest_simulator import SimulatedGuest
from tests.policy.documents import MEASUREMENT, STRICT, document, policy_of
from tests.samples import AT, Scene, report_evidence, scene

FRESH = ExpectedFreshness(nonce=b"fresh")


def verified_of(
    honest: Scene, guest: dict[str, Any] | None = None, *, expected: ExpectedFreshness | None = FRESH
) -> VerifiedEvidence:
    """Verify a fresh report of a guest."""
    report = replace(honest.guest, **(guest or {})).report(b"fresh".ljust(64, b"\0"))
    return verify(
        report_evidence(report),
        endorsements=honest.endorsements,
        anchors=TrustAnchors.simulation(),
        at=honest.at,
        expected=expected,
    )


def judged(policy: dict[str, Any], honest: Scene | None = None, /, **guest: object) -> AttestationResult:
    """Appraise a guest by a policy document."""
    return appraise(verified_of(honest or scene(), guest), policy=policy_of(policy), at=AT)


def failed(result: AttestationResult) -> set[str]:
    """Ids of the failed checks without the prefix."""
    return {check.id.removeprefix("policy.snp.") for check in result.failed}


def test_an_honest_guest_is_affirmed_and_every_check_is_listed() -> None:
    result = judged(STRICT)
    assert result.affirmed
    result.require()
    assert {check.id for check in result.policy_checks} >= {rule.id for rule in result.policy.rules["sev-snp"]}
    assert len(result.checks) > len(result.policy_checks)
    assert result.status is Tier.AFFIRMING


def test_a_result_and_a_check_are_no_conditions() -> None:
    result = judged(STRICT)
    with pytest.raises(TypeError):
        bool(result)
    with pytest.raises(TypeError):
        bool(result.policy_checks[0])


ABOVE = SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=85)
LOW = SnpTcbVersion(bootloader=10, tee=0, snp=26, microcode=84)
GENOA = STRICT["snp"]["minimum_tcb"]["Genoa"]
HIGH = GENOA | {"microcode": 85}


@pytest.mark.parametrize(
    ("chip", "guest", "snp", "wanted"),
    [
        ({}, {"measurement": bytes(48)}, {}, {"measurement"}),
        ({}, {"vmpl": 1}, {}, {"vmpl"}),
        ({}, {"vmpl": 0xFFFFFFFF}, {}, {"vmpl"}),
        ({}, {"policy": 0x30000 | 1 << 19}, {}, {"guest_policy.debug"}),
        ({}, {"policy": 0x30000 | 1 << 18}, {}, {"guest_policy.migrate_ma"}),
        ({}, {}, {"guest_policy": {"smt": False}}, {"guest_policy.smt"}),
        ({"platform_info": 0x05}, {}, {}, {"platform_info.alias_check_complete"}),
        ({}, {}, {"platform_info": {"smt_en": False}}, {"platform_info.smt_en"}),
        ({"reported_tcb": LOW, "committed_tcb": LOW}, {}, {}, {"minimum_tcb", "provisional_firmware"}),
        ({"committed_tcb": LOW}, {}, {}, {"provisional_firmware", "firmware_rollback_protected"}),
        ({}, {"launch_tcb": ABOVE}, {}, {"rolled_back_since_launch"}),
        ({"mask_chip_id": True}, {}, {}, {"masked_chip_id"}),
        ({}, {}, {"products": ["Turin"]}, {"products"}),
        ({}, {}, {"signing_key": ["vlek"]}, {"signing_key"}),
        ({}, {}, {"chip_ids": ["00" * 64]}, {"chip_id"}),
        ({}, {}, {"host_data": ["01" * 32]}, {"host_data"}),
        ({}, {}, {"id_key_digests": ["01" * 48]}, {"id_key_digest"}),
        ({}, {}, {"author_key_digests": ["01" * 48]}, {"author_key_digest"}),
        ({}, {}, {"family_ids": ["01" * 16]}, {"family_id"}),
        ({}, {}, {"image_ids": ["01" * 16]}, {"image_id"}),
        ({}, {}, {"csp_ids": ["CN=cloud.invalid"]}, {"csp_id"}),
        ({}, {}, {"minimum_guest_svn": 1}, {"guest_svn"}),
        ({}, {}, {"mitigations_now": 0x0F}, {"current_mit_vector"}),
        ({}, {}, {"mitigations_at_launch": 0x0F}, {"launch_mit_vector"}),
        ({}, {"launch_tcb": LOW}, {"minimum_launch_tcb": STRICT["snp"]["minimum_tcb"]}, {"minimum_launch_tcb"}),
        (
            {"committed_tcb": LOW},
            {},
            {"minimum_committed_tcb": STRICT["snp"]["minimum_tcb"]},
            {"minimum_committed_tcb", "provisional_firmware", "firmware_rollback_protected"},
        ),
        ({}, {}, {"exact_tcb": {"Genoa": [HIGH, LOW.components()]}}, {"exact_tcb"}),
        ({}, {}, {"exact_tcb": {"Genoa": [HIGH]}, "minimum_tcb": None}, {"exact_tcb"}),
        ({}, {}, {"exact_tcb": {"Milan": [GENOA]}, "minimum_tcb": None}, {"exact_tcb"}),
        ({}, {}, {"exact_committed_tcb": {"Genoa": [LOW.components()]}}, {"exact_committed_tcb"}),
        ({}, {"launch_tcb": LOW}, {"exact_launch_tcb": {"Genoa": [GENOA, HIGH]}}, {"exact_launch_tcb"}),
        ({}, {}, {"minimum_tcb": {"Milan": {"bootloader": 0, "tee": 0, "snp": 0, "microcode": 0}}}, {"minimum_tcb"}),
    ],
)
def test_mc_5_mc_6_mc_7_each_demand_fails_on_its_own(
    chip: dict[str, Any], guest: dict[str, Any], snp: dict[str, Any], wanted: set[str]
) -> None:
    result = judged(document(**snp), scene(**chip), **guest)
    assert failed(result) == wanted
    assert not result.affirmed
    assert result.status is Tier.CONTRAINDICATED
    with pytest.raises(AppraisalError) as outcome:
        result.require()
    assert outcome.value.exit_code == 1
    assert all(name in outcome.value.message for name in wanted)


@pytest.mark.parametrize("part", sorted(GENOA))
@pytest.mark.parametrize("step", [-1, 1])
def test_an_exact_tcb_is_met_by_itself_and_by_no_neighbour(part: str, step: int) -> None:
    exact = {name: {"Genoa": [HIGH, GENOA]} for name in ("exact_tcb", "exact_committed_tcb", "exact_launch_tcb")}
    assert judged(document(minimum_tcb=None, **exact)).affirmed
    if GENOA[part] + step >= 0:
        near = judged(document(minimum_tcb=None, exact_tcb={"Genoa": [GENOA | {part: GENOA[part] + step}]}))
        assert failed(near) == {"exact_tcb"}
        (check,) = near.failed
        assert check.expected.startswith("exactly bootloader ")
        assert check.got == "bootloader 10 tee 0 snp 27 microcode 84 on Genoa"


@pytest.mark.parametrize(
    ("minimum", "told"),
    [
        ({"Genoa": HIGH}, "bootloader 10 tee 0 snp 27 microcode 84 on Genoa: microcode 84 is below 85"),
        (
            {"Genoa": GENOA | {"tee": 1, "snp": 28}},
            "bootloader 10 tee 0 snp 27 microcode 84 on Genoa: tee 0 is below 1, snp 27 is below 28",
        ),
        ({"Milan": GENOA}, "bootloader 10 tee 0 snp 27 microcode 84 on Genoa, for which no minimum is stated"),
    ],
)
def test_a_tcb_below_its_minimum_is_told_with_the_components_that_are_too_low(
    minimum: dict[str, Any], told: str
) -> None:
    (check,) = judged(document(minimum_tcb=minimum)).failed
    assert (check.id, check.got) == ("policy.snp.minimum_tcb", told)


def test_without_a_product_line_no_component_is_named() -> None:
    minimums = {SnpProduct.GENOA: LOW, SnpProduct.MILAN: LOW}
    assert shortfall(minimums)(ProductTcb(product=None, tcb=LOW)) == f"{LOW} on an unnamed product line"


def test_an_exact_tcb_that_is_left_unchecked_shows_in_the_result() -> None:
    result = judged(document(minimum_tcb=None, exact_tcb={"unchecked": "a lab"}))
    assert result.affirmed
    assert [c.expected for c in result.checks if c.id == "policy.snp.exact_tcb"] == ["unchecked: a lab"]


def test_what_a_report_version_does_not_carry_fails_the_demand() -> None:
    """must-check 41: a missing value never equals a default."""
    result = judged(document(mitigations_now=1), scene(report_version=3))
    assert failed(result) == {"current_mit_vector"}
    (check,) = result.failed
    assert check.got == "absent"


def test_mc_8_a_denied_chip_is_refused_and_another_is_not() -> None:
    chip_id = scene().guest.chip.chip_id.hex()
    assert failed(judged(document(denied_chip_ids=[chip_id]))) == {"denied_chip_ids"}
    assert judged(document(denied_chip_ids=["00" * 64])).affirmed


def test_a_chip_that_masks_its_id_is_known_by_its_certificate() -> None:
    masked = {"unchecked": "a host that masks CHIP_ID"}
    honest, hidden = scene(), scene(mask_chip_id=True)
    chip_id = honest.guest.chip.chip_id.hex()
    assert failed(judged(document(masked_chip_id=masked, denied_chip_ids=[chip_id]), hidden)) == {"denied_chip_ids"}
    assert judged(document(masked_chip_id=masked, denied_chip_ids=["11" * 64]), hidden).affirmed
    assert judged(document(masked_chip_id=masked, chip_ids=[chip_id]), hidden).affirmed
    assert failed(judged(document(masked_chip_id=masked, chip_ids=["11" * 64]), hidden)) == {"chip_id"}


@pytest.mark.parametrize(("key", "rule"), [("chip_ids", "chip_id"), ("denied_chip_ids", "denied_chip_ids")])
def test_a_machine_without_any_identity_fails_a_list_of_identities(key: str, rule: str) -> None:
    hidden = scene(csp_id="CN=cloud.invalid", mask_chip_id=True)
    for listed in (scene().guest.chip.chip_id.hex(), "11" * 64, "00" * 64):
        assert failed(judged(document(**{key: [listed]}), hidden)) == {rule}
    shown = scene(csp_id="CN=cloud.invalid")
    chip_id = shown.guest.chip.chip_id.hex()
    assert judged(document(chip_ids=[chip_id]), shown).affirmed
    assert failed(judged(document(denied_chip_ids=[chip_id]), shown)) == {"denied_chip_ids"}
    assert judged(document(denied_chip_ids=["11" * 64]), shown).affirmed


@pytest.mark.parametrize("key", ["chip_ids", "denied_chip_ids"])
def test_a_chip_id_of_zeros_that_another_verifier_states_is_no_identity(key: str) -> None:
    wanted = f"policy.snp.{'chip_id' if key == 'chip_ids' else key}"
    policy = policy_of(document(**{key: ["00" * 64]}))
    (rule,) = [rule for rule in policy.rules["sev-snp"] if rule.id == wanted]
    assert not rule.holds(bytes(64), AT)


@pytest.mark.parametrize(("seconds", "good"), [(-1, False), (0, True), (1, True)])
def test_reference_values_count_until_their_last_moment_included(seconds: int, good: bool) -> None:
    policy = copy.deepcopy(STRICT)
    policy["reference_values"]["image"]["expires"] = (AT + timedelta(seconds=seconds)).isoformat()
    assert judged(policy).affirmed is good


def test_one_measurement_of_several_reference_values_suffices() -> None:
    policy = copy.deepcopy(STRICT)
    policy["reference_values"]["older"] = {"values": ["00" * 48, "11" * 48], "origin": "x"}
    policy["snp"]["measurement"] = ["older", "image"]
    assert judged(policy).affirmed
    policy["snp"]["measurement"] = ["older"]
    assert failed(judged(policy)) == {"measurement"}


def test_a_relaxed_demand_is_not_evaluated_and_shows_its_reason() -> None:
    result = judged(document(measurement={"unchecked": "early days"}), measurement=bytes(48))
    assert result.affirmed
    (check,) = [check for check in result.policy_checks if check.id == "policy.snp.measurement"]
    assert check.outcome is Outcome.NOT_EVALUATED
    assert check.expected == "unchecked: early days"
    assert check.got == bytes(48).hex()
    assert result.trustworthiness["executables"] is Tier.NONE


def test_a_relaxed_rule_could_never_hold() -> None:
    """Should its relaxation ever be overlooked, it refuses."""
    policy = policy_of(document(measurement={"unchecked": "early days"}))
    (rule,) = [rule for rule in policy.rules["sev-snp"] if rule.id == "policy.snp.measurement"]
    assert replace(rule, relaxed=None).judge(VERIFIED.items[0].verified, at=AT, item="cpu").outcome is Outcome.FAIL


def test_simulated_evidence_is_refused_unless_the_policy_says_why_not() -> None:
    policy = copy.deepcopy(STRICT)
    del policy["simulated"]
    assert failed(judged(policy)) == {"policy.not_simulated"}
    policy["simulated"] = "refuse"
    assert failed(judged(policy)) == {"policy.not_simulated"}


def test_evidence_that_answers_no_question_is_not_affirmed() -> None:
    honest = scene()
    stale = verified_of(honest, expected=None)
    result = appraise(stale, policy=policy_of(STRICT), at=AT)
    assert failed(result) == {"freshness"}
    assert [check.id for check in result.checks].count("freshness") == 1
    relaxed = appraise(stale, policy=policy_of({**STRICT, "unchecked": {"freshness": "recorded"}}), at=AT)
    assert relaxed.affirmed
    assert relaxed.unchecked == (Unchecked(check="freshness", reason="recorded"),)


def test_the_callers_relaxations_are_carried_into_the_result() -> None:
    honest = scene()
    relaxation = (Unchecked(check="freshness", reason="recorded"),)
    stale = verify(
        report_evidence(honest.report),
        endorsements=honest.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=relaxation,
    )
    result = appraise(stale, policy=policy_of(STRICT), at=AT)
    assert result.affirmed
    assert result.unchecked == relaxation


def test_evidence_is_appraised_for_the_moment_for_which_it_was_verified() -> None:
    with pytest.raises(ValueError, match="cannot be appraised"):
        appraise(verified_of(scene()), policy=policy_of(STRICT), at=AT + timedelta(seconds=1))


def test_the_baseline_refuses_simulation_debug_and_migration_and_nothing_subtle() -> None:
    assert not Policy.baseline().production
    assert (Policy.baseline().name, Policy.baseline().version) == ("baseline", 1)
    for guest, wanted in (
        ({}, set[str]()),
        ({"policy": 0x30000 | 1 << 19}, {"guest_policy.debug"}),
        ({"policy": 0x30000 | 1 << 18}, {"guest_policy.migrate_ma"}),
        ({"vmpl": 3}, set[str]()),
    ):
        result = appraise(verified_of(scene(), guest), policy=Policy.baseline(), at=AT)
        assert failed(result) == {"policy.not_simulated", *wanted}


def test_a_publicly_broken_product_line_is_a_warning() -> None:
    honest = scene(SnpProduct.MILAN)
    milan = {"bootloader": 0, "tee": 0, "snp": 0, "microcode": 0}
    result = judged(document(products=["Milan"], minimum_tcb={"Milan": milan}), honest)
    assert result.affirmed
    assert result.status is Tier.WARNING
    assert result.trustworthiness["hardware"] is Tier.WARNING


def test_a_vlek_may_be_required_of_one_provider() -> None:
    honest = scene(csp_id="CN=cloud.invalid", mask_chip_id=True, product_name="Genoa")
    assert judged(document(csp_ids=["CN=cloud.invalid"], signing_key=["vlek"]), honest).affirmed
    assert failed(judged(document(csp_ids=["CN=other.invalid"]), honest)) == {"csp_id"}


# -- laws

TCB = st.builds(
    SnpTcbVersion,
    bootloader=st.integers(0, 255),
    tee=st.integers(0, 255),
    snp=st.integers(0, 255),
    microcode=st.integers(0, 255),
)


def outcome_of(minimum: SnpTcbVersion, tcb: SnpTcbVersion) -> Outcome:
    """How the rule of a minimum judges a TCB."""
    policy = policy_of(document(minimum_tcb={"Genoa": minimum.components()}))
    (rule,) = [rule for rule in policy.rules["sev-snp"] if rule.id == "policy.snp.minimum_tcb"]
    verified = HONEST.verify()._replace(reported_tcb=tcb)
    return rule.judge(verified, at=AT, item="cpu").outcome


HONEST = scene()
VERIFIED = verified_of(HONEST)


@given(TCB, TCB, TCB)
def test_a_higher_tcb_never_fails_a_minimum_that_a_lower_one_meets(
    minimum: SnpTcbVersion, low: SnpTcbVersion, more: SnpTcbVersion
) -> None:
    high = SnpTcbVersion(**{name: max(level, more.components()[name]) for name, level in low.components().items()})
    if outcome_of(minimum, low) is Outcome.PASS:
        assert outcome_of(minimum, high) is Outcome.PASS
    assert outcome_of(minimum, low) is (Outcome.PASS if low.covers(minimum) else Outcome.FAIL)


DEMANDS: list[tuple[str, Any]] = [
    ("guest_policy", {"smt": False}),
    ("host_data", ["01" * 32]),
    ("host_data", ["00" * 32]),
    ("minimum_guest_svn", 1),
    ("mitigations_now", 3),
    ("chip_ids", ["00" * 64]),
    ("signing_key", ["vcek"]),
]


@given(st.lists(st.sampled_from(DEMANDS), unique_by=lambda pair: pair[0]), st.sampled_from(DEMANDS))
def test_adding_a_demand_never_turns_a_failure_into_a_success(
    some: list[tuple[str, Any]], more: tuple[str, Any]
) -> None:
    before = appraise(VERIFIED, policy=policy_of(document(**dict(some))), at=AT)
    after = appraise(VERIFIED, policy=policy_of(document(**dict([*some, more]))), at=AT)
    if not before.affirmed and more[0] not in dict(some):
        assert not after.affirmed


def test_every_rule_has_its_own_id_and_names_its_clause() -> None:
    rules = policy_of(document(**dict(DEMANDS))).rules["sev-snp"]
    assert len({rule.id for rule in rules}) == len(rules)
    assert all(rule.claim.clause for rule in rules)


def test_the_reference_measurement_of_the_tests_is_the_simulated_guests() -> None:
    assert SimulatedGuest(chip=scene().guest.chip).measurement.hex() == MEASUREMENT


def test_a_kind_of_attester_that_the_policy_does_not_speak_of_is_refused() -> None:
    """must-check 22: an empty list matches nothing."""
    silent = replace(policy_of(STRICT), tree=AllBranch(path="", members=()))
    result = appraise(VERIFIED, policy=silent, at=AT)
    assert [check.id for check in result.failed] == ["policy.kind"]


def test_status_is_derived_from_the_checks() -> None:
    """must-check 16: no default 'ok'."""
    result = judged(STRICT)
    spoiled = replace(
        result,
        policy_checks=(*result.policy_checks, Check(id="x", outcome=Outcome.FAIL, expected="", got="", clause="")),
    )
    assert not spoiled.affirmed
    assert spoiled.status is Tier.CONTRAINDICATED
