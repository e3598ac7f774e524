"""What is said of the difference between two policies is what happens to evidence."""

import copy
import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import appraise
from attest.errors import ConfigurationError
from attest.policy import Policy
from attest.policy.authoring.comparison import Effect
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.document import read_document
from attest.policy.loader import load_policy
from attest.policy.model import PolicyDocument, decode_policy
from tests.policy.random_pairs import DEVICE_KEYS, SECTIONS, random_evidence, random_policy
from tests.samples import AT

Json = dict[str, Any]
seeds = st.integers(0, 2**32)


def loaded(document: Json) -> tuple[PolicyDocument, Policy] | None:
    data = json.dumps(document).encode()
    try:
        return decode_policy(read_document(data)), load_policy(data)
    except ConfigurationError:
        return None


def bodies(body: Json) -> list[Json]:
    """A body, and all branches within it."""
    of = [*body.get("any_of", ()), *body.get("all_of", ()), *body.get("at_least", {}).get("of", ())]
    return [body, *(inner for branch in of for inner in bodies(branch))]


def change(random: Random, document: Json) -> None:
    """Change one thing: a key of a section, a branch, how many branches, what is unchecked."""
    body = random.choice(bodies(document))
    sections = [name for name in SECTIONS if name in body]
    match random.randrange(5):
        case 0 | 1 | 2 if sections:
            name = random.choice(sections)
            make, keys = SECTIONS[name]
            key = random.choice(sorted(keys))
            if key not in make() and random.random() < 0.4:
                body[name].pop(key, None)
            else:
                body[name][key] = copy.deepcopy(random.choice(list(keys[key])))
        case 3:
            lists = [body[key] for key in ("any_of", "all_of") if key in body]
            if "at_least" in body:
                lists.append(body["at_least"]["of"])
                body["at_least"]["count"] = random.randint(1, len(body["at_least"]["of"]))
            for branches in lists:
                random.shuffle(branches)
                if len(branches) > 1 and random.random() < 0.5:
                    branches.pop()
        case _:
            if "gpu" in body:
                name = random.choice(sorted(DEVICE_KEYS))
                body.setdefault("devices", {})[name] = copy.deepcopy(random.choice(DEVICE_KEYS[name]))
            key = random.choice(["simulated", "unchecked", "any_of", "all_of", *SECTIONS])
            (document if key in ("simulated", "unchecked") else body).pop(key, None)


@given(seeds, st.integers(1, 3))
def test_stricter_accepts_nothing_more_and_looser_nothing_less(seed: int, changes: int) -> None:
    random = Random(seed)
    document = random_policy(random)
    second = copy.deepcopy(document)
    for _ in range(changes):
        change(random, second)
    old, new = loaded(document), loaded(second)
    if old is None or new is None:
        return
    effect = diff_policies(old[0], new[0]).effect
    for _, evidence, _ in random_evidence(random, 8, kinds={*old[1].kinds, *new[1].kinds}):
        before, after = (appraise(evidence, policy=one[1], at=evidence.at).affirmed for one in (old, new))
        if effect in (None, Effect.LABEL, Effect.STRICTER):
            assert before or not after, effect
        if effect in (None, Effect.LABEL, Effect.LOOSER):
            assert after or not before, effect


@given(seeds)
def test_a_policy_in_which_something_contradicts_everything_else_accepts_nobody(seed: int) -> None:
    random = Random(seed)
    document = random_policy(random)
    both = loaded(document)
    assert both is not None
    findings = [one for one in lint_policy(both[0], at=AT) if one.rule == "contradictory"]
    for finding in findings:
        if finding.path.startswith("all_of") and "any_of" not in finding.path and "at_least" not in finding.path:
            kind = finding.path.partition("].")[2].partition(".")[0]
            if kind in ("snp", "tdx", "sgx"):
                for _, evidence, _ in random_evidence(random, 8, kinds=both[1].kinds):
                    assert not appraise(evidence, policy=both[1], at=evidence.at).affirmed
