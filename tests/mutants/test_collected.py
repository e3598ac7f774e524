"""A mutant of a function's body is judged where the tests are collected already; any other is left to be imported."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.mutants.child import Outcome
from tests.mutants.collected import exchanges, judged
from tests.mutants.run import REPOSITORY
from tests.mutants.selection import Batch, Selection

SOURCE = """\
LIMIT = 3
def maker():
    def inner(a):
        return a > LIMIT
    return inner
made = maker()
class Thing:
    def first(self, a): return [one + 1 for one in a]
short, other = (lambda a: a + 1), (lambda a: a + 1)
"""


def functions(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(source, "made.py", "exec"), found)  # noqa: S102  written here
    return found


def exchanged(before: str, after: str) -> dict[str, Any]:
    found = functions(SOURCE)
    live = [found["maker"], found["made"], found["Thing"].first, found["short"], found["other"]]
    pairs = exchanges(SOURCE, SOURCE.replace(before, after), live)
    for function, code in pairs:
        function.__code__ = code
    return found if pairs else {}


@pytest.mark.parametrize(
    ("before", "after", "call", "got"),
    [
        ("a > LIMIT", "a >= LIMIT", lambda found: found["made"](3), True),
        ("a > LIMIT", "a >= LIMIT", lambda found: found["maker"]()(3), True),
        ("one + 1", "one + 2", lambda found: found["Thing"]().first([1]), [3]),
        (", (lambda a: a + 1)", ", (lambda a: a + 2)", lambda found: (found["short"](1), found["other"](1)), (2, 3)),
    ],
)
def test_the_functions_that_exist_get_the_code_of_the_mutant(
    before: str, after: str, call: Callable[[dict[str, Any]], object], got: object
) -> None:
    assert call(exchanged(before, after)) == got


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),  # no function differs
        ("    def inner(a):\n        return a > LIMIT\n    return inner\n", "    return None\n"),
        ("return inner", "return lambda a: inner(a)"),
    ],
)
def test_a_mutant_that_is_no_other_body_is_left_to_be_imported(before: str, after: str) -> None:
    assert exchanged(before, after) == {}


def test_a_function_that_is_not_there_any_more_is_left_to_be_imported() -> None:
    live = [functions(SOURCE)["Thing"].first]
    assert exchanges(SOURCE, SOURCE.replace("a > LIMIT", "a >= LIMIT"), live) == []


class Chosen(Selection):
    """One test for every mutant."""

    def __init__(self, test: str, *, on_import: bool) -> None:
        self.files = (test.partition("::")[0],)
        self.test = test
        self.on_import = on_import

    def batches(self, path: str, line: int, source: str) -> tuple[Batch, ...]:
        return (Batch((self.test,), 1.0),)

    def runs_on_import(self, path: str, line: int, source: str) -> bool:
        return self.on_import

    def seconds(self, test: str) -> float:
        return 1.0


ANSWER = "tests/mutants/sample/answer.py"


def outcome(test: str, *, after: str = "return 43", on_import: bool = False) -> tuple[str | None, tuple[str, ...]]:
    source = (REPOSITORY / ANSWER).read_text()
    mutant = {"path": ANSWER, "line": 6, "source": source.replace("return 42", after), "name": "n"}
    selection = Chosen(f"tests/mutants/sample/{test}", on_import=on_import)
    (found,) = judged(iter([mutant]), selection, jobs=1, ends=None)
    return found.outcome, found.failed


def test_a_mutant_is_killed_by_the_test_that_fails() -> None:
    test = "check_answer.py::test_the_answer"
    assert outcome(test) == (Outcome.KILLED, (f"tests/mutants/sample/{test}",))
    assert outcome(test, after="return 40 + 2")[0] == Outcome.SURVIVED


@pytest.mark.parametrize("test", ["check_nothing.py::test_nothing", "check_answer.py::test_none"])
def test_a_mutant_that_no_test_imports_is_to_be_imported(test: str) -> None:
    assert outcome(test) == (None, ())


def test_what_runs_on_import_is_to_be_imported_and_what_fails_here_is_asked_first() -> None:
    test = "check_answer.py::test_the_answer"
    assert outcome(test, on_import=True) == (None, (f"tests/mutants/sample/{test}",))


def test_tests_that_cannot_be_collected_judge_nothing() -> None:
    with pytest.raises(RuntimeError, match="cannot be collected"):
        outcome("check_absent.py::test_the_answer")
