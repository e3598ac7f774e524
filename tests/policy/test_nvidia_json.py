"""The policies of NVIDIA's Python tools (specs/nvidia-gpu.md, 19), over their claims and over ours."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.evidence.gpu.nvidia_claims import CLAIMS_VERSION, nvidia_claims
from attest.policy.foreign.nvidia_json import (
    MAX_LEAVES,
    MAX_NVIDIA_BYTES,
    parse_nvidia,
)
from tests.policy.gpu_documents import HOPPER, SWITCH, verified, without_rims
from tests.policy.nvidia_documents import Json, gpu_claims, nvidia, switch_claims
from tests.policy.nvidia_evaluator import NvidiaDecision, evaluate_nvidia


def judge(
    detached: Json, *, devices: dict[str, Any], overall: Json | None = None, listed: Json | None = None
) -> NvidiaDecision:
    policy = parse_nvidia(nvidia(detached, listed or {}))
    return evaluate_nvidia(policy, devices=devices, overall=overall, claims_version=policy.claims_version)


def holds(detached: Json, *claims: Any) -> bool:  # noqa: ANN401  any JSON
    return judge(detached, devices={f"GPU-{number}": one for number, one in enumerate(claims)}).holds


# -- reading

GOOD = json.loads(nvidia())
RULES = GOOD["authorization-rules"]


def with_rules(**changes: object) -> Json:
    rules = {**RULES, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return {**GOOD, "authorization-rules": {name: value for name, value in rules.items() if value is not None}}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "document"),
        ({**GOOD, "version": "2.0"}, "version"),
        ({**GOOD, "version": 4.0}, "version"),
        ({"authorization-rules": RULES}, "version"),
        ({"version": "4.0"}, "authorization-rules"),
        ({**GOOD, "authorization-rules": []}, "authorization-rules"),
        ({**GOOD, "rules": {}}, "rules"),
        (with_rules(type="CWT"), "authorization-rules.type"),
        (with_rules(type=None), "authorization-rules.type"),
        (with_rules(overall_claims=None), "authorization-rules.overall-claims"),
        (with_rules(overall_claims=[]), "authorization-rules.overall-claims"),
        (with_rules(detached_claims=None), "authorization-rules.detached-claims"),
        (with_rules(detached_claims={}), "authorization-rules.detached-claims"),
        (with_rules(detached_claims={"a": {}}), "authorization-rules.detached-claims.a"),
        (with_rules(detached_claims={"a": {"b": []}}), "authorization-rules.detached-claims.a.b"),
        (with_rules(detached_claims={"a": [{"b": 1.5}]}), "authorization-rules.detached-claims.a[0].b"),
        (with_rules(detached_claims={"a": 2**53}), "authorization-rules.detached-claims.a"),
        (with_rules(detached_claims={str(n): 1 for n in range(MAX_LEAVES + 1)}), "authorization-rules"),
        (with_rules(sub="NVIDIA-GPU-ATTESTATION"), "authorization-rules.sub"),
    ],
)
def test_what_the_grammar_does_not_say_is_refused_with_its_path(document: object, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_nvidia(json.dumps(document).encode())
    assert (caught.value.code, caught.value.field) == ("nvidia-policy-invalid", field)


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_count_as_far_as_every_reader_of_json_agrees_on_them(sign: int) -> None:
    largest = sign * (2**53 - 1)
    assert parse_nvidia(nvidia({"a": largest}, {})).detached == {"a": largest}
    with pytest.raises(ConfigurationError, match="an integer of at most"):
        parse_nvidia(nvidia({"a": largest + sign}, {}))


@pytest.mark.parametrize("data", [b"", b"\xff", b"package policy", b'{"version":"4.0","version":"3.0"}', b" " * 70000])
def test_what_is_no_json_document_of_a_bearable_size_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_nvidia(data)
    assert caught.value.code == "nvidia-policy-invalid"
    assert len(data) <= MAX_NVIDIA_BYTES or "more than" in caught.value.message


def test_each_version_of_a_policy_goes_with_one_of_claims() -> None:
    for version, claims in (("3.0", "2.0"), ("4.0", "3.0")):
        policy = parse_nvidia(nvidia({"measres": "success"}, {}, version=version))
        assert policy.claims_version == claims
        for offered in ("2.0", "3.0", "1.0", ""):
            decision = evaluate_nvidia(
                policy, devices={"GPU-0": {"measres": "success"}}, overall=None, claims_version=offered
            )
            assert decision.holds is (offered == claims)


def test_the_digest_is_of_what_is_demanded() -> None:
    one, spaced = parse_nvidia(nvidia()), parse_nvidia(json.dumps(GOOD, indent=4).encode())
    assert one.digest == spaced.digest
    assert one.digest != parse_nvidia(nvidia({"measres": "success"})).digest
    assert one.digest != parse_nvidia(nvidia({"x-nvidia-overall-att-result": True}, gpu_claims())).digest


# -- comparing


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        ("x", "x", True),
        ("x", "X", False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (True, "true", False),
        (1, 1, True),
        (1, 1.0, False),
        (None, None, True),
        (None, False, False),
        (None, "", False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": {"b": "x"}}, {"a": {"b": "x", "c": None}}, True),
        ({"a": {"b": "x"}}, {"a": "x"}, False),
        (["x", 1], ["x", 1], True),
        (["x", 1], ("x", 1), True),
        (["x"], ["x", "y"], False),
        (["x"], "x", False),
        (["x"], {"0": "x"}, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([{"a": 1}], [{"b": 2}], False),
        ([{"a": 1}], ["a"], False),
        ("x", b"x", False),
    ],
)
def test_a_listed_value_is_there_with_an_equal_one_of_its_type(wanted: object, found: object, equal: bool) -> None:
    assert holds({"claim": wanted}, {"claim": found, "other": 1}) is equal


def test_a_claim_that_is_missing_equals_nothing_not_even_null() -> None:
    # must-check 41: a missing value never equals a default.
    for wanted in (None, False, 0, "", "x", [None]):
        assert not holds({"claim": wanted}, {"other": wanted})


def test_no_device_is_no_proof() -> None:
    # must-check 22; nvidia-gpu.md 19: an `every` over nothing is true in Rego.
    decision = judge({"measres": "success"}, devices={})
    assert not decision.holds
    assert [node.path for node in decision.trace if not node.holds] == ["devices"]


def test_one_bad_device_fails_the_set() -> None:
    good, bad = {"measres": "success"}, {"measres": "fail"}
    assert holds({"measres": "success"}, good, good)
    for devices in ((bad, good), (good, bad), (good, {})):
        assert not holds({"measres": "success"}, *devices)


def test_overall_claims_without_an_overall_token_are_missing() -> None:
    listed = {"x-nvidia-overall-att-result": True}
    devices = {"GPU-0": {"measres": "success"}}
    assert judge({"measres": "success"}, devices=devices, overall=listed, listed=listed).holds
    decision = judge({"measres": "success"}, devices=devices, overall=None, listed=listed)
    assert not decision.holds
    (failed,) = [node for node in decision.trace if not node.holds]
    assert (failed.path, failed.expected, failed.found) == ("overall.x-nvidia-overall-att-result", "true", "nothing")


def test_the_trace_tells_every_claim_and_cuts_what_is_long() -> None:
    decision = judge(
        {"a": "x", "b": {"c": None}, "d": ["x"], "e": 1, "f": "x", "g": "x"},
        devices={"GPU-0": {"a": "s" * 5000, "b": {"c": 10**5000}, "d": {"x": 1}, "e": ("x",), "f": None, "g": 1.5}},
    )
    found = {node.path: node.found for node in decision.trace}
    assert len(found["GPU-0.a"]) < 300
    assert found["GPU-0.b.c"] == "a large number"
    assert (found["GPU-0.d"], found["GPU-0.e"]) == ("an object", "a list")
    assert (found["GPU-0.f"], found["GPU-0.g"]) == ("null", "another value")


# -- over our own claims


def test_an_honest_gpu_meets_what_the_tools_list_but_for_what_no_device_says() -> None:
    claims = nvidia_claims(verified(HOPPER))
    nonce = "x-nvidia-gpu-attestation-report-nonce-match"
    decision = judge(gpu_claims(), devices={"GPU-0": claims})
    assert [node.path for node in decision.trace if not node.holds] == [f"GPU-0.{nonce}"]
    assert holds({name: value for name, value in gpu_claims().items() if name != nonce}, claims)
    assert CLAIMS_VERSION == "3.0"


def test_an_honest_switch_meets_what_the_tools_list() -> None:
    assert holds(switch_claims(), nvidia_claims(verified(SWITCH)))
    assert not holds(switch_claims(), nvidia_claims(verified(HOPPER)))


def test_a_gpu_whose_firmware_nobody_compared_does_not() -> None:
    assert not holds({"measres": "success"}, nvidia_claims(without_rims()))
    assert not holds({"x-nvidia-gpu-driver-rim-fetched": True}, nvidia_claims(without_rims()))


# -- laws

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x", "true"]))
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, min_size=1, max_size=2), st.dictionaries(NAMES, below, min_size=1, max_size=2)
    ),
    max_leaves=5,
)
LISTED = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


def read(data: bytes) -> None:
    """Read a policy; whatever is no documented refusal is raised."""
    try:
        parse_nvidia(data)
    except ConfigurationError as exc:
        if exc.code != "nvidia-policy-invalid":
            raise


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_policy_or_a_documented_refusal(data: bytes) -> None:
    read(data)


@given(rules=st.one_of(VALUES, st.dictionaries(st.sampled_from(["type", "overall-claims", "detached-claims"]), VALUES)))
def test_any_json_is_a_policy_or_a_documented_refusal(rules: object) -> None:
    read(json.dumps({"version": "4.0", "authorization-rules": rules}).encode())


def slow(wanted: object, found: object) -> bool:
    """Compare by the words of the specification, without the code under test."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(n in found and slow(v, found[n]) for n, v in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(slow, wanted, found))
    return json.dumps(wanted) == json.dumps(found)


@given(listed=LISTED, claims=st.lists(LISTED, max_size=3))
def test_an_independent_slow_reading_agrees(listed: Json, claims: list[Json]) -> None:
    assert holds(listed, *claims) is (bool(claims) and all(slow(listed, one) for one in claims))


@given(listed=LISTED, more=LISTED, claims=LISTED)
def test_listing_more_never_turns_no_into_yes(listed: Json, more: Json, claims: Json) -> None:
    assert holds(listed, claims) or not holds({**more, **listed}, claims)


@given(listed=LISTED)
def test_claims_that_are_listed_meet_their_own_list(listed: Json) -> None:
    assert holds(listed, listed)
