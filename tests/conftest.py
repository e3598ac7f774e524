"""Parts that every test shares: where recorded evidence lies, which sockets are open, how hard hypothesis looks."""

import gc
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.scratch import use_memory

use_memory()

REPOSITORY = Path(__file__).resolve().parent.parent

# Examples are derandomised: a change is judged by the same inputs on each run, and a failure can be repeated by
# anybody. `make test` tries some, `make properties` more. Looking for new inputs is the work of `make slow` (profile
# `search`) and `make fuzz`.
_ON_A_BUSY_MACHINE = [HealthCheck.too_slow]
settings.register_profile("default", deadline=None, derandomize=True, max_examples=30)
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=30, suppress_health_check=_ON_A_BUSY_MACHINE
)
settings.register_profile(
    "more", deadline=None, derandomize=True, max_examples=100, suppress_health_check=_ON_A_BUSY_MACHINE
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=_ON_A_BUSY_MACHINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def vectors_root() -> Path | None:
    """Return the folder of recorded evidence, or None where there is none.

    ATTEST_VECTORS names it; otherwise it is `shared/vectors` beside the repository. For parametrising at collection;
    a test takes the fixture `vectors_dir`.
    """
    named = os.environ.get("ATTEST_VECTORS")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "vectors"
    return folder.resolve() if folder.is_dir() else None


@pytest.fixture(scope="session")
def vectors_dir() -> Path:
    """Give the folder of recorded evidence; skip without it, or fail where ATTEST_REQUIRE_VECTORS=1 promises it."""
    folder = vectors_root()
    if folder is not None:
        return folder
    if os.environ.get("ATTEST_REQUIRE_VECTORS") == "1":
        pytest.fail("ATTEST_REQUIRE_VECTORS=1, but ATTEST_VECTORS names no folder of recorded evidence")
    pytest.skip("no recorded evidence here; set ATTEST_VECTORS to its folder")


RARE_COLLECTIONS = (20_000, 20, 20)
"""Thresholds of garbage collection. With Python's own, the tests spend one part in sixteen of their time on it."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what is collected, which stays to the end: a third of the time of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*RARE_COLLECTIONS)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Put back after each test what a service sets up: the root logger, with this test's stream, and the collector."""
    root = logging.getLogger()
    handlers, level, raises = [*root.handlers], root.level, logging.raiseExceptions
    try:
        return (yield)
    finally:
        root.handlers, logging.raiseExceptions = handlers, raises
        root.setLevel(level)
        gc.set_threshold(*RARE_COLLECTIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Open the loopback address for what asks for it, and mark what needs recorded evidence."""
    for item in items:
        if item.get_closest_marker("loopback"):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1"]))
        if "vectors_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.vectors)
