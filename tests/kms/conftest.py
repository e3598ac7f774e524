from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kms.postgres import Server, running_server
from tests.kms.support import Harness


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server; skips where there is none, or fails where ATTEST_REQUIRE_POSTGRES=1 promises one."""
    with running_server() as server:
        yield server


@pytest.fixture
def kind() -> str:
    """Which database `harness` works on; files of tests that are to hold on both override it."""
    return "sqlite"


@pytest.fixture
def harness(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    changes = {} if kind == "sqlite" else {"database": request.getfixturevalue("postgres").fresh()}
    made = Harness.make(tmp_path, **changes)
    yield made
    made.close()
