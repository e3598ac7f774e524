"""The tests for a mutant: those that reach its statement first, then those that come near it."""

import json
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.mutants.selection import Selection, is_declaration, statement_lines, statement_names

SOURCE = """\
LIMIT = 3

def f(a):
    if (
        a
        > LIMIT
    ):
        return g(
            a,
        )
    return 0
"""
NEAR, FAR = "tests/things/test_thing.py", "tests/else/test_all.py"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (NEAR, FAR):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)


def selection(folder: Path, lines: dict[str, list[int]], seconds: dict[str, float] | None = None) -> Selection:
    data = CoverageData(str(folder / "core.coverage"))
    for context, reached in lines.items():
        data.set_context(context)
        data.add_lines({"things/thing.py": reached})
    data.write()
    tests = {name.partition("|")[0]: 0.01 for name in lines if name}
    (folder / "core.json").write_text(json.dumps(tests | (seconds or {})))
    return Selection(folder)


@pytest.mark.parametrize(("line", "lines"), [(1, [1]), (5, [4, 5, 6, 7]), (9, [8, 9, 10]), (11, [11]), (3, [3])])
def test_a_statement_is_found_by_any_of_its_lines(line: int, lines: list[int]) -> None:
    assert list(statement_lines(SOURCE, line)) == lines


def test_a_constant_and_a_function_are_known_by_their_names() -> None:
    assert statement_names(SOURCE, 1) == {"LIMIT"}
    assert statement_names(SOURCE, 5) == {"f"}
    assert statement_names(SOURCE, 2) == frozenset()


@pytest.mark.parametrize(("line", "declares"), [(1, True), (3, True), (4, False), (9, False), (11, False)])
def test_a_line_in_no_body_is_a_declaration(line: int, declares: bool) -> None:
    assert is_declaration(SOURCE, line) is declares


def test_tests_that_reach_the_statement_come_first_and_the_nearest_file_before_others(tmp_path: Path) -> None:
    found = selection(
        tmp_path,
        {
            "": [1, 3],
            f"{NEAR}::test_b|run": [4, 8],
            f"{FAR}::test_c|run": [4, 8, 11],
            f"{NEAR}::test_a|setup": [4],
            f"{FAR}::test_d|run": [11],
        },
    )
    batches = [batch.tests for batch in found.batches("things/thing.py", 9, SOURCE)]
    assert batches == [(f"{NEAR}::test_b",), (f"{FAR}::test_c",), (f"{NEAR}::test_a",)]
    assert found.files == (FAR, NEAR)


def test_several_runs_count_together(tmp_path: Path) -> None:
    selection(tmp_path, {f"{NEAR}::test_b|run": [11]})
    for name in ("core.coverage", "core.json"):
        (tmp_path / name).rename(tmp_path / name.replace("core", "more"))
    found = selection(tmp_path, {f"{FAR}::test_c|run": [11]})
    batches = [batch.tests for batch in found.batches("things/thing.py", 11, SOURCE)]
    assert batches == [(f"{NEAR}::test_b",), (f"{FAR}::test_c",)]


def test_one_case_of_each_function_runs_before_the_second_of_any(tmp_path: Path) -> None:
    cases = [f"{NEAR}::test_many[{number}]" for number in range(3)]
    found = selection(tmp_path, {f"{name}|run": [11] for name in (*cases, f"{NEAR}::test_one")})
    (batch,) = found.batches("things/thing.py", 11, SOURCE)
    assert batch.tests == (cases[0], f"{NEAR}::test_one", *cases[1:])


def test_a_file_that_imports_the_module_is_nearer_than_one_that_is_named_like_it(tmp_path: Path) -> None:
    importing = "tests/else/test_importing.py"
    (tmp_path / importing).write_text("from things.thing import f\n")
    found = selection(tmp_path, {f"{NEAR}::test_near|run": [11], f"{importing}::test_f|run": [11]})
    batches = [batch.tests for batch in found.batches("things/thing.py", 11, SOURCE)]
    assert batches == [(f"{importing}::test_f",), (f"{NEAR}::test_near",)]


def test_the_case_of_the_module_comes_before_all_others(tmp_path: Path) -> None:
    cases = (f"{NEAR}::test_a", f"{NEAR}::test_many[things.other]", f"{NEAR}::test_many[things.thing]")
    found = selection(tmp_path, {f"{case}|run": [11] for case in cases}, {cases[2]: 0.5})
    (batch,) = found.batches("things/thing.py", 11, SOURCE)
    assert batch.tests == (cases[2], cases[0], cases[1])


def test_a_batch_takes_the_time_it_may_and_at_least_one_test(tmp_path: Path) -> None:
    slow = {f"{NEAR}::test_slow": 100.0, f"{NEAR}::test_slower": 200.0}
    found = selection(tmp_path, {f"{name}|run": [11] for name in slow}, slow)
    (batch,) = found.batches("things/thing.py", 11, SOURCE)
    assert batch.tests == (f"{NEAR}::test_slow",)
    assert batch.seconds == pytest.approx(100.2)


def test_nothing_runs_for_a_line_that_no_test_comes_near(tmp_path: Path) -> None:
    found = selection(tmp_path, {f"{NEAR}::test_b|run": [4]})
    assert found.batches("things/other.py", 9, SOURCE) == ()


def test_a_constant_is_judged_by_the_tests_that_name_it(tmp_path: Path) -> None:
    naming = "tests/else/test_naming.py"
    (tmp_path / naming).write_text("assert thing.LIMIT == 3\n")
    found = selection(
        tmp_path, {f"{naming}::test_limit|run": [99], f"{NEAR}::test_near|run": [], f"{FAR}::test_other|run": [4]}
    )
    assert [batch.tests for batch in found.batches("things/thing.py", 1, SOURCE)] == [
        (f"{naming}::test_limit",),
        (f"{NEAR}::test_near",),
        (f"{FAR}::test_other",),
    ]


def test_a_constant_that_a_test_imports_first_is_judged_by_the_tests_that_name_it(tmp_path: Path) -> None:
    naming = "tests/else/test_naming_late.py"
    (tmp_path / naming).write_text("assert thing.LIMIT == 3\n")
    found = selection(tmp_path, {f"{FAR}::test_first|run": [1], f"{naming}::test_limit|run": [99]})
    assert [batch.tests for batch in found.batches("things/thing.py", 1, SOURCE)] == [
        (f"{naming}::test_limit",),
        (f"{FAR}::test_first",),
    ]


def test_a_constant_of_a_module_without_functions_is_judged_by_the_tests_that_name_it(tmp_path: Path) -> None:
    naming = "tests/else/test_naming_it.py"
    (tmp_path / naming).write_text("assert thing.LIMIT == 3\n")
    found = selection(tmp_path, {"": [1], f"{naming}::test_limit|run": [], f"{NEAR}::test_near|run": []})
    assert [batch.tests for batch in found.batches("things/thing.py", 1, SOURCE)] == [(f"{naming}::test_limit",)]


def test_tests_of_files_that_are_gone_are_not_asked(tmp_path: Path) -> None:
    gone = {"tests/gone/test_gone.py::test_gone|run": [11]}
    assert selection(tmp_path, gone).batches("things/thing.py", 11, SOURCE) == ()
