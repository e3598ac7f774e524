"""The rate, and what it takes to be one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.child import PROJECT, Mutation, Outcome, fork, outcome_of
from tests.mutants.run import REPOSITORY, Results, Tally, excused_survivors

HERE = Path(__file__).relative_to(REPOSITORY).as_posix()


def mutant(after: str = "b") -> dict[str, Any]:
    return {"path": "p.py", "line": 3, "before": "a", "after": after, "name": "n"}


def tally(**outcomes: int) -> Tally:
    found = Tally(excuses={("p.py", "a", "excused"): "no test can tell"})
    for outcome, count in outcomes.items():
        for _ in range(count):
            found.add(mutant(), outcome)
    return found


@pytest.mark.parametrize(
    ("killed", "survived", "status"), [(0, 0, 2), (20, 0, 0), (19, 1, 0), (57, 3, 0), (56, 4, 1), (0, 1, 1)]
)
def test_nineteen_of_twenty_are_to_be_killed_and_nothing_judged_is_a_failure(
    killed: int, survived: int, status: int
) -> None:
    assert tally(killed=killed, survived=survived, unjudged=7).exit_status() == status


def test_a_survivor_with_a_reason_counts_for_nothing_and_is_named_once_it_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = tally(killed=1)
    found.add(mutant("excused"), Outcome.SURVIVED)
    assert (found.judged, found.excused, found.exit_status()) == (1, 1, 0)
    assert capsys.readouterr().out == ""
    found.add(mutant("excused"), Outcome.KILLED)
    assert found.judged == 2
    assert "needs no reason" in capsys.readouterr().out


def test_each_survivor_with_a_reason_is_a_line_that_exists() -> None:
    for (path, before, _), reason in excused_survivors().items():
        assert reason
        assert "".join(before.split()) in "".join((REPOSITORY / path).read_text().split()), (path, before)


def test_what_was_killed_stays_so_until_its_file_changes(tmp_path: Path) -> None:
    kept = tmp_path / "killed.txt"
    results = Results(kept)
    assert results.before == 0
    results.add(f"{HERE}@0000000000000000:NumberReplacer:1")
    assert Results(kept).before == 0
    assert kept.read_text() == ""


MUTATED = "def answer() -> int:\n    return {}\n"


@pytest.mark.parametrize(("answer", "outcome"), [(42, Outcome.SURVIVED), (43, Outcome.KILLED)])
def test_a_mutant_is_imported_in_place_of_its_module(tmp_path: Path, answer: int, outcome: str) -> None:
    tests = ("tests/mutants/sample/check_answer.py::test_the_answer",)
    assert judged(tests, MUTATED.format(answer), tmp_path) == outcome


@pytest.mark.parametrize("test", ["check_nothing.py::test_nothing", "check_answer.py::test_none"])
def test_a_mutant_that_no_test_imports_survives(tmp_path: Path, test: str) -> None:
    assert judged((f"tests/mutants/sample/{test}",), MUTATED.format(43), tmp_path) == Outcome.SURVIVED


def test_a_mutant_that_does_not_end_is_killed_by_the_processor_time_it_takes(tmp_path: Path) -> None:
    endless = "def answer() -> int:\n    while True: pass\n"
    assert judged(("tests/mutants/sample/check_answer.py::test_the_answer",), endless, tmp_path) == Outcome.KILLED


def judged(tests: tuple[str, ...], source: str, folder: Path) -> str:
    pid = fork(tests, Mutation("tests/mutants/sample/answer.py", source), cpu=5, wall=280, notes=folder)
    _, status = os.waitpid(pid, 0)
    return outcome_of(status)


def test_nothing_that_imports_the_core_is_loaded_before_the_fork() -> None:
    # A mutant of a module that is there already is never imported, and would survive whatever the tests are.
    for module, status in (("cbor2", 0), ("attest_simulator.machines", 1)):
        code = f"from tests.mutants.child import load; load([{module!r}])"
        done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert ("is imported before the fork" in done.stderr) is bool(status)
    assert {file.name for file in (REPOSITORY / "simulator").glob("attest_*")} <= PROJECT
