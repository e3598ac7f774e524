"""What tests leave behind is searched for keys, as for the service's own tests; sockets need short paths."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.running import Place, Running
from tests.kms.conftest import migrated_once, pytest_runtest_makereport
from tests.session.conftest import _no_settings_of_the_machine

__all__ = ["_no_settings_of_the_machine", "migrated_once", "pytest_runtest_makereport"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="agent-", dir="/tmp") as name:
        yield Path(name).resolve()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A sealed model with a small file, an empty one, and one of several segments."""
    return Place.make(tmp_path_factory.mktemp("sealed"))


@pytest.fixture
def running(folder: Path, place: Place, caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    """An agent that serves this user a key and a model."""
    caplog.set_level(logging.DEBUG)
    with Running.start(folder, place) as made:
        yield made
