"""Azure's release policies on the claims of a token: what holds, what does not, and what the trace says."""

import json
from typing import Any

import pytest
from hypothesis import given

from attest.policy.foreign.skr import AllOf, AnyOf, SkrAuthority, SkrPolicy, parse_skr
from attest.policy.foreign.skr_evaluation import ABSENT, evaluate_skr, resolve_claim
from tests.policy import skr_evaluator
from tests.policy.skr_documents import CLAIMS, CONDITIONS, Json, skr
from tests.policy.skr_documents import ISSUER as ISSUER_OF_CLAIMS

ISSUER = "https://maa.example"


def policy(*conditions: object, word: str = "allOf", authority: str = ISSUER) -> SkrPolicy:
    document = {"version": "1.0.0", "anyOf": [{"authority": authority, word: list(conditions)}]}
    return parse_skr(json.dumps(document).encode(), extended=True)


def holds(claims: dict[str, Any], *conditions: object, word: str = "allOf") -> bool:
    return evaluate_skr(policy(*conditions, word=word), claims, issuer=ISSUER).holds


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        ("x", "x", True),
        ("x", "X", False),
        ("true", True, True),
        ("false", True, False),
        (True, "true", True),
        (True, 1, False),
        ("0", 0, True),
        ("00", 0, False),
        (7, "7", True),
        (7, 7, True),
        (7, 7.0, False),
        ("01", "1", False),
        (1, [1], False),
        (1, {"a": 1}, False),
        (1, None, False),
        (2**53, 2**53, True),
    ],
)
def test_values_are_equal_by_the_table(wanted: object, found: object, *, equal: bool) -> None:
    assert holds({"c": found}, {"claim": "c", "equals": wanted}) is equal


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "expected"),
    [
        ("notEquals", "a", "b", True),
        ("notEquals", "a", "a", False),
        ("notEquals", 1, 1.5, False),
        ("notEquals", 1, 2**60, False),
        ("notEquals", True, False, True),
        ("less", 3, 2, True),
        ("less", 3, 3, False),
        ("lessOrEquals", 3, "3", True),
        ("lessOrEquals", 3, 4, False),
        ("greater", "3", 4, True),
        ("greater", 3, 3, False),
        ("greaterOrEquals", 3, 3, True),
        ("greaterOrEquals", 3, "x", False),
        ("greaterOrEquals", "x", 3, False),
        ("exists", True, "anything", True),
        ("exists", "false", "anything", False),
    ],
)
def test_the_other_operators_compare_integers_and_presence(
    operator: str, wanted: object, found: object, *, expected: bool
) -> None:
    assert holds({"c": found}, {"claim": "c", operator: wanted}) is expected


@pytest.mark.parametrize("operator", ["equals", "notEquals", "less", "greater"])
@pytest.mark.parametrize("claims", [{}, {"c": None}, {"c": []}, {"c": {}}])
def test_a_claim_without_a_scalar_holds_for_no_comparison(operator: str, claims: dict[str, Any]) -> None:
    assert not holds(claims, {"claim": "c", operator: 1})
    assert not holds(claims, {"claim": "c", "exists": True})


def test_a_claim_is_absent_only_where_the_token_has_no_such_member() -> None:
    absent = {"claim": "x-ms-policy-signer", "exists": False}
    assert holds({}, absent)
    for stated in ({"kty": "RSA"}, ["RSA"], None, "RSA"):
        assert not holds({"x-ms-policy-signer": stated}, absent), stated


@given(CONDITIONS, CLAIMS)
def test_any_policy_holds_for_the_claims_for_which_the_reference_evaluator_holds(condition: Json, claims: Json) -> None:
    written = parse_skr(skr(condition), extended=True)
    expected = skr_evaluator.evaluate_skr(written, claims).holds
    assert evaluate_skr(written, claims, issuer=ISSUER_OF_CLAIMS).holds is expected


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", 1),
        ("a.c.d", 2),
        ("x.y", 3),
        ("a.x.y", 4),
        ("a.missing", ABSENT),
        ("missing.b", ABSENT),
        ("a.b.c", ABSENT),
        ("x", {"y": 6}),
    ],
)
def test_a_path_walks_objects_and_a_name_with_dots_wins(path: str, found: object) -> None:
    claims: dict[str, Any] = {"a": {"b": 1, "c.d": 2, "x.y": 4, "x": {"y": 5}}, "x.y": 3, "x": {"y": 6}}
    assert resolve_claim(claims, path) == found


def test_lists_hold_for_all_or_for_any_and_never_when_empty() -> None:
    one, two = {"claim": "a", "equals": "1"}, {"claim": "b", "equals": "2"}
    assert not holds({"a": "1"}, one, two)
    assert holds({"a": "1"}, one, two, word="anyOf")
    assert holds({"a": "1", "b": "2"}, {"allOf": [one, two]})
    assert not holds({}, one, two, word="anyOf")
    for empty in (AllOf(conditions=()), AnyOf(conditions=())):
        made = SkrPolicy(authorities=(SkrAuthority(url=ISSUER, conditions=empty),))
        assert not evaluate_skr(made, {}, issuer=ISSUER).holds


def test_only_the_conditions_of_the_tokens_issuer_count() -> None:
    written = policy({"claim": "a", "equals": "1"}, authority="https://MAA.example:443/")
    assert evaluate_skr(written, {"a": "1"}, issuer="https://maa.example").holds
    for other in ("https://maa.example.evil", "https://maa.example/x", "maa.example", "http://maa.example", ""):
        outcome = evaluate_skr(written, {"a": "1"}, issuer=other)
        assert not outcome.holds
        assert outcome.reason.startswith("anyOf[0]: expected a token of https://maa.example, found")


def test_one_of_several_authorities_is_enough() -> None:
    document = {
        "version": "1.0.0",
        "anyOf": [
            {"authority": "https://other.example", "allOf": [{"claim": "a", "equals": "1"}]},
            {"authority": ISSUER, "allOf": [{"claim": "a", "equals": "2"}]},
            {"authority": ISSUER, "anyOf": [{"claim": "a", "equals": "1"}]},
            {"authority": ISSUER, "anyOf": [{"claim": "a", "equals": "3"}]},
        ],
    }
    outcome = evaluate_skr(parse_skr(json.dumps(document).encode()), {"a": "1"}, issuer=ISSUER)
    assert outcome.holds
    assert outcome.reason == ""


def test_the_trace_names_each_condition_with_what_was_expected_and_found() -> None:
    outcome = evaluate_skr(
        policy({"claim": "a.b", "equals": "x"}, {"anyOf": [{"claim": "c", "equals": True}]}),
        {"a": {"b": "y"}, "c": False},
        issuer=ISSUER,
    )
    assert [(one.path, one.holds, one.expected, one.found) for one in outcome.steps] == [
        ("anyOf[0].allOf[0]", False, "a.b equals 'x'", "'y'"),
        ("anyOf[0].allOf[1].anyOf[0]", False, "c equals True", "False"),
        ("anyOf[0].allOf[1].anyOf", False, "one of the conditions", "0 of 1"),
        ("anyOf[0].allOf", False, "every condition", "0 of 2"),
    ]
    assert outcome.reason == "anyOf[0].allOf[0]: expected a.b equals 'x', found 'y'"
