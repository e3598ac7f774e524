"""The engine and an independent slow interpreter agree on random policies and evidence."""

import json
from random import Random

import pytest

from attest.appraisal import appraise
from attest.policy.rule_tree import paths_of
from tests.policy.documents import policy_of
from tests.policy.random_pairs import random_evidence, random_policy
from tests.policy.slow import interpret

QUICK, FULL = 500, 10_000
PER_POLICY = 5


def agree(pairs: int, *, seed: int) -> None:
    random = Random(seed)
    verdicts = {True: 0, False: 0}
    for _ in range(pairs // PER_POLICY):
        document = random_policy(random)
        policy = policy_of(document)
        for name, verified, seen in random_evidence(random, PER_POLICY, kinds=policy.kinds):
            native = appraise(verified, policy=policy, at=verified.at)
            slow = interpret(document, seen)
            shown = f"{name}\n{json.dumps(document)}\n{[(c.id, c.branch) for c in native.failed]}"
            assert native.affirmed is slow.affirmed, shown
            holding = {path for path, holds in slow.branches.items() if holds}
            assert set(slow.branches) == set(paths_of(policy.tree)) - {""}, shown
            for path in native.set_aside:
                assert not holding.issuperset(alternatives_above(path, native.set_aside)), (path, shown)
            chosen = {path for path in slow.branches if path.split(".")[-1].startswith(("any_of[", "at_least["))}
            assert chosen - holding <= native.set_aside, shown
            verdicts[native.affirmed] += 1
    assert min(verdicts.values()) > pairs / 10, verdicts  # both ways out are tried


def alternatives_above(path: str, set_aside: frozenset[str]) -> set[str]:
    """A branch and those that it stands in, as far as they are set aside."""
    return {other for other in set_aside if path == other or path.startswith(f"{other}.")}


def test_the_engine_and_the_slow_interpreter_agree() -> None:
    agree(QUICK, seed=1)


@pytest.mark.slow
def test_the_engine_and_the_slow_interpreter_agree_on_ten_thousand_pairs() -> None:
    agree(FULL, seed=2)
