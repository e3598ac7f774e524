"""Whose tokens a policy takes, and what a rule reads from what another Verifier states."""

from datetime import timedelta
from typing import Any

import pytest

from attest.checks import Outcome
from attest.errors import ConfigurationError, InvalidValueError
from attest.evidence.azure.claims import azure_claim
from attest.evidence.claims import Claim, ClaimType, Origin, StatedClaims
from attest.policy.authoring.explanation import explanation_document, explanation_text
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.model import decode_policy
from attest.policy.verifiers import LONGEST_AGE, verifier_checks
from tests.policy.documents import policy_of
from tests.policy.mixed import gpu, policy_with, snp
from tests.samples import AT

ISSUER = "https://verifier.invalid"


def document(*verifiers: dict[str, Any]) -> dict[str, Any]:
    return policy_with(snp=snp(), verifiers=[*verifiers])


def judged(*verifiers: dict[str, Any], age: int | None = 0, **token: Any) -> dict[str, Outcome]:  # noqa: ANN401
    checks = verifier_checks(
        policy_of(document(*verifiers) if verifiers else policy_with(snp=snp())).verifiers,
        issuer=token.get("issuer", ISSUER),
        issued=None if age is None else AT - timedelta(seconds=age),
        policy_ids=token.get("policy_ids", ()),
        at=AT,
    )
    return {check.id.removeprefix("policy."): check.outcome for check in checks}


def test_a_policy_without_verifiers_takes_no_token() -> None:
    assert judged() == {"verifier": Outcome.FAIL}


def test_a_token_of_another_issuer_is_refused() -> None:
    assert judged({"issuer": ISSUER}, issuer="https://other.invalid") == {"verifier": Outcome.FAIL}


def test_what_a_token_says_is_told_in_a_few_words() -> None:
    policy = policy_of(document({"issuer": ISSUER, "policy_ids": ["a"], "statements": {"s": ["x"]}}))
    checks = verifier_checks(
        policy.verifiers,
        issuer=ISSUER,
        issued=AT,
        policy_ids=("p" * 1024,) * 256,
        at=AT,
        statements=[{"s": ("s" * 1024,) * 256}],
    )
    assert max(len(check.got) for check in checks) == 200


@pytest.mark.parametrize(("age", "outcome"), [(0, "pass"), (300, "pass"), (301, "fail"), (None, "fail")])
def test_a_token_has_an_age(age: int | None, outcome: str) -> None:
    assert judged({"issuer": ISSUER}, age=age) == {"verifier": Outcome.PASS, "verifier.age": Outcome(outcome)}


def test_the_verifiers_own_policy_can_be_demanded() -> None:
    asked = {"issuer": ISSUER, "policy_ids": ["a", "b"]}
    assert judged(asked, policy_ids=("c", "b"))["verifier.policy_ids"] is Outcome.PASS
    assert judged(asked, policy_ids=("c",))["verifier.policy_ids"] is Outcome.FAIL
    assert judged(asked)["verifier.policy_ids"] is Outcome.FAIL
    relaxed = {"issuer": ISSUER, "policy_ids": {"unchecked": "a test"}}
    assert judged(relaxed)["verifier.policy_ids"] is Outcome.NOT_EVALUATED


