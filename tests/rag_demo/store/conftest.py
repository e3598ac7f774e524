from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rag_demo.enclave.store import SqliteStore, StoreLimits
from tests.rag_demo.store.support import DIMENSIONS, KEY, MODEL


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


@pytest.fixture
def store(open_sqlite: Callable[..., SqliteStore]) -> SqliteStore:
    return open_sqlite()
