"""Tests that are collected once; a mutant of a function's body is judged in a process forked from there.

Importing and collecting the tests takes longer than most mutants live. Where a change lies in the body of a function,
its code is exchanged in the fork, and nothing is imported anew. That judges a function that does not run before the
tests do. Of one that does, it finds the tests to ask first; it is judged by a process that imports it (`child.fork`),
and so is any other mutant.
"""

import gc
import json
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn, TextIO

import pytest

from tests.mutants.child import OPTIONS, Outcome, end, limit, outcome_of, write_to
from tests.mutants.selection import Selection

__all__ = ["Judgement", "exchanges", "judged"]

WALL_SECONDS = 180
_SURVIVED, _KILLED, _NO_TESTS = 0, 1, 5
_Key = tuple[str, int, bytes]


class Judgement(NamedTuple):
    """What became of a mutant here."""

    mutant: Mapping[str, Any]
    outcome: str | None
    """None: it has to be imported."""
    failed: tuple[str, ...]


def judged(
    mutants: Iterator[Mapping[str, Any]], selection: Selection, *, jobs: int, ends: float | None
) -> Iterator[Judgement]:
    """Judge mutants in a process that has collected all tests; give each with its outcome.

    Raises:
        RuntimeError: the tests cannot be collected, or a test that killed a mutant fails without one as well.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            _serve(_Session(mutants, selection, jobs=jobs, ends=ends, pipe=pipe))
    os.close(write)
    with os.fdopen(read) as pipe:
        for line in pipe:
            row = json.loads(line)
            if "broken" in row:
                raise RuntimeError(row["broken"])
            yield Judgement(row["mutant"], row["outcome"], tuple(row["failed"]))
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError("the tests cannot be collected: run pytest on them")


def _serve(session: "_Session") -> NoReturn:
    status = 1
    try:
        write_to(Path(os.devnull))
        with tempfile.TemporaryDirectory() as folder:
            session.notes = Path(folder)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # its processes do not live to remove what they leave
            # Tests that capture output do so themselves; all others would share one file with their siblings.
            status = int(pytest.main([*OPTIONS, "--capture=no", *session.files], plugins=[session]))
    finally:
        end(status)


class _Session:
    """The plugin that judges mutants in place of running what was collected."""

    def __init__(
        self,
        mutants: Iterator[Mapping[str, Any]],
        selection: Selection,
        *,
        jobs: int,
        ends: float | None,
        pipe: TextIO,
    ) -> None:
        self.files = selection.files
        self.notes = Path()
        self._mutants = mutants
        self._selection = selection
        self._jobs = jobs
        self._ends = ends
        self._pipe = pipe
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._failed: list[str] = []
        self._killers: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _live_functions()
        gc.freeze()
        self._judge_all()
        if self._killers:
            self._require_pass_without_a_mutant(sorted(self._killers))
        return True

    def _require_pass_without_a_mutant(self, tests: Sequence[str]) -> None:
        limit = sum(self._selection.seconds(test) for test in tests)
        pid = self._fork(tests, None, cpu=60 + 10 * limit, wall=WALL_SECONDS + 60 * limit)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            failed = ", ".join(_noted(self.notes / f"{pid}.json")) or f"they end with status {status}"
            self._write({"broken": f"tests that killed a mutant fail without one as well: {failed}"})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _judge_all(self) -> None:
        running: dict[int, Mapping[str, Any]] = {}
        while True:
            while len(running) < self._jobs and (mutant := self._next()) is not None:
                running[self._start(mutant)] = mutant
            if not running:
                return
            pid, status = os.wait()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._tell(running.pop(pid), status, _noted(self.notes / f"{pid}.json"))

    def _next(self) -> Mapping[str, Any] | None:
        if self._ends is not None and time.monotonic() > self._ends:
            return None
        return next(self._mutants, None)

    def _start(self, mutant: Mapping[str, Any]) -> int:
        source = Path(mutant["path"]).read_text(encoding="utf-8")
        batches = self._selection.batches(mutant["path"], mutant["line"], source)
        tests = [test for batch in batches for test in batch.tests if test in self._items]
        left = WALL_SECONDS if self._ends is None else max(0.1, self._ends - time.monotonic())
        cpu = 20 + 3 * sum(batch.seconds for batch in batches)
        return self._fork(tests, mutant, cpu=cpu, wall=min(WALL_SECONDS, left))

    def _fork(self, tests: Sequence[str], mutant: Mapping[str, Any] | None, *, cpu: float, wall: float) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = _NO_TESTS
        try:
            limit(cpu=cpu, wall=wall)
            if tests and (mutant is None or self._exchange(mutant)):
                status = _KILLED
                status = self._run([self._items[test] for test in tests])
            (self.notes / f"{os.getpid()}.json").write_text(json.dumps(self._failed), encoding="utf-8")
        finally:
            end(status)

    def _run(self, chosen: Sequence[pytest.Item]) -> int:
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return _KILLED
        return _SURVIVED

    def _exchange(self, mutant: Mapping[str, Any]) -> bool:
        """Put the mutant's code in place, and return whether that is possible."""
        source = Path(mutant["path"]).read_text(encoding="utf-8")
        functions = self._functions.get(os.path.realpath(mutant["path"]), [])
        found = exchanges(source, mutant["source"], functions)
        for function, code in found:
            function.__code__ = code
        return bool(found)

    def _tell(self, mutant: Mapping[str, Any], status: int, failed: Sequence[str]) -> None:
        source = Path(mutant["path"]).read_text(encoding="utf-8")
        outcome: str | None = outcome_of(status)
        exchanged = not os.WIFEXITED(status) or os.WEXITSTATUS(status) != _NO_TESTS
        if not exchanged or self._selection.runs_on_import(mutant["path"], mutant["line"], source):
            outcome = None
        if outcome == Outcome.KILLED:
            self._killers.update(failed)
        self._write({"mutant": mutant, "outcome": outcome, "failed": tuple(failed)})

    def _write(self, row: Mapping[str, Any]) -> None:
        self._pipe.write(json.dumps(row) + "\n")
        self._pipe.flush()


