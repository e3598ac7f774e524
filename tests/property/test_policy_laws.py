"""Laws that hold of every policy and every evidence."""

import copy
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import AttestationResult, appraise
from attest.checks import Outcome
from attest.errors import ConfigurationError
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.tcb import SnpTcbVersion
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.policy import Policy
from attest.policy.rule_tree import AllBranch
from attest.policy.rules import none_of, one_of
from attest.verification import VerifiedEvidence
from attest_simulator.nvidia import SimulatedGpu
from tests.policy.documents import policy_of
from tests.policy.gpu_documents import BLACKWELL, verified, without_rims, without_settings
from tests.policy.mixed import gpu, hopper, mixed, policy_with, snp, snp_cpu
from tests.policy.random_pairs import SECTIONS, pool, random_evidence, random_policy
from tests.samples import AT

ROOT = Path(__file__).parents[2]
seeds = st.integers(0, 2**32)


def judged(document: dict[str, Any], evidence: VerifiedEvidence) -> AttestationResult:
    return appraise(evidence, policy=policy_of(document), at=evidence.at)


def pair(seed: int) -> tuple[Random, dict[str, Any], VerifiedEvidence]:
    """A policy and evidence that it probably speaks of."""
    random = Random(seed)
    document = random_policy(random)
    ((_, evidence, _),) = random_evidence(random, 1, kinds=policy_of(document).kinds)
    return random, document, evidence


def told(result: AttestationResult) -> Counter[tuple[str, Outcome, str | None, str | None, bool]]:
    """What was checked, where, how it came out, and whether it counts; in no order."""
    return Counter((c.id, c.outcome, c.item, c.branch, result.counts(c)) for c in result.policy_checks)


# -- more TCB never hurts a minimum

parts = st.integers(0, 40)
tcbs = st.builds(SnpTcbVersion, fmc=st.none(), bootloader=parts, tee=parts, snp=parts, microcode=parts)


def with_tcb(tcb: SnpTcbVersion) -> VerifiedEvidence:
    item = snp_cpu()
    verified = item.verified
    assert isinstance(verified, VerifiedSnpReport)
    return mixed(item._replace(verified=_Reporting(verified, tcb)))  # type: ignore[arg-type]


class _Reporting:
    """A verified report with other TCBs in it, all of them one."""

    def __init__(self, verified: VerifiedSnpReport, tcb: SnpTcbVersion) -> None:
        self._verified = verified
        self.reported_tcb = self.committed_tcb = self.launch_tcb = self.current_tcb = tcb

    def __getattr__(self, name: str) -> object:
        return getattr(self._verified, name)


def as_document(tcb: SnpTcbVersion) -> dict[str, int]:
    return {"bootloader": tcb.bootloader, "tee": tcb.tee, "snp": tcb.snp, "microcode": tcb.microcode}


@given(tcbs, tcbs, tcbs, tcbs)
def test_more_tcb_never_hurts_a_minimum(
    one: SnpTcbVersion, two: SnpTcbVersion, low: SnpTcbVersion, more: SnpTcbVersion
) -> None:
    document = policy_with(
        any_of=[
            {"snp": snp(as_document(one), minimum_committed_tcb={"Genoa": as_document(two)})},
            {"at_least": {"count": 1, "of": [{"snp": snp(as_document(two))}, {"snp": snp(as_document(one))}]}},
        ]
    )
    high = replace(low, **{name: getattr(low, name) + getattr(more, name) for name in as_document(low)})
    before, after = judged(document, with_tcb(low)), judged(document, with_tcb(high))
    assert after.affirmed or not before.affirmed
    assert len(after.policy_checks) == len(before.policy_checks)


@given(tcbs, tcbs, tcbs)
def test_a_higher_minimum_never_turns_no_into_yes(
    low: SnpTcbVersion, more: SnpTcbVersion, found: SnpTcbVersion
) -> None:
    high = replace(low, **{name: getattr(low, name) + getattr(more, name) for name in as_document(low)})
    lax, strict = (judged(policy_with(snp=snp(as_document(tcb))), with_tcb(found)) for tcb in (low, high))
    assert lax.affirmed or not strict.affirmed


@given(st.lists(tcbs, min_size=1, max_size=3, unique=True), tcbs, tcbs)
def test_an_exact_tcb_is_met_by_what_is_listed_and_by_nothing_else(
    listed: list[SnpTcbVersion], found: SnpTcbVersion, floor: SnpTcbVersion
) -> None:
    # No law of minimums holds here: more TCB may well be refused.
    exact = {"Genoa": [as_document(tcb) for tcb in listed]}
    alone = snp(exact_tcb=exact, exact_committed_tcb=exact, exact_launch_tcb=exact)
    del alone["minimum_tcb"]
    beside = snp(as_document(floor), exact_tcb=exact)
    for tcb in (found, *listed):
        assert judged(policy_with(snp=alone), with_tcb(tcb)).affirmed is (tcb in listed)
        assert judged(policy_with(snp=beside), with_tcb(tcb)).affirmed is (tcb in listed and tcb.covers(floor))


