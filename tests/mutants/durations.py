"""A plugin for pytest that writes how long each test took: `-p tests.mutants.durations --durations-file FILE`."""

import json
from collections import Counter
from pathlib import Path

import pytest


class Durations:
    """Seconds of set-up and call of each test, whichever process ran it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            self.seconds[report.nodeid] += report.duration  # type: ignore[assignment]  # a Counter adds numbers of any kind

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # half a trace would pass for a whole one
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, help="where to write the seconds of each test, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--durations-file")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(path))
