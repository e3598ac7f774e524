"""Tests to run for a mutant, by what a traced run of the suite says about each line."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

__all__ = ["Batch", "Selection", "statement_lines", "statement_names"]

UNKNOWN_SECONDS = 0.5
FILE_SECONDS = 0.2
"""What importing one more file of tests costs."""
IMPORTED = 100
"""More than any two paths have words in common."""


class Batch(NamedTuple):
    """Tests that run in one process, in this order."""

    tests: tuple[str, ...]
    seconds: float
    """Estimate."""


class Selection:
    """Which tests reach which line, and how long they take."""

    def __init__(self, folder: Path) -> None:
        """Read traced runs.

        Args:
            folder: holds a pair of files for each run: NAME.coverage, written by coverage with one context a test, and
                NAME.json, written by `tests.mutants.durations`.
        """
        self._runs = tuple(sorted(folder.glob("*.coverage")))
        traced: dict[str, float] = {}
        for run in self._runs:
            traced |= json.loads(run.with_suffix(".json").read_text(encoding="utf-8"))
        self.files = tuple(sorted(file for file in {_file(test) for test in traced} if Path(file).is_file()))
        """Every file that holds a traced test."""
        self._seconds = {test: seconds for test, seconds in traced.items() if _file(test) in self.files}
        self._by_line = cache(self._reached)
        self._imported: defaultdict[str, set[int]] = defaultdict(set)

    def quickest(self, count: int) -> tuple[str, ...]:
        """Return so many tests that take least."""
        return tuple(sorted(self._seconds, key=lambda test: (self._seconds[test], test))[:count])

    def batches(self, path: str, line: int, source: str) -> tuple[Batch, ...]:
        """Return the tests for a mutant: the nearest and quickest first.

        First those of the nearest files that reach the statement, then all others that do, then the nearest that reach
        anything of the module: a result that is remembered hides its second caller from the trace. What runs when it
        is imported is reached by no test: for that, those that name the constant or the class, then those of the
        nearest files, then all that reach the module.
        """
        by_line = self._by_line(path)
        reaching = {test for number in statement_lines(source, line) for test in by_line.get(number, ())}
        others = {test for tests in by_line.values() for test in tests} - reaching
        stages: tuple[tuple[set[str], float], ...]
        if reaching and not is_declaration(source, line):
            near, also = _nearest(path, reaching), _nearest(path, others)
            stages = (
                ({test for test in reaching if _file(test) in near}, 10.0),
                ({test for test in reaching if _file(test) not in near}, 15.0),
                ({test for test in others if _file(test) in also}, 10.0),
            )
        else:
            others |= reaching
            naming = self._naming(statement_names(source, line))
            near = _nearest(path, self._seconds.keys() - naming) if others else frozenset()
            beside = {one for one in self._seconds.keys() - naming if _file(one) in near}
            stages = ((naming, 10.0), (beside, 10.0), (others - naming - beside, 15.0))
        batches = (self._within(_ordered(path, tests, self._seconds), limit) for tests, limit in stages)
        return tuple(batch for batch in batches if batch.tests)

    def seconds(self, test: str) -> float:
        """Return how long a test takes; an estimate."""
        return self._seconds.get(test, UNKNOWN_SECONDS)

    def runs_on_import(self, path: str, line: int, source: str) -> bool:
        """Return whether a statement runs before any test does: on import, or while the tests are collected."""
        self._by_line(path)
        return not self._imported[path].isdisjoint(statement_lines(source, line))

    def _naming(self, names: frozenset[str]) -> set[str]:
        """Return the tests of files that speak of a constant; its line ran when it was imported, for no test."""
        return {test for file in self.files if names & _words(file) for test in self._of_file(file)}

    def _of_file(self, file: str) -> tuple[str, ...]:
        return tuple(test for test in self._seconds if _file(test) == file)

    def _reached(self, path: str) -> dict[int, set[str]]:
        tests: defaultdict[int, set[str]] = defaultdict(set)
        for run in self._runs:
            # A process that is forked must not use what its parent opened: coverage would erase the file.
            data = CoverageData(str(run))
            data.read()
            for line, names in data.contexts_by_lineno(path).items():
                # A context is "NODE-ID|PHASE"; the empty one is that of no test.
                tests[line].update(name.rpartition("|")[0] for name in names)
                if "" in names:
                    self._imported[path].add(line)
            data.close(force=True)
        return {line: found & self._seconds.keys() for line, found in tests.items()}

    def _within(self, tests: Iterable[str], limit: float) -> Batch:
        chosen: list[str] = []
        files: set[str] = set()
        spent = 0.0
        for test in tests:
            cost = self._seconds.get(test, UNKNOWN_SECONDS) + (FILE_SECONDS if _file(test) not in files else 0)
            if spent + cost <= limit or not chosen:
                chosen.append(test)
                files.add(_file(test))
                spent += cost
        return Batch(tuple(chosen), spent)


def statement_lines(source: str, line: int) -> range:
    """Return the lines of the innermost statement that holds a line; of a compound one, those before its body."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            begin = min((node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))))
            end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
            if begin <= line < end:
                best = range(begin, end)
    return best


def is_declaration(source: str, line: int) -> bool:
    """Return whether a line is in no function's body: it runs once, when the module is imported, whoever does that."""
    return not any(
        node.body[0].lineno <= line <= (node.end_lineno or line)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    )


def statement_names(source: str, line: int) -> frozenset[str]:
    """Return what the top-level statement that holds a line defines: constants, a class or a function."""
    for node in ast.parse(source).body:
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            return frozenset((node.name,))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return frozenset(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return frozenset()


@cache
def _words(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", Path(file).read_text(encoding="utf-8")))


def _file(test: str) -> str:
    return test.partition("::")[0]


def _nearest(path: str, tests: Iterable[str]) -> frozenset[str]:
    """Return the files of tests whose path has most in common with that of a module."""
    files = {_file(test) for test in tests}
    least = min((_distance(path, file) for file in files), default=0)
    return frozenset(file for file in files if _distance(path, file) == least)


@cache
def _distance(path: str, file: str) -> int:
    """Return less for what is nearer: files that import the module, and those that are named like it."""
    words = frozenset(chain.from_iterable(part.removesuffix(".py").split("_") for part in path.split("/")))
    others = frozenset(chain.from_iterable(part.removesuffix(".py").split("_") for part in file.split("/")))
    return -len(words & others) - (IMPORTED if _module(path) in _imported(file) else 0)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _imported(file: str) -> frozenset[str]:
    source = Path(file)
    nodes = ast.walk(ast.parse(source.read_text(encoding="utf-8"))) if source.is_file() else ()
    return frozenset(node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None)


def _ordered(path: str, tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """Order tests: in each round one case of each test function, those of near files and quick ones first."""

    def cost(test: str) -> tuple[bool, float, str]:
        return f"[{_module(path)}]" not in test, seconds.get(test, UNKNOWN_SECONDS), test

    functions: dict[str, list[str]] = {}
    for test in sorted(tests, key=cost):
        functions.setdefault(test.partition("[")[0], []).append(test)
    rounds = zip_longest(
        *sorted(
            functions.values(), key=lambda cases: (cost(cases[0])[0], _distance(path, _file(cases[0])), cost(cases[0]))
        )
    )
    return [test for cases in rounds for test in cases if test is not None]