@given(st.lists(tcbs, min_size=1, max_size=3, unique=True), tcbs, tcbs)
def test_one_more_exact_tcb_never_turns_yes_into_no(
    listed: list[SnpTcbVersion], more: SnpTcbVersion, found: SnpTcbVersion
) -> None:
    few, many = (
        snp(dict.fromkeys(as_document(found), 0), exact_tcb={"Genoa": [as_document(tcb) for tcb in tcbs]})
        for tcbs in (listed, list(dict.fromkeys([*listed, more])))
    )
    assert judged(policy_with(snp=many), with_tcb(found)).affirmed or not (
        judged(policy_with(snp=few), with_tcb(found)).affirmed
    )


# -- adding a requirement never turns no into yes

NO_ADDITION = {"mr_service_td", "event_log", "guest_policy", "platform_info", "td_attributes", "attributes", "platform"}
"""``mr_service_td`` stands in for a stricter default; the others may be there already, with more in them."""


def bodies(body: dict[str, Any]) -> list[dict[str, Any]]:
    """A body, and all branches within it."""
    found = [body]
    of = [*body.get("any_of", ()), *body.get("all_of", ()), *body.get("at_least", {}).get("of", ())]
    for branch in of:
        found += bodies(branch)
    return found


def additions(body: dict[str, Any]) -> list[tuple[dict[str, Any], str, object]]:
    """Every requirement that some section of a body could have and does not."""
    return [
        (body[name], key, value)
        for name, (_, keys) in SECTIONS.items()
        if name in body
        for key, values in keys.items()
        if key not in body[name] and key not in NO_ADDITION | STRICT_ANYWAY
        for value in values
        if not (isinstance(value, dict) and "unchecked" in value)
    ]


STRICT_ANYWAY = {"vmpl", "signing_key", "tcb_status", "accepted_advisories"}
"""Left out they are stricter than some of their values."""


@given(seeds)
def test_adding_a_requirement_to_any_section_never_turns_no_into_yes(seed: int) -> None:
    random, document, evidence = pair(seed)
    before = judged(document, evidence)
    larger = copy.deepcopy(document)
    possible = [addition for body in bodies(larger) for addition in additions(body)]
    if possible:
        section, key, value = random.choice(possible)
        section[key] = copy.deepcopy(value)
    assert before.affirmed or not judged(larger, evidence).affirmed


@given(seeds, seeds)
def test_adding_all_of_what_is_spoken_of_already_never_turns_no_into_yes(seed: int, other: int) -> None:
    _, document, evidence = pair(seed)
    _, second, _ = pair(other)
    spoken = {name for body in bodies(document) for name in SECTIONS if name in body}
    demand = {name: second[name] for name in spoken & set(second)}
    if demand.keys().isdisjoint({"snp", "tdx"}):
        demand.pop("azure", None)  # it stands beside one of them
    if "tdx" in demand and "azure" not in demand:
        demand["tdx"] = {"rtmr2": {"unchecked": "the section azure judged the boot"}} | demand["tdx"]
    if not demand or "all_of" in document or any("waived_measurements" in str(one) for one in (document, second)):
        return
    larger = document | {"all_of": [demand]}
    larger["reference_values"] = second["reference_values"] | document["reference_values"]
    before, after = judged(document, evidence), judged(larger, evidence)
    if not before.affirmed and [check.id for check in before.failed] != ["policy.kind"]:
        assert not after.affirmed


@given(seeds)
def test_requiring_more_branches_never_turns_no_into_yes(seed: int) -> None:
    _, document, evidence = pair(seed)
    if "at_least" not in document:
        return
    more = copy.deepcopy(document)
    more["at_least"]["count"] = len(more["at_least"]["of"])
    assert judged(document, evidence).affirmed or not judged(more, evidence).affirmed


@given(seeds)
def test_leaving_less_unchecked_never_turns_no_into_yes(seed: int) -> None:
    _, document, evidence = pair(seed)
    strict = {name: value for name, value in document.items() if name not in ("unchecked", "simulated")}
    assert judged(document, evidence).affirmed or not judged(strict, evidence).affirmed
    if evidence.simulated:
        assert not judged(strict, evidence).affirmed


# -- order never matters where it has no meaning


