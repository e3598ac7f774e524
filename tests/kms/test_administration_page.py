"""docs/administration.md is run from its first block to its last."""

import os
import re
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from attest import Binding
from attest.release import CONTEXT
from attest.release.wire import ROLE
from tests.kms.process import REPOSITORY, ServedProcess, environment
from tests.kms.support import Workload, policy_text

PAGE = REPOSITORY / "docs" / "administration.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SET_UP = 2
"""So many blocks come before the service is started."""


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        return int(sock.getsockname()[1])


def run(folder: Path, script: str) -> str:
    """Run blocks as a reader's shell does; `kms` is the command of this checkout."""
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    command = commands / "kms"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kms.cli.main "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = f"{commands}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment() | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.loopback
@pytest.mark.slow
def test_every_block_of_the_page_works_as_it_stands(tmp_path: Path) -> None:
    port = str(free_port())
    blocks = [block.replace("8751", port) for block in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    assert len(blocks) > SET_UP + 3
    (tmp_path / "policy.yaml").write_bytes(policy_text())
    bound = Binding(context=CONTEXT, role=ROLE, audience="another/service+00", nonce=bytes(32), key=bytes(32))
    (tmp_path / "evidence.json").write_bytes(Workload().attest(bound).to_json())
    run(tmp_path, "\n".join(blocks[:SET_UP]))
    service = ServedProcess.start(tmp_path / "svc" / "kms.toml", "--admin-port", port)
    try:
        out = run(tmp_path, "\n".join(blocks[SET_UP:]))
    finally:
        assert service.terminate() == 0
    assert '"role":"administrator"' in out
    assert '"key_id":"my-model"' in out
    assert '"enabled":false' in out
    assert "key-enabled" in out
    assert '"outcome":"deny"' in out
    assert "FAILED" not in out
