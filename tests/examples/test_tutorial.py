"""docs/tutorial-sealed-model.md, from its first command to its last, in one shell as its reader has it."""

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.documentation.shell import Command, commands_of_page, free_port, require_shown, run

PAGE = REPOSITORY / "docs" / "tutorial-sealed-model.md"
SERVICE, SERVER = "8750", "8760"
"""Ports, of which others may be free here."""


@pytest.mark.loopback
def test_every_command_of_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108  that is what it is for
        pytest.skip("no tmpfs at /dev/shm here")
    service, server = str(free_port()), str(free_port())
    ours = f"/dev/shm/tutorial-{os.getpid()}"  # noqa: S108  as above

    def here(text: str) -> str:
        return text.replace(SERVICE, service).replace(SERVER, server).replace("/dev/shm/tutorial-model", ours)  # noqa: S108

    commands = [Command(command.line, here(command.text), command.expected) for command in commands_of_page(PAGE)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST", "KMS", "COV", "XDG"))}
    env = kept | {
        "HOME": str(tmp_path),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY),
        "KMS_PORT": service,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for command, got in run(commands, folder=tmp_path, env=env, timeout=1200):
        require_shown(command, got)
