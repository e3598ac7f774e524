"""One service and one agent for all clients."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import migrated_once
from tests.compat.agent.real_agent import RealAgent, real_agent
from tests.kms.process import ServedProcess
from tests.session.serving import prepared

__all__ = ["migrated_once"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAgent]:
    """An agent that holds a key of a service."""
    served = ServedProcess.start(prepared(tmp_path_factory.mktemp("service")))
    with (
        tempfile.TemporaryDirectory(prefix="compat-", dir="/tmp") as name,
        real_agent(Path(name).resolve(), served) as made,
    ):
        yield made
    assert served.terminate() == 0
