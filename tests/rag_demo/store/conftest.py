from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rag_demo.enclave.interfaces import DocumentStore
from rag_demo.enclave.store import SqliteStore, StoreLimits
from rag_demo.enclave.store.postgres import PostgresStore
from tests.kms.postgres import Server
from tests.rag_demo.store.pgvector import REASON, running_pgvector
from tests.rag_demo.store.support import DIMENSIONS, KEY, MODEL

Opener = Callable[..., DocumentStore]


@pytest.fixture
def open_sqlite(tmp_path: Path) -> Iterator[Callable[..., SqliteStore]]:
    """Open the one file of this test; what is open in the end is closed."""
    with ExitStack() as opened:

        def open_it(**changed: object) -> SqliteStore:
            given: dict[str, object] = {"dimensions": DIMENSIONS, "model": MODEL, "limits": StoreLimits(), **changed}
            key = given.pop("key", KEY)
            store = SqliteStore.open(tmp_path / "documents.db", key, **given)  # type: ignore[arg-type]  # tests pass wrong ones, too
            opened.callback(store.close)
            return store

        yield open_it


@pytest.fixture(scope="session")
def pgvector() -> Iterator[Server]:
    """A PostgreSQL with pgvector; skips where there is none, or fails where ATTEST_REQUIRE_PGVECTOR=1 promises one."""
    with running_pgvector() as server:
        yield server


@pytest.fixture
def open_postgres(pgvector: Server) -> Iterator[Callable[..., PostgresStore]]:
    """Open the one database of this test, empty at first; what is open in the end is closed."""
    with ExitStack() as opened:
        url = pgvector.fresh("rag")

        def open_it(**changed: object) -> PostgresStore:
            given: dict[str, object] = {"dimensions": DIMENSIONS, "model": MODEL, "inside_boundary": REASON, **changed}
            key = given.pop("key", KEY)
            store = PostgresStore.open(str(given.pop("url", url)), key, **given)  # type: ignore[arg-type]  # tests pass wrong ones, too
            opened.callback(store.close)
            return store

        yield open_it


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest) -> Opener:
    """Open the store of this test, of each kind in turn."""
    opener: Opener = request.getfixturevalue(f"open_{request.param}")
    return opener


@pytest.fixture
def store(open_store: Opener) -> DocumentStore:
    return open_store()
