"""A process that runs chosen tests with one module replaced by a mutant."""

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NoReturn

import pytest

__all__ = [
    "OPTIONS",
    "Mutation",
    "Outcome",
    "end",
    "foreign_modules",
    "fork",
    "limit",
    "load",
    "outcome_of",
    "write_to",
]

MEMORY_BYTES = 6 << 30
PROJECT = frozenset(
    ("attest", "attest_simulator", "benchmarks", "conftest", "examples", "fixtures", "kms", "rag_demo", "tests")
)
"""Packages that import the core: none may be imported before the fork, or the mutant would find its module there."""
# Rewriting assertions would replace the import of this package as well: it is a plugin for pytest.
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-o", "timeout=0", "--assert=plain")
_SURVIVED, _KILLED, _NO_TESTS, _NOT_IMPORTED = 0, 1, 5, 6


class Mutation(MetaPathFinder):
    """Source of a module, to be imported instead of what its file holds."""

    def __init__(self, path: str, source: str) -> None:
        self._module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._source = source
        self.imported = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._source)
        self.imported = True
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source.encode(), self.path)


class Outcome:
    """What became of a run; each is one word."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNJUDGED = "unjudged"


class _Chosen:
    """Runs the chosen tests, in the order in which they are given, and notes what fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.order = {test: index for index, test in enumerate(tests)}
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = sorted((item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid])
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def fork(tests: Sequence[str], mutation: Mutation | None, *, cpu: float, wall: float, notes: Path) -> int:
    """Start a process that runs tests; `outcome_of` says what its wait status means.

    Args:
        tests: node ids; those that are not collected are left out.
        mutation: what it imports in place of a module; None for the code as it is.
        cpu: seconds of processor time until it is ended by SIGXCPU, however busy the machine is.
        wall: seconds until it is ended by SIGALRM.
        notes: a folder; gets `PID.json` with the tests that failed, and `PID.txt` with the output.

    Returns:
        The process's id.
    """
    pid = os.fork()
    if pid:
        return pid
    status = _KILLED
    gc.freeze()  # garbage of the parent is not this process's to report
    try:
        limit(cpu=cpu, wall=wall)
        write_to(notes / f"{os.getpid()}.txt")
        if mutation is not None:
            sys.meta_path.insert(0, mutation)
        status = _run(tests, notes / f"{os.getpid()}.json")
        if mutation is not None and not mutation.imported:
            status = _NOT_IMPORTED
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        end(status)


def limit(*, cpu: float, wall: float) -> None:
    """Make this process one of its own group, that is ended when it takes too long or too much."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, wall)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))


def end(status: int) -> NoReturn:
    """End this process at once: nothing that it inherited is finished twice."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(status)


def write_to(path: Path) -> None:
    """Send all output to a file, and take no input."""
    output = os.open(path, os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def _run(tests: Sequence[str], failed: Path) -> int:
    chosen = _Chosen(tests)
    files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
    status = int(pytest.main([*OPTIONS, *files], plugins=[chosen]))
    failed.write_text(json.dumps(chosen.failed), encoding="utf-8")
    # Anything else is a module that cannot be imported any more: of the tests, or of a plugin.
    return status if status in {_SURVIVED, _NO_TESTS} else _KILLED


def outcome_of(status: int) -> str:
    """Return what a wait status of such a process says about its mutant.

    Where there was no test, or none imported the mutant, it survives: a run that misses its mutants must not pass.
    """
    if os.WIFSIGNALED(status):
        return Outcome.UNJUDGED if os.WTERMSIG(status) == signal.SIGALRM else Outcome.KILLED
    survived = os.WEXITSTATUS(status) in {_SURVIVED, _NO_TESTS, _NOT_IMPORTED}
    return Outcome.SURVIVED if survived else Outcome.KILLED


def foreign_modules(files: Sequence[str]) -> list[str]:
    """Return what files of tests import that is not of this project; collects them in a process of its own.

    Raises:
        RuntimeError: they cannot be collected, so no mutant could be judged.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            write_to(Path(os.devnull))
            status = int(pytest.main([*OPTIONS, "--collect-only", *files]))
            with os.fdopen(write, "w") as pipe:
                json.dump([name for name in sys.modules if name.partition(".")[0] not in PROJECT], pipe)
        finally:
            end(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        names = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError("the tests cannot be collected: run pytest on them")
    found: list[str] = json.loads(names)
    return found


def load(modules: Sequence[str]) -> None:
    """Import modules, so that each process that is forked has them.

    Raises:
        RuntimeError: one of them imports the core, whose mutants would then never be imported.
    """
    for name in modules:
        # A part of a package may be one that only another part can import.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    core = sorted(name for name in sys.modules if name.startswith("attest."))
    if core:
        raise RuntimeError(f"{core[0]} is imported before the fork: add what imports it to PROJECT")
