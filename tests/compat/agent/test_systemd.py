"""systemd itself loads credentials from the agent, on a root file system that is thrown away."""

import os
import re
from pathlib import Path

import pytest

from tests.compat.agent.real_agent import RealAgent
from tests.compat.conftest import Step
from tests.kms.support import MATERIAL
from tests.packaging.throwaway_root import missing, run_in_throwaway_root

pytestmark = pytest.mark.loopback
CLIENT = "systemd"
UNIT = """cat > /etc/systemd/system/{name}.service <<'END'
[Service]
Type=oneshot
LoadCredential=database:{socket}
ExecStartPre=test -f %d/database
ExecStartPre=test -s %d/database
ExecStart=/bin/cp %d/database {folder}/{name}
END
systemctl daemon-reload
systemctl start {name} || systemctl status {name} || true
systemctl show --property Result --value {name}
"""


@pytest.fixture
def systemd() -> None:
    if os.environ.get("ATTEST_REQUIRE_COMPAT") != "1":
        pytest.skip("`make compat` runs it")
    reason = missing(booted=True)
    if reason is not None:
        assert os.environ.get("ATTEST_REQUIRE_THROWAWAY_ROOT") != "1", reason
        pytest.skip(reason)


def start(name: str, agent: RealAgent, folder: Path) -> str:
    """Start a unit that copies its credential, and return what systemd says."""
    script = UNIT.format(name=name, socket=agent.credentials, folder=folder)
    return run_in_throwaway_root(script, folder=folder, booted=True, shared=(agent.credentials.parent,))


@pytest.mark.usefixtures("systemd")
def test_a_unit_gets_its_credential(agent: RealAgent, tmp_path: Path, step: Step) -> None:
    step(CLIENT, "LoadCredential= of a unit of the rules: equal bytes")
    said = start("app", agent, tmp_path)
    assert said.splitlines()[-1] == "success", said
    assert (tmp_path / "app").read_bytes() == MATERIAL


@pytest.mark.usefixtures("systemd")
def test_another_unit_gets_nothing(agent: RealAgent, tmp_path: Path, step: Step) -> None:
    step(CLIENT, "LoadCredential= of another unit: an empty credential")
    said = start("other", agent, tmp_path)
    assert said.splitlines()[-1] == "exit-code", said
    assert re.search(r"ExecStartPre=test -s .*status=1/FAILURE", said), said
    assert not (tmp_path / "other").exists()
    assert any(str(one.get("target", "")).endswith("/unit/other.service/database") for one in agent.life.lines())
