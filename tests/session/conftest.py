"""What tests leave behind is searched for keys, as for the service's own tests; and no settings but theirs."""

from collections.abc import Iterator

import pytest

from tests.kms.conftest import harness, kind, migrated_once, pytest_runtest_makereport
from tests.kms.process import ServedProcess
from tests.kms.support import Harness, Workload
from tests.kms.test_api import client_of
from tests.session.line import Clock, Line, Scene
from tests.session.serving import prepared

__all__ = ["harness", "kind", "migrated_once", "pytest_runtest_makereport"]


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let nothing in the environment, the working directory or the user's configuration decide."""
    nowhere = tmp_path_factory.mktemp("nowhere")
    monkeypatch.chdir(nowhere)
    for name in ("URL", "KEY", "KEY_FILE", "CA", "POLICY", "LOG_MEMORY"):
        monkeypatch.delenv(f"ATTEST_KMS_{name}", raising=False)
    monkeypatch.delenv("ATTEST_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(nowhere))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    """A service that proves itself, with the keys of `serving.py`; one for all tests that do it no harm."""
    process = ServedProcess.start(prepared(tmp_path_factory.mktemp("service")))
    yield process
    assert process.terminate() == 0


@pytest.fixture
def scene(harness: Harness) -> Iterator[Scene]:
    """A service in memory with two keys, and a workload that reaches it over a line that can fail."""
    harness.add_key("model")
    harness.add_key("other")
    with client_of(harness) as web:
        yield Scene(harness=harness, line=Line(web=web), clock=Clock(clock=harness.clock), workload=Workload())
