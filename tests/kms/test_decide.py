"""The decision: everything that must hold, each missing once, and no way to mistake a no for a yes."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from attest import (
    AttestationResult,
    Binding,
    ExpectedBinding,
    Policy,
    TrustAnchors,
    Unchecked,
    appraise,
    load_policy,
    verify,
)
from attest.evidence.tolerances import (
    NO_DEVICE_TOLERANCES,
    AcceptedValue,
    DeviceTolerances,
    GpuTolerances,
    WaivedMeasurement,
)
from attest.release import KeyName
from attest.verification import Freshness
from kms.domain.decide import (
    DenialReason,
    FloorState,
    KeyState,
    ReferenceState,
    ReleaseDecision,
    ReleaseObstacle,
    ReleaseOutcome,
    ReleaseTerms,
    decide,
)
from kms.domain.wires import Wire
from tests.kms.support import AT, CHIP, Workload, policy_text

BINDING = Binding(context="kms-release/v1", role="workload", audience="kms", nonce=b"n" * 32, key=b"recipient")
DEMAND = ReleaseTerms(
    context="kms-release/v1",
    role="workload",
    audience="kms",
    nonce=b"n" * 32,
    purposes=frozenset({"model-key"}),
    allow_simulated=True,
)
POLICY = load_policy(policy_text())


def result_of(
    workload: Workload | None = None, *, binding: Binding = BINDING, policy: Policy = POLICY
) -> AttestationResult:
    verified = verify(
        (workload or Workload()).attest(binding),
        endorsements=CHIP.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedBinding(
            context=binding.context, role=binding.role, audience=binding.audience, nonce=binding.nonce
        ),
    )
    return appraise(verified, policy=policy, at=AT)


RESULT = result_of()


def state(key_id: str = "a", **changes: object) -> KeyState:
    made = KeyState(
        asked=key_id,
        name=KeyName.parse(key_id),
        version=1,
        purpose="model-key",
        policy_digest=POLICY.digest,
        enabled=True,
        reference_digest=POLICY.reference_digest,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def decided(
    *requested: str,
    keys: dict[str, KeyState] | None = None,
    results: dict[str, AttestationResult] | None = None,
    demand: ReleaseTerms = DEMAND,
) -> ReleaseDecision:
    return decide(
        requested=requested or ("a",),
        keys={"a": state()} if keys is None else keys,
        results={"a": RESULT} if results is None else results,
        demand=demand,
        at=AT,
    )


def codes(decision: ReleaseDecision) -> list[str]:
    assert decision.outcome is ReleaseOutcome.DENY
    assert decision.recipient is None
    return [reason.code for reason in decision.reasons]


def test_whatever_else_stands_against_it_is_a_reason() -> None:
    against = DenialReason(code="lease-stopped", key_id="a", text="x")
    decision = decide(
        requested=("a",), keys={"a": state()}, results={"a": RESULT}, demand=DEMAND, at=AT, objections=(against,)
    )
    assert codes(decision) == ["lease-stopped"]
    assert decision.reasons == (against,)


def test_what_conforms_is_released_to_the_key_of_the_evidence() -> None:
    decision = decided()
    assert decision.outcome is ReleaseOutcome.ALLOW
    assert decision.recipient == b"recipient"
    assert decision.keys == (state(),)
    assert decision.reasons == ()
    assert decision.at == AT


def test_a_decision_is_no_condition() -> None:
    with pytest.raises(TypeError):
        bool(decided())


def test_a_decision_without_a_recipient_is_a_no_even_without_a_reason() -> None:
    assert replace(decided(), recipient=None).outcome is ReleaseOutcome.DENY
    reason = DenialReason(code="x", key_id=None, text="x")
    assert replace(decided(), reasons=(reason,)).outcome is ReleaseOutcome.DENY


def test_a_moment_without_a_time_zone_is_wrong_use() -> None:
    with pytest.raises(ValueError, match="time zone"):
        decide(requested=("a",), keys={}, results={}, demand=DEMAND, at=AT.replace(tzinfo=None))


def test_mc_22_nothing_asked_for_is_nothing_released() -> None:
    decision = decide(requested=(), keys={"a": state()}, results={"a": RESULT}, demand=DEMAND, at=AT)
    assert codes(decision) == ["nothing-requested"]


def test_a_key_asked_for_twice_is_refused() -> None:
    assert codes(decided("a", "a")) == ["key-repeated"]


def test_an_unknown_key_is_refused() -> None:
    assert codes(decided(keys={}, results={})) == ["key-unknown"]


def test_one_unknown_key_refuses_all() -> None:
    decision = decided("a", "b")
    assert codes(decision) == ["key-unknown"]
    assert decision.keys == (state(),)


def test_a_key_that_is_disabled_is_refused() -> None:
    assert codes(decided(keys={"a": state(enabled=False)})) == ["key-disabled"]


def test_a_key_for_another_purpose_is_refused() -> None:
    assert codes(decided(keys={"a": state(purpose="prompt-key")})) == ["purpose-mismatch"]


@pytest.mark.parametrize("via", Wire)
@pytest.mark.parametrize("allowed", [{Wire.NATIVE}, {Wire.KBS}, set(Wire)])
def test_a_key_is_released_through_its_own_protocols_alone(via: Wire, allowed: set[Wire]) -> None:
    decision = decided(keys={"a": state(via=frozenset(allowed))}, demand=replace(DEMAND, via=via))
    if via in allowed:
        assert decision.outcome is ReleaseOutcome.ALLOW
        return
    assert codes(decision) == ["via-not-allowed"]
    assert decision.reasons[0].text == f"the key 'a' is released via {min(allowed)}, not via {via}"


def test_a_state_of_another_key_is_refused() -> None:
    assert codes(decided(keys={"a": state("b")})) == ["key-mismatch"]
    assert codes(decided(keys={"a": state(asked="b")})) == ["key-mismatch"]
    assert codes(decided(keys={"a": state(name=KeyName.parse("b"))})) == ["key-mismatch"]


def test_mc_22_without_a_result_nothing_is_released() -> None:
    assert codes(decided(results={})) == ["not-appraised"]


def test_a_result_of_another_policy_is_refused() -> None:
    assert codes(decided(keys={"a": state(policy_digest=bytes(32))})) == ["policy-mismatch"]


def test_the_built_in_policy_guards_no_key() -> None:
    result = replace(RESULT, policy=replace(POLICY, production=False))
    assert codes(decided(results={"a": result})) == ["policy-not-production"]


@pytest.mark.parametrize("off", [timedelta(microseconds=1), -timedelta(microseconds=1)])
def test_mc_19_a_result_of_another_moment_is_refused(off: timedelta) -> None:
    assert codes(decided(results={"a": replace(RESULT, at=AT + off)})) == ["result-not-current"]
    verified = RESULT.verified._replace(at=AT + off)
    assert codes(decided(results={"a": replace(RESULT, verified=verified)})) == ["result-not-current"]


def test_mc_42_what_the_policy_does_not_relax_must_have_been_checked() -> None:
    relaxed = RESULT.verified._replace(unchecked=(Unchecked(check="revocation", reason="somebody said so"),))
    assert codes(decided(results={"a": replace(RESULT, verified=relaxed)})) == ["relaxed-beyond-policy"]
    policy = replace(POLICY, unchecked=relaxed.unchecked)
    allowed = replace(RESULT, verified=relaxed, policy=policy)
    assert decided(results={"a": allowed}).outcome is ReleaseOutcome.ALLOW


WAIVED = GpuTolerances(waived_measurements=(WaivedMeasurement(index=7, reason="somebody said so"),))
HELD = GpuTolerances(held_rim_signers="somebody said so")
NAMED = GpuTolerances(accepted_opaque=(AcceptedValue(value="36:0300", reason="somebody said so"),))


def granting(tolerances: dict[str, Any]) -> Policy:
    return replace(POLICY, **tolerances)


@pytest.mark.parametrize(
    ("given", "shown"), [(WAIVED, "measurement 7"), (HELD, "RIM signers on hold"), (NAMED, "value 36:0300")]
)
@pytest.mark.parametrize(("kind", "granted"), [("gpus", "gpu_tolerances"), ("switches", "switch_tolerances")])
def test_mc_42_a_tolerance_for_devices_must_be_granted_for_that_kind_of_device(
    given: GpuTolerances, shown: str, kind: str, granted: str
) -> None:
    one_kind = DeviceTolerances(gpus=given) if kind == "gpus" else DeviceTolerances(switches=given)
    verified = RESULT.verified._replace(tolerances=one_kind)
    result = replace(RESULT, verified=verified)
    refused = decided(results={"a": result})
    assert codes(refused) == ["relaxed-beyond-policy"]
    assert f"{'GPU' if kind == 'gpus' else 'switch'} {shown}" in refused.reasons[0].text
    (other,) = {"gpu_tolerances", "switch_tolerances"} - {granted}
    elsewhere = replace(result, policy=granting({other: given}))
    assert codes(decided(results={"a": elsewhere})) == ["relaxed-beyond-policy"]
    allowed = replace(result, policy=granting({granted: given}))
    assert decided(results={"a": allowed}).outcome is ReleaseOutcome.ALLOW


def test_mc_42_a_level_without_a_known_meaning_must_be_named_by_the_policy() -> None:
    spls = (AcceptedValue(value="spl4:3", reason="somebody said so"),)
    result = replace(RESULT, verified=RESULT.verified._replace(tolerances=replace(NO_DEVICE_TOLERANCES, spls=spls)))
    refused = decided(results={"a": result})
    assert codes(refused) == ["relaxed-beyond-policy"]
    assert "level spl4:3" in refused.reasons[0].text
    other = (AcceptedValue(value="spl4:4", reason="x"),)
    assert codes(decided(results={"a": replace(result, policy=granting({"accepted_spls": other}))})) == codes(refused)
    allowed = replace(result, policy=granting({"accepted_spls": spls}))
    assert decided(results={"a": allowed}).outcome is ReleaseOutcome.ALLOW


@pytest.mark.parametrize("freshness", [Freshness.NOT_EVALUATED, Freshness.MISMATCHED])
def test_mc_1_evidence_that_answers_no_challenge_is_refused(freshness: Freshness) -> None:
    verified = RESULT.verified._replace(freshness=freshness)
    assert codes(decided(results={"a": replace(RESULT, verified=verified)})) == ["not-fresh"]


@pytest.mark.parametrize(
    "demand",
    [
        replace(DEMAND, context="channel/v1"),
        replace(DEMAND, role="service"),
        replace(DEMAND, audience="another"),
        replace(DEMAND, nonce=b"o" * 32),
    ],
)
def test_mc_2_evidence_bound_to_something_else_is_refused(demand: ReleaseTerms) -> None:
    assert codes(decided(demand=demand)) == ["not-bound"]


def test_evidence_without_a_binding_is_refused() -> None:
    verified = RESULT.verified._replace(binding=None)
    assert codes(decided(results={"a": replace(RESULT, verified=verified)})) == ["not-bound"]


def test_mc_17_simulated_evidence_is_refused_unless_it_is_allowed() -> None:
    assert codes(decided(demand=replace(DEMAND, allow_simulated=False))) == ["simulated"]


def test_a_policy_that_is_not_met_is_refused_with_its_failed_checks() -> None:
    result = result_of(Workload().with_measurement(b"\x01" * 48))
    decision = decided(results={"a": result})
    assert codes(decision) == ["policy-not-met"]
    assert decision.reasons[0].checks == result.failed
    assert [check.id for check in decision.reasons[0].checks] == ["policy.snp.measurement"]


def test_every_reason_is_named() -> None:
    decision = decided(
        "a", "b", "a", keys={"a": state(enabled=False, purpose="x", policy_digest=bytes(32))}, results={"a": RESULT}
    )
    assert codes(decision) == ["key-repeated", "key-disabled", "purpose-mismatch", "policy-mismatch", "key-unknown"]


def test_two_keys_are_released_on_one_evidence() -> None:
    keys = {"a": state("a"), "b": state("b", version=7)}
    decision = decided("b", "a", keys=keys, results={"a": RESULT, "b": RESULT})
    assert decision.outcome is ReleaseOutcome.ALLOW
    assert [str(key.name) for key in decision.keys] == ["b", "a"]


def test_results_about_different_evidence_are_refused() -> None:
    other = result_of(binding=replace(BINDING, key=b"another recipient"))
    keys = {"a": state("a"), "b": state("b")}
    assert codes(decided("a", "b", keys=keys, results={"a": RESULT, "b": other})) == ["results-differ"]


def test_a_result_under_other_reference_values_is_refused() -> None:
    for digest in (bytes(32), None):
        assert codes(decided(keys={"a": state(reference_digest=digest)})) == ["references-mismatch"]


def test_a_policy_that_its_documents_leave_without_values_releases_nothing() -> None:
    blocked = state(
        obstacles=(ReleaseObstacle(code="references-unusable", text="every value is revoked"),), reference_digest=None
    )
    decision = decided(keys={"a": blocked}, results={})
    assert codes(decision) == ["references-unusable", "not-appraised"]
    assert "every value is revoked" in decision.reasons[0].text


def test_every_obstacle_of_a_key_is_a_reason_against() -> None:
    obstacles = (ReleaseObstacle(code="key-frozen", text="x"), ReleaseObstacle(code="budget-spent", text="y"))
    assert codes(decided(keys={"a": state(obstacles=obstacles)})) == ["key-frozen", "budget-spent"]


def test_a_decision_tells_the_documents_that_were_in_force() -> None:
    told = ReferenceState(name="images", version=2, digest=bytes(32))
    assert decided(keys={"a": state(references=(told,))}).keys[0].references == (told,)


def test_evidence_of_a_frozen_product_opens_no_key_and_other_evidence_does() -> None:
    frozen = decided(keys={"a": state(frozen_products=frozenset({"genoa", "turin"}))})
    assert codes(frozen) == ["product-frozen"]
    assert "no key is released on evidence of genoa" in frozen.reasons[0].text
    assert decided(keys={"a": state(frozen_products=frozenset({"milan", "tdx"}))}).outcome is ReleaseOutcome.ALLOW


def test_a_key_whose_floor_was_not_appraised_is_not_released() -> None:
    floor = FloorState(scope="*", name="floor of the service", version=1, digest=bytes(32), because=("an advisory",))

    def reasons(**floors: object) -> set[str]:
        made = decide(
            requested=("a",),
            keys={"a": state(floors=(floor,))},
            results={"a": RESULT},
            demand=DEMAND,
            at=RESULT.at,
            **floors,  # type: ignore[arg-type]  # results by digest
        )
        return {one.code for one in made.reasons}

    assert reasons() == {"below-floor"}
    assert reasons(floors={bytes(32): RESULT}) == {"below-floor"}, "a result of another policy"
    right = replace(RESULT, policy=replace(RESULT.policy, digest=bytes(32)))
    assert reasons(floors={bytes(32): right}) == set()
    assert reasons(floors={bytes(32): replace(right, at=RESULT.at + timedelta(1))}) == {"below-floor"}
    other = replace(right, verified=result_of(binding=replace(BINDING, key=b"another recipient")).verified)
    assert reasons(floors={bytes(32): other}) == {"results-differ"}, "a floor is judged by the same evidence"
