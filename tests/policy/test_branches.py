"""Reading policies with branches: closed, bounded, named, and prepared as a tree."""

from typing import Any

import pytest

from attest.appraisal import appraise
from attest.errors import ConfigurationError
from attest.policy.model import MAX_BRANCHES, MAX_NESTING
from attest.policy.rule_tree import SET, AllBranch, AtLeast, Leaf, PlacedRule
from attest.policy.rule_tree import AnyBranch as AnyOf
from tests.policy.documents import policy_of
from tests.policy.mixed import HEAD, gpu, mixed, policy_with, snp, snp_cpu, tdx
from tests.samples import AT

GOOD: dict[str, Any] = {"snp": snp()}


def refusal(**parts: object) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        policy_of(policy_with(**parts))
    assert caught.value.code == "policy-invalid"
    return caught.value


def nested(depth: int) -> dict[str, Any]:
    return GOOD if depth == 0 else {"all_of": [nested(depth - 1)]}


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({}, "snp"),
        ({"any_of": []}, "any_of"),
        ({"all_of": []}, "all_of"),
        ({"any_of": GOOD}, "any_of"),
        ({"any_of": [{}]}, "any_of[0].snp"),
        ({"any_of": [{"name": "empty"}]}, "any_of[0].snp"),
        ({"any_of": [GOOD | {"unchecked": {"rim": "x"}}]}, "any_of[0].unchecked"),
        ({"any_of": [GOOD | {"simulated": "refuse"}]}, "any_of[0].simulated"),
        ({"any_of": [GOOD | {"version": 1}]}, "any_of[0].version"),
        ({"any_of": [GOOD | {"name": "Upper"}]}, "any_of[0].name"),
        ({"any_of": [GOOD | {"name": "12"}]}, "any_of[0].name"),
        ({"any_of": [GOOD | {"name": "x"}, GOOD, GOOD | {"name": "x"}]}, "any_of[2].name"),
        ({"any_of": [GOOD, {"snp": snp(vmpl=[])}]}, "any_of[1].snp.vmpl"),
        ({"any_of": [{"devices": {"gpus": 1}}]}, "any_of[0].devices"),
        ({"at_least": {"count": 1}}, "at_least.of"),
        ({"at_least": {"of": [GOOD]}}, "at_least.count"),
        ({"at_least": {"count": 0, "of": [GOOD]}}, "at_least.count"),
        ({"at_least": {"count": 2, "of": [GOOD]}}, "at_least.count"),
        ({"at_least": {"count": True, "of": [GOOD]}}, "at_least.count"),
        ({"at_least": {"count": 1, "of": []}}, "at_least.of"),
        ({"at_least": {"count": 1, "of": [GOOD], "more": 1}}, "at_least.more"),
        ({"at_least": {"count": 1, "of": [{"snp": {}}]}}, "at_least.of[0].snp.products"),
        (nested(MAX_NESTING + 1), "all_of[0].all_of[0].all_of[0].all_of[0].all_of"),
        ({"any_of": [GOOD] * (MAX_BRANCHES + 1)}, f"any_of[{MAX_BRANCHES}]"),
        ({"any_of": [GOOD] * 40, "all_of": [GOOD] * 40}, "all_of[24]"),
    ],
)
def test_what_is_wrong_in_a_branch_is_refused_with_its_path(parts: dict[str, Any], path: str) -> None:
    assert refusal(**parts).field == path


def test_as_many_and_as_deep_as_allowed() -> None:
    assert policy_of(policy_with(**nested(MAX_NESTING))).kinds == ("sev-snp",)
    assert len(policy_of(policy_with(any_of=[GOOD] * MAX_BRANCHES)).tree.members[0].members) == MAX_BRANCHES  # type: ignore[union-attr]


