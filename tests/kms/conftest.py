import tempfile
from collections.abc import Callable, Generator, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from attest.encoding import JsonValue
from attest.policy import document
from kms.store import bootstrap
from kms.store import sqlite as store_on_sqlite
from tests.kms.engines import SharedStatements
from tests.kms.leaks import found_in_files, found_in_texts, secrets_below
from tests.kms.postgres import Server, running_server
from tests.kms.replayed import Replayed
from tests.kms.support import MATERIAL, FakeClock, Harness, Initialised, settings_for, write_endorsements

INITIALISED = "initialised"
"""The database that services on PostgreSQL are copied from."""
SEARCHED_ITSELF = "test_leaks.py"
"""It writes keys where they must not stand, to see them found."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server; skips where there is none, or fails where ATTEST_REQUIRE_POSTGRES=1 promises one."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def migrated_once() -> Iterator[None]:
    """Make the schema by the migrations once for each kind of database, and by the same statements from then on.

    Alembic takes ten times longer to find out what to do than the databases to do it. Tests of migrations start from a
    database that is there, and are not concerned.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "upgrade", Replayed(bootstrap.upgrade))
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled_once() -> Iterator[None]:
    """Compile each statement once for SQLite, and not in each test.

    Engines of PostgreSQL listen at their dialect for the password, so they cannot share it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_on_sqlite, "create_engine", SharedStatements(vars(store_on_sqlite)["create_engine"]))
        yield


@pytest.fixture(scope="session", autouse=True)
def read_once() -> Iterator[None]:
    """Read each text of YAML once, and copy what was read: thousands of tests have the same few policies."""
    read: Callable[[bytes, str], JsonValue] = cache(vars(document)["_yaml"])

    def copied(data: bytes, name: str) -> JsonValue:
        return deepcopy(read(data, name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_yaml", copied)
        yield


@pytest.fixture
def kind() -> str:
    """Which database `harness` works on; files of tests that are to hold on both override it."""
    return "sqlite"


@pytest.fixture(scope="session")
def initialised_there(postgres: Server) -> tuple[Initialised, str]:
    """A service that was initialised on PostgreSQL, and the name of its database."""
    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), postgres.fresh(INITIALISED)
        return Initialised.make(folder, settings_for(folder, database=url)), INITIALISED


@pytest.fixture
def harness(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    if kind == "sqlite":
        made = Harness.make(tmp_path)
    else:
        server: Server = request.getfixturevalue("postgres")
        service, database = request.getfixturevalue("initialised_there")
        clock = FakeClock()
        write_endorsements(tmp_path, at=clock.at)
        settings = settings_for(tmp_path, database=server.copied(database))
        made = Harness.open(settings, folder=tmp_path, clock=clock, random=service.copy_into(tmp_path))
    yield made
    made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that leaves a key in what it prints, logs, says of its failure, or writes in its folder (MC-33)."""
    report = yield
    if report.when != "call" or item.path.name == SEARCHED_ITSELF:
        return report
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    secrets = {MATERIAL, *(secrets_below(folder) if folder else ())}
    found = found_in_texts({**dict(report.sections), "failure": report.longreprtext}, secrets)
    found += found_in_files(folder, secrets) if folder else []
    if found:
        report.outcome = "failed"
        report.longrepr = f"MC-33: a key stands in {', '.join(found)}"
    return report
