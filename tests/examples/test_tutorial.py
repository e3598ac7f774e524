"""docs/tutorial-sealed-model.md, from its first command to its last, in one shell as its reader has it."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.test_documentation import blocks, matches
from tests.conftest import REPOSITORY
from tests.kms.test_administration_page import free_port

PAGE = REPOSITORY / "docs" / "tutorial-sealed-model.md"
SERVICE, SERVER = "8750", "8760"
"""Ports, of which others may be free here."""
MARK = "\x1e"


def script(commands: list[str]) -> str:
    """Put a mark before what each command says, and its exit code behind it."""
    return "".join(f"printf '{MARK}'\n{command}\necho \"[exit $?]\"\n" for command in commands)


def pattern_matches(expected: list[str], got: list[str]) -> bool:
    """Compare lines; `...` stands for any number of lines, and at the end of a line for the rest of it."""
    cut = [line if line == "..." or not line.endswith(" ...") else line[:-3] for line in expected]
    short = dict(zip(cut, expected, strict=True))
    known = [next((one for one in cut if short[one] != one and line.startswith(one)), line) for line in got]
    return matches(cut, known)


@pytest.mark.loopback
@pytest.mark.slow
def test_every_command_of_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108  that is what it is for
        pytest.skip("no tmpfs at /dev/shm here")
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = blocks(PAGE)
    text = script([command for command, _ in shown])
    service, server = str(free_port()), str(free_port())
    text = text.replace(SERVICE, service).replace(SERVER, server)
    text = text.replace("/dev/shm/tutorial-model", f"/dev/shm/tutorial-{os.getpid()}")  # noqa: S108  as above
    (tmp_path / "server.py").write_text(program.replace(SERVER, server))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST", "KMS", "COV", "XDG"))}
    home = {
        "HOME": str(tmp_path),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(REPOSITORY),
        "KMS_PORT": service,
    }
    shell = subprocess.Popen(
        ["bash", "-c", text],
        cwd=tmp_path,
        env=kept | home | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=1200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    parts = said.decode().split(MARK)[1:]
    assert len(parts) == len(shown)
    for (command, expected), part in zip(shown, parts, strict=True):
        got = [line for line in part.splitlines() if line]
        if not expected or not expected[-1].startswith("[exit"):
            assert got.pop() == "[exit 0]", f"$ {command}\n{part}"
        assert not expected or pattern_matches(expected, got), f"$ {command}\n{part}"
