"""Commands of a viewer, at a terminal."""

import os
import pty
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.constants import REPOSITORY

# A session of its own, whose terminal is standard input: its first process has the foreground, the child has not.
_AT_A_TERMINAL = """
import fcntl, os, sys, termios
from pathlib import Path
from rag_demo.demo.changes import Changes
from rag_demo.demo.narrator import Narrator

class Stage:
    def change_machine(self, name):
        Path(sys.argv[1]).write_text(name)

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
changes = Changes(out=Narrator(sys.stdout), stage=Stage(), source=0)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    changes.wait(0.0)
    os._exit(7)
_, status = os.waitpid(child, os.WUNTRACED)
assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, status
changes.wait(30)
"""


def test_a_terminal_is_read_in_its_foreground_alone(tmp_path: Path) -> None:
    """Reading it in the background would stop the demonstration."""
    master, slave = pty.openpty()
    made = tmp_path / "made"
    with closing(os.fdopen(master, "wb", buffering=0)) as viewer:
        viewer.write(b"f\n")
        done = subprocess.run(
            [sys.executable, "-c", _AT_A_TERMINAL, str(made)],
            stdin=slave,
            capture_output=True,
            cwd=REPOSITORY,
            start_new_session=True,
            timeout=120,
            check=False,
        )
    os.close(slave)
    assert done.returncode == 0, done.stderr
    assert made.read_text() == "older-firmware"
