"""What the Rego engine lets pass, one test each (must-check.md, section 4): every one of them is refused here.

The first lines of several tests ask the engine itself, so that the test says so when an upgrade mends a hazard.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attest.collect.child import ask_child
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.rego import RegoForm, RegoLimits, RegoOutcome, also_refuses, read_rego_policy

pytest.importorskip("regopy", reason="needs the extra 'rego'")

RESOURCE = "package policy\n\ndefault allow = false\n\nallow {{\n\t{}\n}}\n"
HUGE = "count([1 | x := numbers.range(1, 100000)[_]; y := numbers.range(1, 100000)[_]]) == 7"
SLOW = "x := numbers.range(1, 9000)[_]; y := numbers.range(1, 9000)[_]; z := numbers.range(1, 9000)[_]; x + y + z == 0"


def judged(body: str, document: Any = None, **options: Any) -> RegoOutcome:  # noqa: ANN401  wrong types too
    """Ask a resource policy with this body."""
    policy = read_rego_policy(RESOURCE.format(body).encode())
    return also_refuses(policy, {"a": 5, "debug": True} if document is None else document, **options)


def engine(body: str, document: str) -> str:
    """Ask the engine alone, in a process that may crash."""
    script = (
        "import sys\nfrom regopy import Interpreter\nr = Interpreter()\nr.add_module('p.rego', sys.argv[1])\n"
        "r.set_input_term(sys.argv[2])\nprint(r.query('data.policy.allow'))"
    )
    command = [sys.executable, "-c", script, RESOURCE.format(body), document]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


ALLOWED = '{"expressions":[true]}'


def test_a_policy_that_holds_does_not_refuse() -> None:
    verdict = judged("input.a == 5")
    assert (verdict.refused, verdict.reason, verdict.claims) == (False, "not refused", {})


@pytest.mark.parametrize("body", ["input.a == 6", "input.b == 5", 'input.a == "5"'])
def test_false_and_undefined_are_refusals(body: str) -> None:
    assert judged(body).refused


@pytest.mark.parametrize("document", [{"a": None}, {"a": 5, "b": {"c": [1, None]}}])
def test_null_compares_as_greater_and_is_refused_in_every_document(document: dict[str, JsonValue]) -> None:
    assert engine("input.a >= 5", '{"a": null}') == ALLOWED
    assert "is null" in judged("input.a >= 5", document).reason
    assert "is null" in judged("input.a >= 5", data={"x": document}).reason
    assert "is null" in judged("input.a >= 5", references={"x": document}).reason


@pytest.mark.parametrize("value", [True, False, [1], {"b": 1}, "9"])
@pytest.mark.parametrize("body", ["input.a >= 5", "5 < input.a", 'input["a"] > 5', 'query_reference_value("r") >= 5'])
def test_only_integers_are_ordered(value: JsonValue, body: str) -> None:
    assert engine("input.a >= 5", '{"a": true}') == ALLOWED
    assert "is no integer" in judged(body, {"a": value, "b": 1}, references={"r": value}).reason


def test_behind_a_variable_two_types_compare_and_only_the_typed_policy_stands_against_that() -> None:
    # Nothing outside the engine can see this: it is why a verdict allows nothing on its own.
    assert not judged("x := input.a; x >= 5", {"a": True}).refused


def test_a_missing_reference_value_is_undefined_and_does_not_compare() -> None:
    for comparison in ("==", ">=", "<=", "!=", ">", "<"):
        source = f'package policy\nexecutables := 3 {{ input.a {comparison} query_reference_value("absent") }}\n'
        assert also_refuses(read_rego_policy(source.encode()), {"a": 5}, {"present": 5}).refused


def test_the_environment_is_empty_and_asking_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTEST_TEST_SECRET", "hunter2")
    assert "hunter2" in engine('opa.runtime().env.ATTEST_TEST_SECRET == "hunter2"; trace(opa.runtime().env)', "{}") or (
        engine('opa.runtime().env.ATTEST_TEST_SECRET == "hunter2"', "{}") == ALLOWED
    )
    for spelling in ("opa.runtime()", 'opa["runtime"]()', 'opa.runtime().env.ATTEST_TEST_SECRET != "x"'):
        assert "opa.runtime, which is not allowed" in judged(spelling).reason


def test_the_workers_environment_really_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTEST_TEST_SECRET", "hunter2")
    script = "import os, sys; sys.stdout.write(repr(sorted(set(os.environ) - {'LC_CTYPE'})))"
    command = [sys.executable, "-I", "-c", script]
    assert ask_child(command, request=b"", seconds=20, environment={}, folder=tmp_path).out == b"[]"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ('http.send({"method": "get", "url": "http://127.0.0.1:1/"}).status_code == 200', "http.send"),
        ('not http.send({"method": "get", "url": "http://127.0.0.1:1/"})', "http.send"),
        ("not time.now_ns() < 5", "time.now_ns"),
        ('rand.intn("x", 2) < 2', "rand.intn"),
        ('uuid.rfc4122("x") != ""', "uuid.rfc4122"),
        ('io.jwt.decode("x")', "io.jwt.decode"),
        ('print("x")', "print"),
    ],
)
def test_functions_that_see_more_than_their_arguments_are_refused_by_name(call: str, name: str) -> None:
    assert judged(call).refused
    assert name in judged(call).reason or "cannot read the policy" in judged(call).reason


def test_http_send_under_not_would_allow() -> None:
    assert engine('not http.send({"method": "get", "url": "http://127.0.0.1:1/"})', "{}") == ALLOWED


@pytest.mark.parametrize("typo", ["input.debgu", 'input["debgu"]', "input.snp.debug", "input.debgu == true"])
def test_a_misspelled_member_under_not_is_refused(typo: str) -> None:
    assert engine(f"not {typo}", '{"debug": true}') == ALLOWED
    assert "may be a misspelling" in judged(f"not {typo}").reason


def test_a_misspelled_member_in_a_comprehension_is_refused() -> None:
    body = "count([x | x := input.snp.debgu; x]) == 0"
    assert engine(body, '{"snp": {"debug": true}}') == ALLOWED
    assert "input.snp.debgu is absent" in judged(body, {"snp": {"debug": True}}).reason


def test_a_misspelled_reference_value_under_not_is_refused() -> None:
    source = b'package policy\nexecutables := 3 { not input.a < query_reference_value("minimun") }\n'
    assert "minimun" in also_refuses(read_rego_policy(source), {"a": 1}, {"minimum": 5}).reason


def test_a_name_under_not_that_nothing_defines_is_refused_at_load() -> None:
    assert engine("not nosuch", "{}") == ALLOWED
    with pytest.raises(ConfigurationError, match="'nosuch', which is defined nowhere"):
        judged("not nosuch")


def test_not_of_a_member_that_is_there_works() -> None:
    assert not judged("not input.debug", {"debug": False}).refused
    assert judged("not input.debug", {"debug": True}).refused


@pytest.mark.parametrize(
    ("body", "said"),
    [(HUGE, "memory"), ("count(numbers.range(1, 1000000000)) == 1", "memory"), (SLOW, "time|memory|within")],
)
def test_memory_and_time_are_bounded(body: str, said: str) -> None:
    verdict = judged(body, limits=RegoLimits(seconds=60, cpu_seconds=2, memory=128 << 20))
    assert verdict.refused
    assert any(word in verdict.reason for word in said.split("|"))


def test_processor_time_is_bounded() -> None:
    assert "processor time" in judged(SLOW, limits=RegoLimits(seconds=30, cpu_seconds=1, memory=1 << 30)).reason


def test_wall_clock_is_bounded() -> None:
    assert "within 0.3 s" in judged(SLOW, limits=RegoLimits(seconds=0.3, memory=1 << 30)).reason


def test_recursion_is_refused() -> None:
    source = b"package policy\nallow { f(1) }\nf(x) { f(x) }\n"
    assert also_refuses(read_rego_policy(source), {"a": 1}).refused


def test_rules_that_contradict_each_other_are_a_refusal() -> None:
    source = b"package policy\nallow = true { input.a }\nallow = false { input.debug }\n"
    assert "contradict" in also_refuses(read_rego_policy(source), {"a": 1, "debug": True}).reason
    assert not also_refuses(read_rego_policy(source), {"a": 1, "debug": False}).refused


def test_two_definitions_of_the_reference_function_that_differ_are_a_refusal() -> None:
    source = b'package policy\nexecutables := query_reference_value("x")\nquery_reference_value(name) := 2\n'
    policy = read_rego_policy(source)
    assert also_refuses(policy, {"a": 1}, {"x": 3}).refused


@pytest.mark.parametrize("value", ["1", '"true"', "null", "[true]", '{"x": true}', "[]"])
def test_allow_of_another_type_than_true_is_a_refusal(value: str) -> None:
    source = f"package policy\nallow := {value}\n"
    assert also_refuses(read_rego_policy(source.encode()), {"a": 1}).refused


@pytest.mark.parametrize("body", ["nosuch(1)", "input.a ==", "x", "sprintf(1) == 2", "input.a = y"])
def test_what_does_not_compile_is_a_refusal(body: str) -> None:
    verdict = judged(body)
    if body == "input.a = y":  # unification: y is input.a
        assert not verdict.refused
    else:
        assert verdict.refused


def test_text_that_is_no_bracketed_rego_is_refused_at_load() -> None:
    with pytest.raises(ConfigurationError, match="bracket"):
        read_rego_policy(b"package policy\nallow { input.a\n")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "empty"),
        ({"a": 0.5}, "fraction"),
        ({"a": 1 << 60}, "2\\^53"),
        ({"a": (1,)}, "no JSON"),
    ],
)
def test_documents_that_engines_read_in_several_ways_are_refused(document: object, said: str) -> None:
    assert re.search(said, judged("true", document).reason)


def test_a_document_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert "deeper" in judged("true", {"a": deep}).reason


@pytest.mark.parametrize("name", ["policy", "attest_reference_values"])
def test_data_cannot_stand_in_for_the_policy_or_its_reference_values(name: str) -> None:
    assert name in judged("true", data={name: {"allow": True}}).reason


@pytest.mark.parametrize("said", ['a"b', "a\\b", "a\nb", "\x00", "\\u0041", "é", "\U0001f600", "</x>", "}}{{"])
def test_the_engine_reads_text_as_it_was_sent(said: str) -> None:
    assert not judged(f"input.a == {json.dumps(said)}", {"a": said}).refused


def test_a_resource_policy_reads_its_data() -> None:
    data: dict[str, JsonValue] = {"plugin": "resource", "resource-path": ["default", "key", "k1"]}
    assert not judged('data.plugin == "resource"; data["resource-path"][2] == "k1"', data=data).refused
    assert judged('data.plugin == "resource"').refused


def test_a_verdict_is_no_condition_and_tells_itself_as_a_check() -> None:
    verdict = judged("input.a == 6")
    with pytest.raises(TypeError):
        bool(verdict)
    check = verdict.check(item="cpu")
    assert (check.id, check.outcome, check.item) == ("policy.rego", "fail", "cpu")
    assert judged("input.a == 5").check().outcome == "pass"


def attested(rules: str, document: dict[str, JsonValue] | None = None, **references: JsonValue) -> RegoOutcome:
    """Ask an attestation policy."""
    policy = read_rego_policy(f"package policy\nimport rego.v1\n{rules}\n".encode())
    assert policy.form is RegoForm.ATTESTATION
    return also_refuses(policy, {"a": 5} if document is None else document, references)


def test_trust_claims_that_affirm_do_not_refuse() -> None:
    verdict = attested(
        'default executables := 33\nexecutables := 3 if { input.a in query_reference_value("a") }\n'
        "default hardware := 97\nhardware := 2 if input.a > 4\nfile_system := 0",
        a=[4, 5],
    )
    assert not verdict.refused
    assert verdict.claims == {"executables": 3, "hardware": 2, "file-system": 0}


def test_trust_claims_as_one_object_are_understood() -> None:
    assert attested('trust_claims := {"executables": 3, "file-system": 2}').claims == {
        "executables": 3,
        "file-system": 2,
    }


@pytest.mark.parametrize(
    "rules",
    [
        "executables := 33",
        "executables := 3\nhardware := 97",
        "executables := 3\nhardware := 1",
        "executables := 3\nhardware := -1",
        "executables := 0",
        "executables := 3\nhardware := 2 if input.b",
        "executables := true",
        'executables := "3"',
        "executables := 3.5",
        "executables := 128",
        "executables := -129",
        "executables contains 3",
        "trust_claims := {}",
        "trust_claims := []",
        'trust_claims := {"nosuch": 3}',
        'trust_claims := {"file-system": 3, "file_system": 3}',
        'trust_claims := {"executables": 3, "hardware": null}',
    ],
)
def test_every_other_trust_claim_is_a_refusal(rules: str) -> None:
    assert attested(rules).refused