@pytest.mark.parametrize(
    ("verifiers", "path"),
    [
        ([], "verifiers"),
        ([{}], "verifiers[0].issuer"),
        ([{"issuer": ISSUER}, {"issuer": ISSUER}], "verifiers[1].issuer"),
        ([{"issuer": ISSUER, "maximum_age": 0}], "verifiers[0].maximum_age"),
        ([{"issuer": ISSUER, "maximum_age": LONGEST_AGE + 1}], "verifiers[0].maximum_age"),
        ([{"issuer": ISSUER, "policy_ids": []}], "verifiers[0].policy_ids"),
        ([{"issuer": ISSUER, "keys": "x"}], "verifiers[0].keys"),
    ],
)
def test_what_cannot_be_meant_does_not_load(verifiers: list[dict[str, Any]], path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        decode_policy(document(*verifiers))
    assert refused.value.field == path


def test_differences_between_verifiers_are_told() -> None:
    plain, none = document({"issuer": ISSUER}), policy_with(snp=snp())
    longer = document({"issuer": ISSUER, "maximum_age": 600})
    named = document({"issuer": ISSUER, "policy_ids": ["a"]})
    for old, new, effect in (
        (none, plain, "looser"),
        (plain, none, "stricter"),
        (plain, longer, "looser"),
        (longer, plain, "stricter"),
        (plain, named, "stricter"),
        (plain, plain, None),
    ):
        assert diff_policies(decode_policy(old), decode_policy(new)).effect == effect


def test_an_explanation_says_whose_tokens_are_taken() -> None:
    policy = policy_of(
        document(
            {"issuer": ISSUER},
            {"issuer": "b", "policy_ids": ["p", "q"]},
            {"issuer": "c", "policy_ids": {"unchecked": "a test"}},
        )
    )
    text = explanation_text(policy, {})
    assert f"tokens of {ISSUER} in place of evidence, at most 300 seconds old." in text
    assert "that name a policy of p, q." in text
    assert "UNCHECKED: the policy that this Verifier applies: a test" in text
    assert len(explanation_document(policy, {})["verifiers"]) == 3  # type: ignore[arg-type]  # a list
    assert "verifiers" not in explanation_document(policy_of(policy_with(snp=snp())), {})


# -- reading stated claims


def rule(rule_id: str, **sections: object) -> Any:  # noqa: ANN401
    policy = policy_of(policy_with(**sections))
    return next(placed.rule for placed in policy.all_rules() if placed.rule.id == rule_id)


def outcome(rule_id: str, values: dict[str, Any], **sections: object) -> Outcome:
    found: Outcome = rule(rule_id, **sections).judge(StatedClaims(values=values), at=AT, item="cpu").outcome
    return found


def test_a_stated_claim_is_read_by_its_name_and_type() -> None:
    rule_id = "policy.snp.guest_policy.debug"
    assert outcome(rule_id, {"policy.debug": False}, snp=snp()) is Outcome.PASS
    for values in ({"policy.debug": True}, {}, {"policy.debug": 0}, {"policy.debug": "false"}, {"debug": False}):
        assert outcome(rule_id, values, snp=snp()) is Outcome.FAIL


def test_must_check_41_true_is_no_number_and_an_object_is_read_by_nobody_by_name() -> None:
    for kind in ClaimType:
        claim = Claim(name="x", type=kind, origin=Origin.HOST, clause="a test", get=lambda _: None)
        values: tuple[Any, ...] = (True, 1, "a", b"a", ("a",), {"a": 1})
        read = [value for value in values if claim.read(StatedClaims(values={"x": value})) is not None]
        assert len(read) == (0 if kind in (ClaimType.TCB, ClaimType.OBJECT) else 1)


GENOA = {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ({"reported_tcb": GENOA, "product": "Genoa"}, True),
        ({"reported_tcb": GENOA}, True),
        ({"reported_tcb": GENOA | {"snp": 26}}, False),
        ({"reported_tcb": GENOA, "product": "Turin"}, False),
        ({"reported_tcb": GENOA, "product": "Rome"}, False),
        ({"reported_tcb": GENOA | {"fmc": 1}}, False),
        ({"reported_tcb": {"bootloader": 10}}, False),
        ({"reported_tcb": GENOA | {"spl": 1}}, False),
        ({"reported_tcb": GENOA | {"snp": "27"}}, False),
        ({"reported_tcb": 7}, False),
        ({}, False),
    ],
)
def test_a_stated_tcb_is_compared_with_every_minimum_unless_the_product_is_stated(
    values: dict[str, Any], holds: bool
) -> None:
    expected = Outcome.PASS if holds else Outcome.FAIL
    assert outcome("policy.snp.minimum_tcb", values, snp=snp()) is expected
    both = snp(minimum_tcb={"Genoa": GENOA, "Milan": {**GENOA, "microcode": 200}})
    if "product" not in values:
        assert outcome("policy.snp.minimum_tcb", values, snp=both) is Outcome.FAIL


def test_the_report_within_an_azure_vms_claims_is_read_under_its_prefix() -> None:
    claim = azure_claim("snp.measurement")
    assert claim.read(StatedClaims(values={"snp.measurement": b"m", "measurement": b"n"})) == b"m"
    assert claim.read(StatedClaims(values={"measurement": b"n"})) is None


