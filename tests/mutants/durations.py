"""A plugin for pytest that writes how long each test took: `-p tests.mutants.durations --durations-file FILE`."""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

PROPERTY = "processor_seconds"


class Processor:
    """Notes in each report the processor time of its phase: however busy the machine is, it is the same."""

    def __init__(self) -> None:
        self.before = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _processor_seconds()
        report.user_properties.append((PROPERTY, now - self.before))
        self.before = now
        return report


def _processor_seconds() -> float:
    return sum(os.times()[:4])


class Durations:
    """Seconds of set-up and call of each test, whichever process ran it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            self.seconds[report.nodeid] += sum(
                value for name, value in report.user_properties if name == PROPERTY and isinstance(value, float)
            )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # half a trace would pass for a whole one
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, help="where to write the seconds of each test, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--durations-file")
    if path is None:
        return
    config.pluginmanager.register(Processor())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(path))
