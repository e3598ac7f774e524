"""Other people's programs against this project: each test is a step of a client, and the summary is their table."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_STEP = "step"
_OUTCOMES = ("passed", "failed", "error", "skipped")
Step = Callable[[str, str], None]


@pytest.fixture
def step(request: pytest.FixtureRequest) -> Step:
    """Name the client and the step of a test, for the table."""
    return lambda client, text: request.node.user_properties.append((_STEP, f"{client:<24} {text}"))


def program_of(variable: str) -> Path:
    """Return a program that `make compat` installs; skip without it, or fail where ATTEST_REQUIRE_COMPAT=1."""
    found = os.environ.get(variable)
    if found is None:
        give_up = pytest.fail if os.environ.get("ATTEST_REQUIRE_COMPAT") == "1" else pytest.skip
        give_up(f"{variable} names no program: `make compat` installs it")
    return Path(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    rows = [
        f"  {text:<88} {outcome}"
        for outcome in _OUTCOMES
        for report in terminalreporter.stats.get(outcome, [])
        for name, text in getattr(report, "user_properties", ())
        if name == _STEP
    ]
    if rows:
        terminalreporter.write_sep("=", "clients and their steps")
        terminalreporter.write_line("\n".join(sorted(rows)))