RIMS = {
    **dict.fromkeys(("driver_rim.expires", "vbios_rim.expires"), "2027"),
    **dict.fromkeys(("driver_rim.revocation", "vbios_rim.revocation"), "good"),
    "measurements.mismatches": (),
}


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"measurements.mismatches": ({"index": 7},)}, False),
        ({"measurements.mismatches": None}, False),
        ({"vbios_rim.expires": None}, False),
        ({"driver_rim.revocation": "certificateHold"}, False),
        ({"driver_rim.revocation": None}, False),
    ],
)
def test_nvidias_word_on_the_measurements_of_a_gpu_is_read(changes: dict[str, Any], holds: bool) -> None:
    values = {name: value for name, value in (RIMS | changes).items() if value is not None}
    expected = Outcome.PASS if holds else Outcome.FAIL
    assert outcome("policy.gpu.rim", values, snp=snp(), gpu=gpu()) is expected


def test_a_stated_tcb_is_compared_with_exact_ones_of_every_line_unless_the_product_is_stated() -> None:
    exactly = snp() | {"exact_tcb": {"Genoa": [GENOA]}}
    both = snp() | {"exact_tcb": {"Genoa": [GENOA], "Milan": [{**GENOA, "microcode": 200}]}}
    for section, values, expected in (
        (exactly, {"reported_tcb": GENOA}, Outcome.PASS),
        (exactly, {"reported_tcb": GENOA | {"snp": 28}}, Outcome.FAIL),
        (both, {"reported_tcb": GENOA}, Outcome.FAIL),
        (both, {"reported_tcb": GENOA, "product": "Genoa"}, Outcome.PASS),
    ):
        assert outcome("policy.snp.exact_tcb", values, snp=section) is expected


@pytest.mark.parametrize(
    ("stated", "holds"),
    [
        ([{"image": "sha256:a", "boot": True}], True),
        ([{"image": "sha256:a", "boot": True}, {"cc": "ON"}], True),
        ([{"image": "sha256:a", "boot": True}, {"image": "sha256:b"}], False),
        ([{"image": ("sha256:c", "sha256:a"), "boot": True}], True),
        ([{"image": b"\xab", "boot": True}], True),
        ([{"image": "sha256:a", "boot": 1}], False),
        ([{"image": "sha256:a", "boot": False}], False),
        ([{"image": "sha256:a"}], False),
        ([], False),
    ],
)
def test_what_a_verifier_has_to_say_beyond_a_report(stated: list[dict[str, Any]], holds: bool) -> None:
    policy = policy_of(document({"issuer": ISSUER, "statements": {"image": ["sha256:a", "ab"], "boot": [True]}}))
    checks = verifier_checks(policy.verifiers, issuer=ISSUER, issued=AT, policy_ids=(), at=AT, statements=stated)
    assert all(check.outcome is Outcome.PASS for check in checks) is holds
    assert {check.id for check in checks} >= {"policy.verifier.statements.image", "policy.verifier.statements.boot"}


@pytest.mark.parametrize("number", [-1, 2**53, 10**30])
def test_a_number_that_no_digest_covers_is_refused_and_raises_nothing_else(number: int) -> None:
    assert policy_of(document({"issuer": ISSUER, "statements": {"n": [2**53 - 1, 0]}})).verifiers
    with pytest.raises(ConfigurationError) as refused:
        policy_of(document({"issuer": ISSUER, "statements": {"n": [number]}}))
    assert (refused.value.code, refused.value.field) == ("policy-invalid", "verifiers[0].statements.n[0]")


def test_statements_are_told_and_compared() -> None:
    old = document({"issuer": ISSUER, "statements": {"n": [1, True]}})
    assert "The token must state n to be one of 1, true." in explanation_text(policy_of(old), {})
    for statements, effect in (
        ({"n": [1]}, "stricter"),
        ({"n": [1, True], "m": ["x"]}, "stricter"),
        ({"n": [1, True, 2]}, "looser"),
    ):
        new = document({"issuer": ISSUER, "statements": statements})
        assert diff_policies(decode_policy(old), decode_policy(new)).effect == effect
    more = document({"issuer": ISSUER, "statements": {"n": [1, True], "m": ["x"]}})
    assert diff_policies(decode_policy(more), decode_policy(old)).effect == "looser"
    bad: dict[str, Any]
    for bad in ({}, {"n": []}, {"n": [None]}, {"n": [[]]}, {"n": [""]}):
        with pytest.raises(InvalidValueError):
            decode_policy(document({"issuer": ISSUER, "statements": bad}))