def test_a_policy_becomes_a_tree() -> None:
    policy = policy_of(
        policy_with(
            **GOOD,
            any_of=[{"name": "one", "tdx": tdx()}, {"gpu": gpu()}],
            all_of=[GOOD],
            at_least={"count": 2, "of": [GOOD, {"snp": snp(), "gpu": gpu()}]},
        )
    )
    together, section, any_of, all_of, at_least = policy.tree.members
    assert isinstance(together, Leaf)
    assert isinstance(section, Leaf)
    assert (together.kind, section.kind, section.path) == (SET, "sev-snp", "")
    assert [rule.id for rule in together.rules] == ["policy.devices.cpu"]
    assert isinstance(any_of, AnyOf)
    assert [branch.path for branch in any_of.members] == ["any_of[one]", "any_of[1]"]
    assert isinstance(all_of, AllBranch)
    assert all_of.path == "all_of[0]"
    assert isinstance(at_least, AtLeast)
    assert (at_least.path, at_least.count) == ("", 2)
    assert [branch.path for branch in at_least.members] == ["at_least[0]", "at_least[1]"]
    assert policy.kinds == ("sev-snp", "tdx", "nvidia-gpu")


def test_every_rule_is_listed_with_its_place() -> None:
    policy = policy_of(policy_with(any_of=[{"tdx": tdx()}, {"any_of": [{"name": "x", "gpu": gpu()}]}]))
    placed = list(policy.all_rules())
    assert all(isinstance(one, PlacedRule) for one in placed)
    assert list(dict.fromkeys((one.path, one.kind) for one in placed)) == [
        ("any_of[0]", SET),
        ("any_of[0]", "tdx"),
        ("any_of[1].any_of[x]", SET),
        ("any_of[1].any_of[x]", "nvidia-gpu"),
    ]
    assert len(placed) == sum(map(len, policy.rules.values())) + len(policy.set_rules)
    assert set(policy.categories) == {one.rule.id for one in placed}


def test_a_policy_without_branches_has_no_paths() -> None:
    policy = policy_of(policy_with(**GOOD))
    assert {one.path for one in policy.all_rules()} == {""}
    assert policy.set_rules == ()


WAIVED = gpu(waived_measurements={"7": "known"})


def test_what_one_body_waives_all_have_to_waive() -> None:
    error = refusal(any_of=[{"gpu": gpu()}, {"gpu": WAIVED}])
    assert (error.field, "any_of[0].gpu" in error.message) == ("any_of[1].gpu", True)
    assert refusal(gpu=WAIVED, at_least={"count": 1, "of": [GOOD, {"gpu": gpu()}]}).field == "at_least.of[1].gpu"
    held = gpu(held_rim_signers={"unchecked": "old drivers"})
    assert refusal(gpu=gpu(), all_of=[{"gpu": held}]).field == "all_of[0].gpu"
    switch = {"vbios_versions": {"at_least": "96"}}
    both = [{"nvswitch": switch}, {"nvswitch": switch | {"waived_measurements": {"3": "known"}}}]
    assert refusal(any_of=both).field == "any_of[1].nvswitch"


def test_what_all_bodies_waive_is_waived() -> None:
    policy = policy_of(policy_with(any_of=[GOOD | {"gpu": WAIVED}, {"tdx": tdx(), "gpu": WAIVED}]))
    assert [entry.index for entry in policy.gpu_tolerances.waived_measurements] == [7]
    one = policy_of(policy_with(any_of=[GOOD | {"gpu": WAIVED}, {"tdx": tdx()}]))
    assert one.gpu_tolerances == policy.gpu_tolerances


def test_the_order_of_waivers_says_nothing() -> None:
    first, second = ({"7": "a", "8": "b"}, {"8": "b", "7": "a"})
    bodies = [{"gpu": gpu(waived_measurements=waived)} for waived in (first, second)]
    assert len(policy_of(policy_with(any_of=bodies)).gpu_tolerances.waived_measurements) == 2


def test_a_value_under_two_names_counts_until_the_later_end_in_whatever_order() -> None:
    references = HEAD["reference_values"]
    ended = {**references["image"], "expires": "2026-05-31T23:59:59Z"}
    soon = {**references["image"], "expires": "2026-06-01T00:00:00Z"}
    for names, holds in (
        (["ended", "image"], True),
        (["image", "ended"], True),
        (["ended", "soon"], True),
        (["soon", "ended"], True),
        (["ended"], False),
    ):
        policy = policy_of(
            policy_with(snp=snp(measurement=names), reference_values={**references, "ended": ended, "soon": soon})
        )
        assert appraise(mixed(snp_cpu()), policy=policy, at=AT).affirmed is holds
