"""Demands on Trustee's sample evidence: reading, rules, findings, drafts and differences."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome
from attest.cli.policy_init import source_of
from attest.errors import ConfigurationError
from attest.evidence.envelope import EvidenceItem
from attest.policy.authoring.comparison import Effect
from attest.policy.authoring.draft import choose, draft_policy
from attest.policy.authoring.explanation import explanation_text, fix_for
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.lint_findings import Severity
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.floors import floor_policy
from attest.policy.loader import Policy, load_policy
from attest.policy.model import PolicyDocument, decode_policy
from attest.verification import ExpectedFreshness
from tests.evidence.sample.test_sample import NONCE, cpu, device, run, sample
from tests.policy.mixed import gpu

AT = datetime(2026, 11, 1, tzinfo=UTC)
LAB = {"unchecked": "a trial without a machine"}
ACCEPTED: dict[str, Any] = {"launch_digest": ["abcde"], "svn": ["1"], "device_svn": ["2"]}


def document(simulated: object = LAB, **parts: object) -> dict[str, Any]:
    head: dict[str, Any] = {"schema": "attest.policy/1", "name": "trial", "version": 1}
    return head | ({} if simulated is None else {"simulated": simulated}) | parts


def loaded(simulated: object = LAB, **parts: object) -> Policy:
    return load_policy(json.dumps(document(simulated, **parts)).encode())


def decoded(simulated: object = LAB, **sample: object) -> PolicyDocument:
    return decode_policy(document(simulated, sample=sample))


def judged(policy: Policy, *items: EvidenceItem) -> AttestationResult:
    verified = run(*(items or (cpu(sample()),)), expected=ExpectedFreshness(nonce=NONCE))
    return appraise(verified, policy=policy, at=verified.at)


def failed(result: AttestationResult) -> list[tuple[str, str | None]]:
    return [(check.id, check.item) for check in result.failed]


def test_a_policy_that_accepts_sample_evidence_affirms_it() -> None:
    result = judged(loaded(sample=ACCEPTED), cpu(sample()), device(sample(svn="2")))
    assert result.affirmed
    ids = {(check.id, check.outcome) for check in result.policy_checks}
    assert ids == {
        ("freshness", Outcome.PASS),
        ("policy.not_simulated", Outcome.NOT_EVALUATED),
        ("policy.sample.launch_digest", Outcome.PASS),
        ("policy.sample.svn", Outcome.PASS),
        ("policy.sample.device_svn", Outcome.PASS),
    }


def test_the_section_alone_accepts_nothing_simulated() -> None:
    assert failed(judged(loaded(None, sample=ACCEPTED))) == [("policy.not_simulated", None)]


@pytest.mark.parametrize(
    ("section", "items", "expected"),
    [
        ({"launch_digest": ["other"]}, [cpu(sample())], [("policy.sample.launch_digest", "cpu")]),
        (ACCEPTED, [cpu(sample(svn="3"))], [("policy.sample.svn", "cpu")]),
        (ACCEPTED, [cpu(sample()), device(sample(svn="1"))], [("policy.sample.device_svn", "sampledevice0")]),
        (
            {"launch_digest": ["abcde"]},
            [cpu(sample()), device(sample())],
            [("policy.sample.device_svn", "sampledevice0")],
        ),
    ],
)
def test_what_the_section_does_not_accept_is_refused(
    section: dict[str, Any], items: list[EvidenceItem], expected: list[tuple[str, str]]
) -> None:
    assert failed(judged(loaded(sample=section), *items)) == expected


def test_relaxed_demands_are_not_evaluated() -> None:
    relaxed = {"unchecked": "any"}
    result = judged(loaded(sample={"launch_digest": relaxed, "device_svn": relaxed}), cpu(sample()), device(sample()))
    assert result.affirmed
    assert {check.outcome for check in result.policy_checks if check.id.startswith("policy.sample.")} == {
        Outcome.NOT_EVALUATED
    }


def test_a_policy_for_machines_refuses_sample_evidence() -> None:
    policy = loaded(sgx={"mr_enclave": {"unchecked": "any"}})
    assert failed(judged(policy)) == [("policy.kind", "cpu")]


def test_a_branch_with_the_section_needs_evidence_of_this_kind() -> None:
    branches = [{"name": "samples", "sample": ACCEPTED}, {"name": "gpus", "gpu": gpu()}]
    result = judged(loaded(any_of=branches))
    assert result.affirmed
    assert result.policy_checks[3].id == "policy.devices.cpu"


@pytest.mark.parametrize(
    "policy", [Policy.baseline(), floor_policy("floor", 1, bytes(32), ())], ids=["baseline", "floor"]
)
def test_the_built_in_policies_leave_sample_evidence_to_the_demand_for_hardware(policy: Policy) -> None:
    result = judged(policy, cpu(sample()), device(sample()))
    assert failed(result) == ([] if policy.simulated else [("policy.not_simulated", None)])


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({}, "sample.launch_digest"),
        ({"launch_digest": "abcde"}, "sample.launch_digest"),
        ({"launch_digest": []}, "sample.launch_digest"),
        ({"launch_digest": [""]}, "sample.launch_digest[0]"),
        ({"launch_digest": [1]}, "sample.launch_digest[0]"),
        ({"launch_digest": ["abcde"], "svn": 1}, "sample.svn"),
        ({"launch_digest": ["abcde"], "device_svn": []}, "sample.device_svn"),
        ({"launch_digest": ["abcde"], "debug": False}, "sample.debug"),
        ([], "sample"),
    ],
)
def test_the_section_is_strict(section: object, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(sample=section)
    assert (caught.value.code, caught.value.field) == ("policy-invalid", field)


def test_lint_always_says_that_the_section_guards_nothing() -> None:
    for simulated, severity in ((LAB, Severity.WARNING), (None, Severity.ERROR)):
        (found,) = [one for one in lint_policy(decoded(simulated, **ACCEPTED), at=AT) if one.rule == "sample-accepted"]
        assert (found.severity, found.path) == (severity, "sample")
    branch = decode_policy(document(any_of=[{"sample": ACCEPTED}, {"gpu": gpu()}]))
    assert "any_of[0].sample" in [one.path for one in lint_policy(branch, at=AT) if one.rule == "sample-accepted"]


def test_the_explanation_says_what_such_evidence_is_worth() -> None:
    policy = decoded(**ACCEPTED)
    text = explanation_text(loaded(sample=ACCEPTED), policy.reference_values)
    assert "Trustee's sample evidence, which proves nothing about a machine:" in text
    assert "  - The launch digest, a constant of sample evidence, must be one of abcde." in text
    assert "Each sample device, which proves nothing about a device:" in text
    assert fix_for("policy.sample.svn").startswith("Sample evidence proves nothing")


def test_a_draft_affirms_its_source() -> None:
    for items in ((cpu(sample()),), (cpu(sample()), device(sample(svn="2"))), (device(sample(svn="2")),)):
        verified = run(*items, expected=ExpectedFreshness(nonce=NONCE))
        source = source_of(verified)
        kinds = [item.kind for item in source.items]
        draft = draft_policy(source, name="trial", reference="image", chosen=choose(kinds))
        assert not draft.weak
        assert appraise(verified, policy=draft.policy, at=verified.at).affirmed
        assert list(draft.document)[-1] == "sample"


def test_the_difference_of_two_sections_has_a_direction() -> None:
    def effect(old: PolicyDocument, new: PolicyDocument) -> Effect | None:
        return diff_policies(old, new).effect

    plain = decoded(launch_digest=["abcde"])
    assert effect(plain, decoded(launch_digest=["abcde", "fghij"])) is Effect.LOOSER
    assert effect(plain, decoded(launch_digest=["abcde"], svn=["1"])) is Effect.STRICTER
    machines = decode_policy(document(sgx={"mr_enclave": {"unchecked": "any"}}))
    both = decode_policy(document(sgx={"mr_enclave": {"unchecked": "any"}}, sample=ACCEPTED))
    assert effect(machines, both) is Effect.LOOSER
    assert effect(both, machines) is Effect.STRICTER
    # Without the key sample devices are refused.
    assert effect(plain, decoded(launch_digest=["abcde"], device_svn=["2"])) is Effect.LOOSER


def test_a_check_of_the_section_names_its_clause() -> None:
    checks: list[Check] = [c for c in judged(loaded(sample=ACCEPTED)).policy_checks if "sample" in c.id]
    assert {check.clause for check in checks} == {"Confidential Containers, sample attester"}
