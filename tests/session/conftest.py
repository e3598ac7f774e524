"""What tests leave behind is searched for keys, as for the service's own tests; and no settings but theirs."""

import pytest

from tests.kms.conftest import harness, kind, migrated_once, pytest_runtest_makereport

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
