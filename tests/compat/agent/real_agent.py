"""A real agent on a simulated machine, with a key that a real service releases to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.agent.test_command import Life
from tests.documentation.shell import free_port
from tests.kms.process import ServedProcess
from tests.session.serving import key_for

KEY = key_for("snp")
REFUSED = key_for("tdx")
"""A key that is released to another kind of machine."""


@dataclass(frozen=True)
class RealAgent:
    """An agent, with its sockets, and the port of its interface of the Confidential Data Hub."""

    life: Life
    port: int
    credentials: Path


@contextmanager
def real_agent(folder: Path, served: ServedProcess) -> Iterator[RealAgent]:
    """Start one with rules for this user."""
    port, rules, credentials = free_port(), folder / "agent.toml", folder / "credentials.sock"
    rules.write_text(
        f"[peers.me]\nuid = {os.geteuid()}\n"
        f'[keys."{KEY}@1"]\npeers = ["me"]\n[keys."{REFUSED}@1"]\npeers = ["me"]\n'
        f'[cdh]\nanyone_here = "a test"\nport = {port}\n[cdh.resources]\n'
        f'"default/model-key/llama" = "{KEY}"\n"default/model-key/refused" = "{REFUSED}"\n'
        f'[systemd]\nsocket = "{credentials}"\n[systemd.units."app.service"]\ndatabase = "{KEY}"\n'
    )
    folder.chmod(0o700)
    life = Life.begin(folder, served, rules)
    try:
        yield RealAgent(life=life, port=port, credentials=credentials)
    finally:
        assert life.end() == 0
