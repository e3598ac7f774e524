"""Files of cases: what they may say, and when a case passes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from attest.errors import ConfigurationError
from attest.policy.authoring.policy_cases import CaseResult, PolicyCase, differences, load_tests, policy_name_of

CASE: dict[str, Any] = {
    "name": "a machine",
    "evidence": "report.bin",
    "at": "2026-06-01T00:00:00Z",
    "unchecked": {"freshness": "recorded"},
    "expect": "not-affirmed",
}


def cases_of(*cases: dict[str, Any], **more: Any) -> bytes:  # noqa: ANN401  JSON
    return json.dumps({"schema": "attest.policy-tests/1", "cases": list(cases), **more}).encode()


def case_of(**changes: Any) -> PolicyCase:  # noqa: ANN401  JSON
    (case,) = load_tests(cases_of(CASE | changes)).cases
    return case


def test_a_case_is_read_with_everything_that_it_says() -> None:
    case = case_of(
        evidence=["a", "b"],
        endorsements=["c"],
        event_log="d",
        nonce="00ff",
        unchecked={"rim": "why"},
        allow_simulated=True,
        failed=["policy.snp.measurement"],
    )
    assert (case.evidence, case.endorsements, case.event_log) == (("a", "b"), ("c",), "d")
    assert (case.nonce, case.allow_simulated) == (b"\x00\xff", True)
    assert case.at == datetime(2026, 6, 1, tzinfo=UTC)
    assert [(entry.check, entry.reason) for entry in case.unchecked] == [("rim", "why")]
    tests = load_tests(cases_of(CASE, policy="other.yaml"))
    assert tests.policy == "other.yaml"
    assert tests.cases[0].evidence == ("report.bin",)
    assert not tests.cases[0].allow_simulated


def test_a_nonce_may_have_sixty_four_bytes() -> None:
    assert case_of(nonce="11" * 64, unchecked={"rim": "x"}).nonce == b"\x11" * 64


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"expected": "affirmed"}, "cases[0].expected"),
        ({"expect": "ok"}, "cases[0].expect"),
        ({"evidence": []}, "cases[0].evidence"),
        ({"evidence": 3}, "cases[0].evidence"),
        ({"at": "yesterday"}, "cases[0].at"),
        ({"nonce": "xy"}, "cases[0].nonce"),
        ({"nonce": " 00 "}, "cases[0].nonce"),
        ({"nonce": "00" * 65, "unchecked": {"rim": "x"}}, "cases[0].nonce"),
        ({"nonce": "00"}, "cases[0].nonce"),
        ({"unchecked": {"signature": "x"}}, "cases[0].unchecked.signature"),
        ({"unchecked": {}}, "cases[0].unchecked"),
        ({"failed": ["x"], "expect": "affirmed"}, "cases[0].failed"),
        ({"error": "x"}, "cases[0].error"),
        ({"failed": []}, "cases[0].failed"),
        ({"allow_simulated": "yes"}, "cases[0].allow_simulated"),
    ],
)
def test_a_wrong_case_is_refused_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        case_of(**changes)
    assert (refused.value.code, refused.value.field) == ("policy-invalid", path)


def test_wrong_files_are_refused() -> None:
    for data in (
        b"{",
        cases_of(),
        cases_of(CASE, CASE),
        cases_of(CASE, more=1),
        cases_of(CASE, references=[{"document": "references.yaml", "more": 1}]),
        json.dumps({"schema": "attest.policy/1", "cases": [CASE]}).encode(),
    ):
        with pytest.raises(ConfigurationError):
            load_tests(data)


def test_a_file_of_cases_stands_beside_its_policy() -> None:
    assert policy_name_of("mine.tests.yaml") == "mine.yaml"
    for name in (".tests.yaml", "mine.yaml"):
        with pytest.raises(ConfigurationError):
            policy_name_of(name)


def test_a_case_passes_when_outcome_checks_and_code_are_those_expected() -> None:
    details = ("x: expected 1, got 2",)
    case = case_of(failed=["a", "b"])
    assert differences(case, CaseResult(outcome="not-affirmed", failed=("b", "a"))) == ()
    assert differences(case, CaseResult(outcome="not-affirmed", failed=("b", "c"), details=details)) == (
        "failed: a was expected to fail, and did not",
        "failed: c was not expected to fail",
        *details,
    )
    assert differences(case_of(), CaseResult(outcome="not-affirmed", failed=("z",))) == ()
    assert differences(case_of(expect="affirmed"), CaseResult(outcome="refused", error="e", details=details)) == (
        "expected affirmed, got refused",
        *details,
    )
    refused = case_of(expect="refused", error="crl-missing")
    assert differences(refused, CaseResult(outcome="refused", error="crl-missing")) == ()
    assert differences(refused, CaseResult(outcome="refused", error="crl-expired")) == (
        "expected error crl-missing, got crl-expired",
    )
