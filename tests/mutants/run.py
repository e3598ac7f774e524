"""Mutation testing of the core.

::

    python -m tests.mutants.run --tool PYTHON [--sample 60 [--seed N]] [--limit SECONDS] [--jobs N] FILE …

Cosmic Ray makes the mutants (`generate.py`, in an environment of its own); no file changes. The tests are those that
reach the changed line in the traced run that `make traced` keeps. Mutants of the bodies of functions are judged first,
in processes that share collected tests (`collected.py`). All others are judged in a process that is forked from this
one and imports the mutant in place of its module (`child.py`). Without `--sample` every mutant is judged; what was
killed stays so until its file changes, so an interrupted run goes on where it ended.

Ends with 0, with 1 where less than 95 % of the mutants are killed, and with 2 where none could be judged or a test
fails without a mutant.
"""

import argparse
import hashlib
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.child import Mutation, Outcome, foreign_modules, fork, load, outcome_of
from tests.mutants.collected import Judgement, judged
from tests.mutants.selection import Batch, Selection

__all__ = ["BAR", "Tally", "excused_survivors", "main"]

BAR = 0.95
WALL_SECONDS = 180
CONFIRMING = 0.12
"""Share of the limit that is kept for running the tests that failed without a mutant."""
NOT_IMPORTED = 0.6
"""Share of the limit after which no further mutant is drawn: those that have to be imported take longer."""
CONTROL_TESTS = 200
SAMPLED_FILES = 8
"""Every so many files of tests are asked what they import; most import the same."""
REPOSITORY = Path(__file__).resolve().parent.parent.parent
SURVIVORS = Path(__file__).with_name("survivors.toml")
STATE = REPOSITORY / ".mutants"


@dataclass(slots=True, kw_only=True)
class Job:
    """A mutant that is being judged."""

    mutant: Mapping[str, Any]
    batches: deque[Batch]


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the mutants that were judged."""

    excuses: Mapping[tuple[str, str, str], str]
    killed: int = 0
    excused: int = 0
    unjudged: int = 0
    survivors: list[str] = field(default_factory=list)
    killers: set[str] = field(default_factory=set)

    @property
    def judged(self) -> int:
        return self.killed + len(self.survivors)

    def add(self, mutant: Mapping[str, Any], outcome: str) -> None:
        """Count a mutant, and print it unless it was killed."""
        place = f"{mutant['path']}:{mutant['line']}: {mutant['before']}  →  {mutant['after']}"
        excuse = self.excuses.get((mutant["path"], mutant["before"], mutant["after"]))
        if outcome == Outcome.KILLED:
            self.killed += 1
            if excuse is not None:
                say(f"killed, so it needs no reason in {SURVIVORS.name}: {place}")
        elif outcome == Outcome.UNJUDGED:
            self.unjudged += 1
        elif excuse is not None:
            self.excused += 1
        else:
            self.survivors.append(place)
            say(f"survived: {place}")

    def exit_status(self, *, least: float = BAR) -> int:
        """Return 0 at the least rate or above it, 1 below it, 2 where nothing was judged."""
        if not self.judged:
            return 2
        return 0 if self.killed >= least * self.judged else 1

    def __str__(self) -> str:
        """Return the line that says it all."""
        rate = f"{100 * self.killed / self.judged:.1f} %" if self.judged else "no rate"
        reached = "ok" if self.exit_status() == 0 else "short"
        return (
            f"{rate} killed ({self.killed} of {self.judged} judged; {self.excused} survive with a reason, "
            f"{self.unjudged} out of time), bar {100 * BAR:.0f} % {reached}"
        )


def excused_survivors(path: Path = SURVIVORS) -> dict[tuple[str, str, str], str]:
    """Read the survivors that stay, each by its file and by the lines before and after the change."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["survivor"]
    return {(row["path"], row["before"], row["after"]): row["reason"] for row in rows}


def main(argv: list[str] | None = None) -> int:
    """Judge mutants and print the rate."""
    os.environ.setdefault("HYPOTHESIS_PROFILE", "ci")  # inputs that are made slowly are no failure on a busy machine
    try:
        return _judge_all(_parser().parse_args(argv))
    except RuntimeError as exc:
        return _broken(str(exc))


