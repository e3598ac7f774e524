"""The error tree: one file a package, and every error survives being copied and pickled."""

import ast
import copy
import pickle
import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

import attest.errors
import kms.domain.errors
import rag_demo.client.errors
import rag_demo.enclave.errors
from attest.checks import Check, Outcome
from attest.errors import AttestError, ChainError, LeaseLostError, PolicyNotMetError, SignatureError

REPOSITORY = Path(__file__).resolve().parent.parent
HOMES = ("attest/errors.py", "kms/domain/errors.py", "rag_demo/client/errors.py", "rag_demo/enclave/errors.py")
FAILED_CHECKS = ({"id": "policy.debug", "outcome": "fail"},)
CHECKS = (Check(id="snp.signature", outcome=Outcome.FAIL, expected="it verifies", got="it does not", clause="C-1"),)


def plain(kind: type[Any]) -> AttestError:
    error: AttestError = kind(
        "text",
        code="report-unreadable",
        check="snp.signature",
        field="REPORT_DATA",
        offset=0x50,
        line=3,
        column=7,
        expected="64 bytes",
        got="63 bytes",
        clause="AMD 56860, table 22",
        hint="ask again",
        retryable=True,
    )
    return error


def release_refused(kind: type[Any]) -> AttestError:
    error: AttestError = kind("text", code="policy-not-met", status=429, failed_checks=FAILED_CHECKS, retry_after=2.5)
    return error


MAKERS: dict[str, Callable[[type[Any]], AttestError]] = {
    "AttestError": plain,
    "LogForkedError": lambda kind: kind(remembered="note one", received="note two"),
    "ServiceNotGenuineError": lambda kind: kind(plain(SignatureError), url="https://kms.example"),
    "ServiceUnreachableError": lambda kind: kind("text", url="https://kms.example", tried=("refused", "late")),
    "ReleaseRefusedError": release_refused,
    "LeaseLostError": lambda kind: kind("text", code="lease-lost", cause=release_refused(PolicyNotMetError)),
    "AgentRefusedError": lambda kind: kind("text", code="no-key", status=503, headers=(("Allow", "GET"),)),
    "AgentUnavailableError": lambda kind: kind("text", code="agent-unreachable", hint="start it"),
    "OutputError": lambda kind: kind("text", code="output-exists", field="k.pem", reason="exists", written=True),
    "RefusedError": lambda kind: kind("text", code="rag-busy", status=HTTPStatus.TOO_MANY_REQUESTS, retry_seconds=3),
    "RateLimitedError": lambda kind: kind("text", retry_seconds=3),
    "RagRefusedError": lambda kind: kind("text", code="rag-busy", status=429),
}
"""How an error is made, by the class that has the constructor."""


MODULES = (attest.errors, kms.domain.errors, rag_demo.client.errors, rag_demo.enclave.errors)
TREE = tuple(
    found
    for module in MODULES
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, AttestError) and found.__module__ == module.__name__
)


def made(kind: type[AttestError]) -> AttestError:
    owner = next(base.__name__ for base in kind.__mro__ if "__init__" in vars(base))
    error = MAKERS[owner](kind)
    error.checks = CHECKS
    return error


def through_pickle(error: AttestError) -> AttestError:
    copied: AttestError = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    return copied


WAYS: tuple[Callable[[AttestError], AttestError], ...] = (copy.copy, copy.deepcopy, through_pickle)


@pytest.mark.parametrize("way", WAYS, ids=["copied", "copied deeply", "pickled"])
@pytest.mark.parametrize("kind", TREE, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_an_error_survives(kind: type[AttestError], way: Callable[[AttestError], AttestError]) -> None:
    error = made(kind)
    copied = way(error)
    assert copied is not error
    assert type(copied) is kind
    assert copied.args == error.args
    assert vars(copied) == vars(error)
    assert copied.context() == error.context()
    assert copied.checks == CHECKS
    assert copied.exit_code == error.exit_code


@pytest.mark.parametrize("way", WAYS, ids=["copied", "copied deeply", "pickled"])
def test_a_copy_keeps_a_cause_of_the_tree_and_its_notes(way: Callable[[AttestError], AttestError]) -> None:
    error = plain(SignatureError)
    error.__cause__ = plain(ChainError)
    error.__cause__.__cause__ = made(LeaseLostError)
    error.add_note("seen at the edge")
    copied = way(error)
    assert copied.__notes__ == ["seen at the edge"]
    assert isinstance(copied.__cause__, ChainError)
    assert copied.__cause__.message == "text"
    assert isinstance(copied.__cause__.__cause__, LeaseLostError)
    assert isinstance(copied.__cause__.__cause__.__cause__, PolicyNotMetError)


@pytest.mark.parametrize("way", WAYS, ids=["copied", "copied deeply", "pickled"])
def test_a_copy_leaves_a_foreign_cause_behind(way: Callable[[AttestError], AttestError]) -> None:
    error = plain(SignatureError)
    error.__cause__ = OSError("holds what cannot be pickled", lambda: None)
    copied = way(error)
    assert copied.__cause__ is None
    assert error.__cause__ is not None


def test_an_error_that_is_raised_again_after_a_copy_is_caught_by_its_type() -> None:
    with pytest.raises(SignatureError, match="text") as caught:
        raise through_pickle(plain(SignatureError))
    assert caught.value.code == "report-unreadable"


def test_the_tree_has_every_class_of_its_files() -> None:
    defined = [name for home in HOMES for name, bases in classes_of(REPOSITORY / home) if bases]
    assert sorted(defined) == sorted(kind.__name__ for kind in TREE)
    assert all(issubclass(kind, AttestError) for kind in TREE)


def classes_of(path: Path) -> Iterator[tuple[str, set[str]]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name, {base.id for base in node.bases if isinstance(base, ast.Name)}


def test_every_class_of_the_tree_stands_in_the_file_of_its_package() -> None:
    names = {kind.__name__ for kind in TREE}
    elsewhere = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for package in ("attest", "kms", "rag_demo")
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if str(path.relative_to(REPOSITORY)) not in HOMES
        for name, bases in classes_of(path)
        if bases & names
    ]
    assert elsewhere == []


@pytest.mark.parametrize("home", HOMES)
def test_the_tree_is_drawn_where_it_stands(home: str) -> None:
    module = ast.parse((REPOSITORY / home).read_text())
    drawing = ast.get_docstring(module) or ""
    drawn = set(re.findall(r"\w+", drawing))
    assert [name for name, bases in classes_of(REPOSITORY / home) if bases and name not in drawn] == []