def _noted(path: Path) -> tuple[str, ...]:
    with suppress(FileNotFoundError):
        return tuple(json.loads(path.read_text(encoding="utf-8")))
    return ()


def _live_functions() -> dict[str, list[FunctionType]]:
    functions: defaultdict[str, list[FunctionType]] = defaultdict(list)
    real = cache(os.path.realpath)  # of some thousand files with a hundred thousand functions
    gc.unfreeze()  # what is frozen, as pytest's collection is, is not listed
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            functions[real(thing.__code__.co_filename)].append(thing)
    return functions


def exchanges(before: str, after: str, functions: Sequence[FunctionType]) -> list[tuple[FunctionType, CodeType]]:
    """Return the code that each function of a module gets from its mutant; nothing where they do not correspond.

    Args:
        before: source of the module.
        after: source of the mutant.
        functions: those that exist now and were made from this module.
    """
    old, new = _codes(before), _codes(after)
    if [code.co_qualname for code, _ in old] != [code.co_qualname for code, _ in new]:
        return []
    changed = [(one, other, outermost) for (one, outermost), (other, _) in zip(old, new, strict=True) if one != other]
    codes = {_key(one): other for one, other, _ in changed}
    found = [(function, codes[key]) for function in functions if (key := _key(function.__code__)) in codes]
    held = {_key(function.__code__) for function, _ in found}
    whole = all(_key(one) in held for one, _, outermost in changed if outermost)
    fitting = all(len(code.co_freevars) == len(function.__code__.co_freevars) for function, code in found)
    return found if whole and fitting else []


def _codes(source: str) -> list[tuple[CodeType, bool]]:
    """Return the code of each function, and whether it stands in no other function."""
    return list(_inner(compile(source, "", "exec", dont_inherit=True), outermost=True))


def _inner(code: CodeType, *, outermost: bool) -> Iterator[tuple[CodeType, bool]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_function = bool(constant.co_flags & 2)  # CO_NEWLOCALS: a class body has it not
            if is_function:
                yield constant, outermost
            yield from _inner(constant, outermost=outermost and not is_function)


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno, code.co_linetable