def _judge_all(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    ends = begun + options.limit * (1 - CONFIRMING) if options.limit else None
    seed = (options.seed if options.seed is not None else secrets.randbelow(10**6)) if options.sample else None
    if seed is not None:
        say(f"mutants: a sample of {options.sample}; to repeat it: make mutants SAMPLE={options.sample} SEED={seed}")
    STATE.mkdir(exist_ok=True)
    results = None if options.sample else Results(STATE / "killed.txt")
    selection = Selection(STATE / "traced")
    tally = Tally(excuses=excused_survivors())
    with _generator(options.tool, options.files, seed=seed, judged=results.path if results else None) as tool:
        mutants = _lines(tool)
        say(f"mutants: {next(mutants)['places']} in all")
        drawn = itertools.islice(mutants, options.sample)
        # A copy of this process draws them; what it leaves is drawn by nobody.
        stops = begun + options.limit * NOT_IMPORTED if options.limit else None
        waiting = list(_left(judged(drawn, selection, jobs=options.jobs, ends=stops), tally, results))
        if options.sample or (stops is not None and time.monotonic() > stops):
            tool.terminate()
        elif tool.wait() != 0:
            return _broken("the tool failed")
    say(f"mutants: {tally.killed} killed without importing them, {len(waiting)} to be imported")
    load(foreign_modules(selection.files[::SAMPLED_FILES]))
    if not _pass_without_a_mutant(selection.quickest(CONTROL_TESTS)):
        return _broken("tests fail without a mutant; run pytest on those that `make traced` runs")
    judge(iter(waiting), selection, tally, jobs=options.jobs, ends=ends, results=results)
    if not _pass_without_a_mutant(sorted(tally.killers)):
        return _broken("a test that killed a mutant fails without one as well, so the rate says nothing")
    tally.killed += results.before if results else 0
    say(f"mutants: {tally} ({time.monotonic() - begun:.0f} s)")
    return tally.exit_status(least=options.least / 100)


def _broken(why: str) -> int:
    say(f"mutants: {why}")
    return 2


def _lines(tool: "subprocess.Popen[str]") -> Iterator[Mapping[str, Any]]:
    assert tool.stdout is not None
    yield from map(json.loads, tool.stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Mutation testing of the core.")
    parser.add_argument("files", nargs="+", help="what is mutated")
    parser.add_argument("--tool", required=True, help="the interpreter that has Cosmic Ray")
    parser.add_argument("--sample", type=int, help="judge so many, drawn at random; without it, all")
    parser.add_argument("--seed", type=int, help="draw these again")
    parser.add_argument("--limit", type=float, help="end within so many seconds")
    parser.add_argument("--least", type=float, default=100 * BAR, help="fail below so many per cent; default: the bar")
    parser.add_argument("--jobs", type=int, default=2)
    return parser


class Results:
    """The mutants that were killed in earlier runs, while their files stay as they are."""

    def __init__(self, path: Path) -> None:
        """Read them, and forget those of files that changed since."""
        self.path = path
        names = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        digests: dict[str, str] = {}
        current = [name for name in names if _is_current(name, digests)]
        path.write_text("".join(f"{name}\n" for name in current), encoding="utf-8")
        self.before = len(current)

    def add(self, name: str) -> None:
        """Keep one."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def _is_current(name: str, digests: dict[str, str]) -> bool:
    path, _, rest = name.partition("@")
    if path not in digests:
        file = REPOSITORY / path
        digests[path] = hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.is_file() else ""
    return rest.partition(":")[0] == digests[path]


def _left(
    judgements: Iterator[Judgement], tally: Tally, results: Results | None
) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Count the mutants that are judged, and give those that are to be imported, with the tests to ask first."""
    for mutant, outcome, failed in judgements:
        if outcome is None:
            yield mutant, failed
            continue
        tally.add(mutant, outcome)
        if outcome == Outcome.KILLED and results is not None:
            results.add(mutant["name"])


def _generator(tool: str, files: list[str], *, seed: int | None, judged: Path | None) -> "subprocess.Popen[str]":
    more = [*(["--seed", str(seed)] if seed is not None else []), *(["--judged", str(judged)] if judged else [])]
    command = [tool, "-m", "tests.mutants.generate", *more, "--", *files]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def judge(
    mutants: Iterator[tuple[Mapping[str, Any], tuple[str, ...]]],
    selection: Selection,
    tally: Tally,
    *,
    jobs: int,
    ends: float | None,
    results: Results | None,
) -> None:
    """Judge mutants, several at once, until there is none left or the time is over."""
    running: dict[int, Job] = {}
    with tempfile.TemporaryDirectory() as folder:
        while True:
            while len(running) < jobs and (job := _next(mutants, selection, tally, ends)) is not None:
                running[_start(job, ends, Path(folder))] = job
            if not running:
                return
            pid, status = os.wait()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # what its tests have started
            job = running.pop(pid)
            outcome = outcome_of(status)
            if outcome == Outcome.SURVIVED and job.batches:
                running[_start(job, ends, Path(folder))] = job
                continue
            tally.add(job.mutant, outcome)
            if outcome == Outcome.KILLED:
                tally.killers.update(_failed(Path(folder) / f"{pid}.json"))
                if results is not None:
                    results.add(job.mutant["name"])


def _next(
    mutants: Iterator[tuple[Mapping[str, Any], tuple[str, ...]]],
    selection: Selection,
    tally: Tally,
    ends: float | None,
) -> Job | None:
    """Draw the next mutant that a test reaches; what none reaches has survived."""
    for mutant, first in mutants:
        if ends is not None and time.monotonic() > ends:
            return None
        source = (REPOSITORY / mutant["path"]).read_text(encoding="utf-8")
        batches = deque(selection.batches(mutant["path"], mutant["line"], source))
        if first:
            batches.appendleft(Batch(first, sum(map(selection.seconds, first))))
        if batches:
            return Job(mutant=mutant, batches=batches)
        tally.add(mutant, Outcome.SURVIVED)
    return None


def _start(job: Job, ends: float | None, folder: Path) -> int:
    batch = job.batches.popleft()
    wall = WALL_SECONDS if ends is None else max(0.1, min(WALL_SECONDS, ends - time.monotonic()))
    mutation = Mutation(job.mutant["path"], job.mutant["source"])
    return fork(batch.tests, mutation, cpu=20 + 3 * batch.seconds, wall=wall, notes=folder)


def _failed(path: Path) -> list[str]:
    with suppress(FileNotFoundError):
        failed: list[str] = json.loads(path.read_text(encoding="utf-8"))
        return failed
    return []


def _pass_without_a_mutant(tests: Sequence[str]) -> bool:
    if not tests:
        return True
    with tempfile.TemporaryDirectory() as folder:
        pid = fork(tests, None, cpu=WALL_SECONDS, wall=WALL_SECONDS, notes=Path(folder))
        _, status = os.waitpid(pid, 0)
        return status == 0


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201  the output of the program


if __name__ == "__main__":
    sys.exit(main())
