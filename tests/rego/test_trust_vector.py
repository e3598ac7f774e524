"""An attestation policy in Trustee's form gives its vector in every well-defined case, and a clean error in others."""

from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import AttestError, ConfigurationError, EvidenceError
from attest.rego import (
    RegoAppraisal,
    RegoExtension,
    RegoForm,
    RegoLimits,
    also_refuses,
    read_rego_policy,
    rego_appraisal,
    resource_outcome,
)
from attest.results.ear import VECTOR_LABELS

pytest.importorskip("regopy", reason="needs the extra 'rego'")

SHIPPED = """
default executables := 33
default hardware := 97
default configuration := 36
trust_claims := {"executables": executables, "hardware": hardware, "configuration": configuration, "file-system": 0}
executables := 3 if input.snp.measurement in query_reference_value("snp_launch_measurement")
hardware := 2 if input.snp.reported_tcb_snp in query_reference_value("snp_snp_svn")
configuration := 2 if input.snp.policy_debug_allowed == false
"""
EVIDENCE: dict[str, JsonValue] = {"snp": {"measurement": "ab", "reported_tcb_snp": 8, "policy_debug_allowed": False}}


def appraised(rules: str, document: Any = None, **references: JsonValue) -> RegoAppraisal:  # noqa: ANN401  wrong types too
    """Ask an attestation policy."""
    policy = read_rego_policy(f"package policy\nimport rego.v1\n{rules}\n".encode(), form=RegoForm.ATTESTATION)
    return rego_appraisal(policy, {"a": 5} if document is None else document, references)


def test_a_policy_that_refuses_gives_its_vector() -> None:
    found = appraised(SHIPPED, EVIDENCE)
    vector = {"configuration": 2, "executables": 33, "file-system": 0, "hardware": 97}
    assert dict(found.vector.items()) == vector
    assert found.outcome.refused
    assert "hardware is 97" in found.outcome.reason
    assert found.extensions == ()


def test_a_policy_that_affirms_gives_its_vector_and_does_not_refuse() -> None:
    found = appraised(SHIPPED, EVIDENCE, snp_launch_measurement=["ab"], snp_snp_svn=[7, 8])
    assert dict(found.vector.items()) == {"configuration": 2, "executables": 3, "file-system": 0, "hardware": 2}
    assert not found.outcome.refused


