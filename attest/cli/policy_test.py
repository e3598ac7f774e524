"""``attest policy test``: the cases of a policy, appraised offline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.reference_options import References
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.cli.options import VerificationOptions
    from attest.encoding import JsonValue
    from attest.policy import Policy
    from attest.policy.authoring.policy_cases import CaseResult, PolicyCase, PolicyTests

TEST_SCHEMA = "attest.policy-test/1"
EXIT_FAILED = 1
MAX_TESTS_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One case with its outcome, and the differences from the expected one: none for a case that passes."""

    file: str
    case: PolicyCase
    answer: CaseResult
    problems: tuple[str, ...]


@click.command(
    "test",
    cls=ExampleCommand,
    short_help="Test policies with the cases beside them.",
    examples=(
        "attest policy test                       # every *.tests.yaml below this directory",
        "attest policy test policies/my-policy.tests.yaml",
        "attest policy test policies/my-policy.yaml --json",
    ),
)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@display_options
def test_(files: tuple[str, ...], display: Display) -> int:
    """Appraise recorded evidence by a policy, and compare the result with each case. Nothing is fetched.

    FILE is a file of cases (NAME.tests.yaml), the policy beside it, or a directory.

    Exit codes: 0 every case has the expected result, 1 one has not, 2 a file is wrong or there is no case.
    """
    listed = [path for name in files or (".",) for path in _cases_files(Path(name))]
    if not listed:
        raise click.UsageError("there is no file of cases (*.tests.yaml)")
    tried = [one for path in listed for one in _try_file(path)]
    failed = [one for one in tried if one.problems]
    if display.json:
        print_document(_document(tried, failed))
    elif not display.quiet:
        _print(tried, verbose=display.verbose)
    return EXIT_FAILED if failed else 0


def _cases_files(path: Path) -> list[Path]:
    """Return the files of cases for a name on the command line."""
    from attest.policy.authoring.policy_cases import SUFFIX

    if path.is_dir():
        return sorted(path.rglob(f"*{SUFFIX}"))
    if path.name.endswith(SUFFIX) or not path.is_file():
        return [path]
    beside = path.with_name(f"{path.stem}{SUFFIX}")
    if not beside.exists() and not _is_cases(path):
        raise click.UsageError(f"there are no cases beside {path}: {beside.name} does not exist")
    return [beside if beside.exists() else path]


def _is_cases(path: Path) -> bool:
    """Return True if a file with another name holds cases."""
    from attest.cli.files import read_file

    return b"attest.policy-tests/" in read_file(str(path), limit=MAX_TESTS_BYTES, what="FILE")


def _try_file(path: Path) -> Iterator[Tried]:
    from attest.policy.authoring.policy_cases import differences

    policy, cases = read_tests(path)
    for case in cases:
        answer = try_case(case, policy, folder=path.parent)
        yield Tried(file=str(path), case=case, answer=answer, problems=differences(case, answer))


def read_tests(path: Path) -> tuple[Policy, tuple[PolicyCase, ...]]:
    """Read a file of cases, and the policy that they are about.

    Raises:
        ConfigurationError: one of them cannot be read, or is invalid; the message names the file.
    """
    from attest.cli.files import read_file
    from attest.cli.policies import read_policy, read_reference_documents
    from attest.policy.authoring.policy_cases import load_tests, policy_name_of

    tests = load_tests(read_file(str(path), limit=MAX_TESTS_BYTES, what="FILE"), name=str(path))
    name = tests.policy or policy_name_of(path.name)
    documents = read_reference_documents(_beside(tests, path.parent))
    return read_policy(str(path.parent / name), documents=documents, what="policy"), tests.cases


def _beside(tests: PolicyTests, folder: Path) -> References:
    """Name the documents of reference values as the command line would."""
    rows = tests.references
    return References(
        documents=tuple(str(folder / row.document) for row in rows),
        signatures=tuple(dict.fromkeys(str(folder / name) for row in rows for name in row.signatures)),
        keys=tuple(dict.fromkeys(str(folder / name) for row in rows for name in row.keys)),
    )


def try_case(case: PolicyCase, policy: Policy, *, folder: Path) -> CaseResult:
    """Judge the evidence of a case by a policy, offline and at the moment that it names.

    Raises:
        ConfigurationError: a file of the case cannot be read.
    """
    from attest.cli.output import REFUSALS
    from attest.cli.verification_inputs import Case, appraise_case, open_case
    from attest.policy.authoring.policy_cases import CaseResult

    question = _question(case, folder)
    try:
        opened = open_case(question, at=case.at)
        if not isinstance(opened, Case):
            details = ("a token has no evidence to appraise",)
            return CaseResult(outcome="refused", error="evidence-unsupported", details=details)
        result = appraise_case(opened, policy)
    except REFUSALS as exc:
        return CaseResult(outcome="refused", error=exc.code, details=(f"{exc.code}: {exc.message}",))
    return CaseResult(
        outcome="affirmed" if result.affirmed else "not-affirmed",
        failed=tuple(dict.fromkeys(check.id for check in result.failed)),
        details=tuple(f"{check.id}: expected {check.expected}, got {check.got}" for check in result.failed),
    )


def _question(case: PolicyCase, folder: Path) -> VerificationOptions:
    """Return the options that the command line would have, with the files of the case beside its file."""
    from attest.cli.options import VerificationOptions

    return VerificationOptions(
        inputs=tuple(str(folder / name) for name in case.evidence),
        endorsements=tuple(str(folder / name) for name in case.endorsements),
        at=case.at,
        nonce=case.nonce,
        offline=True,
        unchecked=case.unchecked,
        eventlog=None if case.event_log is None else str(folder / case.event_log),
        allow_simulated=case.allow_simulated,
        display=Display(quiet=True),
    )


# -- what is shown


def _print(tried: list[Tried], *, verbose: bool) -> None:
    from attest.terminal.visible_text import visible

    file = None
    for one in tried:
        if one.file != file:
            file = one.file
            click.echo(visible(file))
        word = "FAIL" if one.problems else "pass"
        click.echo(f"  {word}  {visible(one.case.name)}: {one.answer.outcome}")
        for line in one.problems or (one.answer.details if verbose else ()):
            click.echo(f"        {visible(line)}")
    failed = sum(1 for one in tried if one.problems)
    click.echo(f"{len(tried)} case{'s' * (len(tried) != 1)}, {failed} failed")


def _document(tried: list[Tried], failed: list[Tried]) -> dict[str, JsonValue]:
    return {
        "schema": TEST_SCHEMA,
        "outcome": "failed" if failed else "passed",
        "cases": list(map(_case, tried)),
        "count": len(tried),
        "failed": len(failed),
    }


def _case(one: Tried) -> JsonValue:
    return {
        "file": one.file,
        "name": one.case.name,
        "outcome": "failed" if one.problems else "passed",
        "expected": one.case.expect,
        "got": one.answer.outcome,
        "failed": [*one.answer.failed],
        **({} if one.answer.error is None else {"error": one.answer.error}),
        "problems": [*one.problems],
    }