def shuffled(value: Any, random: Random) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, dict):
        members = [(name, shuffled(member, random)) for name, member in value.items()]
        random.shuffle(members)
        return dict(members)
    if isinstance(value, list):
        listed = [shuffled(member, random) for member in value]
        random.shuffle(listed)
        return listed
    return value


@given(seeds)
def test_the_order_of_keys_lists_branches_and_items_never_matters(seed: int) -> None:
    random, document, evidence = pair(seed)
    for number, body in enumerate(bodies(document)[1:]):
        body["name"] = f"b{number}"  # so that a branch is known wherever it stands
    before = judged(document, evidence)
    items = list(evidence.items)
    random.shuffle(items)
    after = judged(shuffled(document, random), evidence._replace(items=tuple(items)))
    assert told(after) == told(before)
    assert (after.status, after.trustworthiness, after.affirmed) == (
        before.status,
        before.trustworthiness,
        before.affirmed,
    )


# -- one bad device fails the set


def _bad_devices() -> list[VerifiedGpu]:
    return [
        verified(BLACKWELL),
        without_rims(),
        without_settings(hopper()),
        verified(SimulatedGpu.of("bad", dev_tools_mode=True)),
        verified(SimulatedGpu.of("bad", driver="550.90.07")),
    ]


@given(st.integers(0, 7), st.integers(0, 4), st.data())
def test_one_bad_device_fails_the_set(good: int, which: int, data: st.DataObject) -> None:
    bad = _bad_devices()[which]
    devices = [hopper()] * good
    devices.insert(data.draw(st.integers(0, good)), bad)
    alone = policy_with(snp=snp(), gpu=gpu())
    branched = policy_with(
        any_of=[{"snp": snp()}, {"snp": snp(), "gpu": gpu()}, {"snp": snp(), "all_of": [{"gpu": gpu()}]}]
    )
    for document in (alone, branched):
        assert not judged(document, mixed(snp_cpu(), *devices)).affirmed
        assert judged(document, mixed(snp_cpu(), *[hopper()] * (good + 1))).affirmed


# -- an empty list accepts nobody


@given(st.integers() | st.text() | st.binary())
def test_an_empty_list_of_values_accepts_nobody(value: int | str | bytes) -> None:
    assert not one_of(())(value, AT)
    assert none_of((value,))(value, AT) is False


def test_an_empty_policy_accepts_nobody() -> None:
    empty = replace(policy_of(policy_with(snp=snp())), tree=AllBranch(path="", members=()))
    for _, evidence, _ in pool():
        assert not appraise(evidence, policy=empty, at=evidence.at).affirmed


@pytest.mark.parametrize("section", SECTIONS)
def test_every_empty_list_of_every_section_fails_to_load(section: str) -> None:
    make, keys = SECTIONS[section]
    emptied = 0
    for key, values in keys.items():
        if isinstance(values[0], list):
            with pytest.raises(ConfigurationError, match=f"{section}.{key}: expected a list with at least one"):
                policy_of(policy_with(**{section: make() | {key: []}}))
            emptied += 1
    assert emptied or section == "nvswitch"


# -- one input, one output, to the byte

EXPLAINED = """
import hashlib, json
from random import Random
from attest.appraisal import appraise
from attest.results.document import appraised_document
from tests.policy.documents import policy_of
from tests.policy.random_pairs import pool, random_policy
random, digest = Random(7), hashlib.sha256()
for number in range(16):
    policy = policy_of(random_policy(random))
    for _, evidence, _ in pool()[number % 4 :: 4]:
        digest.update(json.dumps(appraised_document(appraise(evidence, policy=policy, at=evidence.at))).encode())
print(digest.hexdigest())
"""


def test_the_explanation_is_the_same_to_the_byte_in_every_process() -> None:
    def digest(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", EXPLAINED]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    found = {digest(seed) for seed in ("0", "1", "4242")}
    assert len(found) == 1
    assert len(found.pop()) == 64


@given(seeds)
def test_every_rule_is_judged_whatever_the_others_say(seed: int) -> None:
    _, document, evidence = pair(seed)
    policy: Policy = policy_of(document)
    result = appraise(evidence, policy=policy, at=evidence.at)
    kinds = Counter(item.kind for item in evidence.items)
    expected = Counter[tuple[str, str | None]]()
    for placed in policy.all_rules():
        expected[placed.rule.id, placed.path or None] += 1 if placed.kind == "set" else kinds[placed.kind]
    found = Counter((check.id, check.branch) for check in result.policy_checks)
    assert +(expected - found) == Counter()
    assert {check_id for check_id, _ in found - expected} <= {
        "freshness",
        "policy.not_simulated",
        "policy.kind",
        "policy.any_of",
        "policy.at_least",
    }
    assert json.dumps([c.outcome for c in result.failed]) == json.dumps(["fail"] * len(result.failed))
