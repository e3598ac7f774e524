"""Statements of provenance: one subject, a builder, and the sources as far as they are stated."""

import json

import pytest

from attest.errors import AttestError
from attest.provenance import Provenance, parse_statement
from tests.provenance.sigstore_made import COMMIT, REPOSITORY, Json, changed, statement_0_2, statement_1

DEFINITION = "predicate.buildDefinition"


def parse(statement: object) -> Provenance:
    return parse_statement(json.dumps(statement).encode())


def sources(statement: Json) -> tuple[str | None, str | None, str | None]:
    found = parse(statement)
    return found.repository, found.release, found.commit


def test_the_older_statement_type_is_read_too() -> None:
    assert parse(statement_0_2(_type="https://in-toto.io/Statement/v0.1")) == parse(statement_0_2())


@pytest.mark.parametrize(
    "statement",
    [
        statement_1(_type="https://in-toto.io/Statement/v2"),
        statement_1(predicateType="https://slsa.dev/verification_summary/v1"),
        statement_1(predicateType="https://slsa.dev/provenance/v0.1"),
    ],
)
def test_other_statements_and_predicates_are_unsupported(statement: Json) -> None:
    with pytest.raises(AttestError) as raised:
        parse(statement)
    assert (raised.value.code, raised.value.exit_code) == ("provenance-unsupported", 3)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("_type", ...),
        ("predicateType", 7),
        ("subject", ...),
        ("subject", []),
        ("subject", {}),
        ("subject", statement_1()["subject"] * 2),
        ("subject.0", "fleet.json"),
        ("subject.0.digest", {"sha512": "00" * 64}),
        ("subject.0.digest.sha256", "00" * 31),
        ("subject.0.digest.sha256", "zz" * 32),
        ("subject.0.name", ""),
        ("predicate", []),
        ("predicate.runDetails.builder.id", ...),
        ("predicate.runDetails.builder.id", "x" * 2049),
        ("predicate.runDetails.builder.id", "two\nlines"),
        ("predicate.runDetails.builder.id", ["x"]),
        (f"{DEFINITION}.externalParameters.workflow.repository", 7),
        (f"{DEFINITION}.resolvedDependencies.0.uri", "git+https://a.invalid\x1b[31m"),
    ],
)
def test_a_statement_that_is_not_about_one_document_of_one_builder_is_refused(path: str, value: object) -> None:
    with pytest.raises(AttestError) as raised:
        parse(changed(statement_1(), path, value))
    assert (raised.value.code, raised.value.exit_code) == ("provenance-statement-invalid", 3)
    assert (raised.value.field, raised.value.expected, raised.value.hint) != (None, None, None)


@pytest.mark.parametrize("statement", [[], "text", None, 7])
def test_a_statement_that_is_no_object_is_refused(statement: object) -> None:
    with pytest.raises(AttestError) as raised:
        parse(statement)
    assert raised.value.code == "provenance-statement-invalid"


def test_without_a_workflow_the_first_git_repository_among_the_inputs_is_the_source() -> None:
    bare = changed(statement_1(), f"{DEFINITION}.externalParameters", {})
    assert sources(bare) == (REPOSITORY, "refs/tags/v1.2", COMMIT)
    image = {"uri": "pkg:oci/builder", "digest": {"sha256": "00" * 32}}
    git = {"uri": f"git+{REPOSITORY}", "digest": {"gitCommit": COMMIT}}
    assert sources(changed(bare, f"{DEFINITION}.resolvedDependencies", [image, git])) == (REPOSITORY, None, COMMIT)


def test_what_is_not_stated_is_not_known() -> None:
    bare = changed(statement_1(), f"{DEFINITION}.externalParameters", {})
    assert sources(changed(bare, f"{DEFINITION}.resolvedDependencies", ...)) == (None, None, None)
    assert sources(changed(statement_0_2(), "predicate.invocation", ...)) == (None, None, None)


def test_the_commit_of_another_repository_is_not_that_of_the_sources() -> None:
    moved = changed(statement_1(), f"{DEFINITION}.externalParameters.workflow.repository", "https://other.invalid/x")
    assert sources(moved) == ("https://other.invalid/x", "refs/tags/v1.2", None)