@pytest.mark.parametrize("rules", ["trust_claims := {} if input.b", "executables := 3"])
def test_an_undefined_vector_is_eight_zeros_and_refuses(rules: str) -> None:
    found = appraised(rules)
    assert dict(found.vector.items()) == dict.fromkeys(VECTOR_LABELS, 0)
    assert found.outcome.refused


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ("{}", "rego-claims-empty"),
        ("[]", "rego-claims-not-object"),
        ("3", "rego-claims-not-object"),
        ("null", "rego-claims-not-object"),
        ('{"nosuch": 3}', "rego-claims-unknown"),
        ('{"file_system": 3}', "rego-claims-unknown"),
        ('{"hardware": 128}', "rego-claims-out-of-range"),
        ('{"hardware": -129}', "rego-claims-out-of-range"),
        ('{"hardware": 9007199254740993}', "rego-claims-out-of-range"),
        ('{"hardware": 2.5}', "rego-claims-not-integer"),
        ('{"hardware": true}', "rego-claims-not-integer"),
        ('{"hardware": "2"}', "rego-claims-not-integer"),
        ('{"hardware": null}', "rego-claims-not-integer"),
        ('{"hardware": [2]}', "rego-claims-not-integer"),
        ('{"hardware": {"a": 2}}', "rego-claims-not-integer"),
    ],
)
def test_a_vector_that_is_none_is_an_error_with_a_code(claims: str, code: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        appraised(f"trust_claims := {claims}")
    assert caught.value.code == code


def test_the_bounds_of_a_value_are_in_the_vector() -> None:
    found = appraised('trust_claims := {"hardware": 127, "executables": -128}')
    assert dict(found.vector.items()) == {"executables": -128, "hardware": 127}


def test_extensions_are_returned() -> None:
    found = appraised(
        'trust_claims := {"hardware": 2}\n'
        'extensions := [{"name": "ear.trustee.identifiers", "key": 65537, "value": {"validated": {"a": [input.a]}}}]'
    )
    assert found.extensions == (
        RegoExtension(name="ear.trustee.identifiers", key=65537, value={"validated": {"a": [5]}}),
    )


@pytest.mark.parametrize(
    "extensions",
    [
        "{}",
        "3",
        "[3]",
        '[{"name": "a", "key": 1}]',
        '[{"name": "a", "key": true, "value": 1}]',
        '[{"name": "a", "key": "1", "value": 1}]',
        '[{"name": 1, "key": 1, "value": 1}]',
        '[{"name": "a", "key": 1, "value": 1, "more": 1}]',
        '[{"name": "a", "key": 1, "value": 1}, {"name": "a", "key": 2, "value": 1}]',
        '[{"name": "a", "key": 1, "value": 1}, {"name": "b", "key": 1, "value": 1}]',
        '[{"name": sprintf("%d", [n]), "key": n, "value": 1} | n := numbers.range(1, 17)[_]]',
    ],
)
def test_extensions_that_are_none_are_an_error(extensions: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        appraised(f'trust_claims := {{"hardware": 2}}\nextensions := {extensions}')
    assert caught.value.code == "rego-extensions-invalid"


def test_a_missing_reference_value_is_null_as_in_trustee() -> None:
    rules = 'trust_claims := {"hardware": 2} if query_reference_value("absent") == null'
    assert dict(appraised(rules).vector.items()) == {"hardware": 2}
    assert appraised(rules, absent=1).outcome.refused
    assert appraised('trust_claims := {"hardware": 2} if input.a in query_reference_value("absent")').outcome.refused


@pytest.mark.parametrize("comparison", [">=", "<=", ">", "<", "!="])
def test_a_missing_reference_value_does_not_compare(comparison: str) -> None:
    # Must-check, section 4: null compares, as greater or less than every number, also behind a variable.
    rules = f'trust_claims := {{"hardware": 2}} if {{ x := query_reference_value("absent"); input.a {comparison} x }}'
    assert dict(appraised(rules).vector.items()) == dict.fromkeys(VECTOR_LABELS, 0)


def test_reference_values_of_one_question_are_not_those_of_another() -> None:
    rules = 'trust_claims := {"hardware": query_reference_value("a")}'
    for value in (2, 97, 3, 2):
        assert dict(appraised(rules, a=value).vector.items()) == {"hardware": value}


@pytest.mark.parametrize(
    "hidden",
    [
        'x := "query_reference_value(\\"a\\")"',
        'x := `query_reference_value("a")`',
        '# query_reference_value("a")',
    ],
)
def test_the_name_of_the_function_in_texts_and_comments_changes_nothing(hidden: str) -> None:
    assert not appraised(f'trust_claims := {{"hardware": query_reference_value("a")}}\n{hidden}', a=2).outcome.refused


def test_a_policy_cannot_define_the_function_otherwise() -> None:
    with pytest.raises(ConfigurationError) as caught:
        appraised('trust_claims := {"hardware": query_reference_value("a")}\nquery_reference_value(name) := 2', a=97)
    assert caught.value.code == "rego-not-evaluated"


def test_null_members_of_the_document_are_absent() -> None:
    rules = 'trust_claims := {"hardware": 2} if input.a >= 5'
    assert appraised(rules, {"a": None, "b": 1}).outcome.refused
    assert appraised(rules, {"b": {"c": None}, "a": 5}).vector.hardware == 2


@pytest.mark.parametrize("document", [{}, {"a": [None]}, {"a": 0.5}, {"a": 1 << 60}, {"a": None}])
def test_a_document_that_engines_misread_is_an_error(document: Any) -> None:  # noqa: ANN401
    with pytest.raises(EvidenceError) as caught:
        appraised('trust_claims := {"hardware": 2}', document)
    assert caught.value.code == "rego-input-unsound"


def test_a_document_that_is_nested_too_deeply_is_an_error() -> None:
    deep: Any = None
    for _ in range(2000):
        deep = {"a": deep, "b": 1}
    with pytest.raises(EvidenceError, match="deeper"):
        appraised('trust_claims := {"hardware": 2}', deep)


@pytest.mark.parametrize("references", [{"a": None}, {"a": 0.5}])
def test_reference_values_that_engines_misread_are_an_error(references: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError) as caught:
        appraised('trust_claims := {"hardware": 2}', **references)
    assert caught.value.code == "rego-data-invalid"


@pytest.mark.parametrize(
    "rules",
    [
        "trust_claims := opa.runtime()",
        'trust_claims := {"hardware": 2} if http.send({})',
        'trust_claims := {"hardware": 2}\ntrust_claims := {"hardware": 3}',
    ],
)
def test_an_evaluation_that_fails_is_an_error(rules: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        appraised(rules)
    assert caught.value.code == "rego-not-evaluated"


def test_an_evaluation_that_takes_too_long_is_an_error() -> None:
    slow = "x := numbers.range(1, 9000)[_]; y := numbers.range(1, 9000)[_]; x + y == 0"
    policy = read_rego_policy(f'package policy\ntrust_claims := {{"hardware": 2}} {{ {slow} }}'.encode())
    with pytest.raises(ConfigurationError, match="engine") as caught:
        rego_appraisal(policy, {"a": 1}, limits=RegoLimits(seconds=0.5))
    assert caught.value.code == "rego-not-evaluated"


def test_a_misspelled_member_under_not_refuses_and_the_vector_is_kept() -> None:
    found = appraised('trust_claims := {"hardware": 2} if not input.debgu')
    assert found.vector.hardware == 2
    assert "may be a misspelling" in found.outcome.reason


def test_a_warning_of_the_vector_refuses() -> None:
    found = appraised('trust_claims := {"configuration": 36}')
    assert (found.vector.configuration, found.outcome.refused) == (36, True)


RESOURCE = b"""package policy
import rego.v1
default allow = false
allow if {
    data.plugin == "resource"
    data["resource-path"] == ["default", "key", "k1"]
    object.get(data.query, "name", "none") == "value"
    input.submods.cpu0["ear.status"] == "affirming"
}
"""
CLAIMS: dict[str, JsonValue] = {"submods": {"cpu0": {"ear.status": "affirming", "init_data_claims": None}}}


def test_a_resource_policy_sees_the_resource_and_the_claims() -> None:
    policy = read_rego_policy(RESOURCE)
    path, query = ("default", "key", "k1"), {"name": "value"}
    assert not resource_outcome(policy, CLAIMS, plugin="resource", path=path, query=query).refused
    assert resource_outcome(policy, CLAIMS, plugin="other", path=path, query=query).refused
    assert resource_outcome(policy, CLAIMS, plugin="resource", path=path[:2], query=query).refused
    assert resource_outcome(policy, CLAIMS, plugin="resource", path=path).refused
    assert resource_outcome(policy, {"submods": {}}, plugin="resource", path=path, query=query).refused


def test_a_policy_of_the_other_form_is_a_mistake_of_the_caller() -> None:
    claims = read_rego_policy(b"package policy\nexecutables := 3")
    with pytest.raises(ValueError, match="for resources"):
        resource_outcome(claims, CLAIMS, plugin="resource", path=())
    with pytest.raises(ValueError, match="trust claims"):
        rego_appraisal(read_rego_policy(RESOURCE), EVIDENCE)


def test_the_check_of_the_typed_policy_is_as_before() -> None:
    policy = read_rego_policy(b'package policy\ntrust_claims := {"hardware": 97}')
    assert also_refuses(policy, {"a": 1}).claims == {}
    assert isinstance(ConfigurationError("x", code="x"), AttestError)
