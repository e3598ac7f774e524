"""Run by tests: make a service in FOLDER, and be killed before the N-th thing that is done to a file."""

import itertools
import os
import secrets
import signal
import sys
from pathlib import Path

from attest.clock import system_clock
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise

ORIGIN = "kms.test/killed"
TOUCHING = frozenset({"open", "os.link", "os.remove", "os.mkdir", "os.truncate", "sqlite3.connect", "fcntl.flock"})


def kill_before(number: int, folder: Path) -> None:
    """Count what is done in this folder, and end as by SIGKILL before that many have been done."""
    left = number

    def look(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        concerns = event == "fcntl.flock" or any(str(folder) in str(one) for one in arguments)
        if event in TOUCHING and concerns:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def make(folder: Path) -> str:
    config = prepare_directory(folder, origin=ORIGIN, allow_simulated=True)
    settings = load_settings(flags={}, environ={}, config=config).settings
    return initialise(settings, clock=system_clock, random=secrets.token_bytes).text


if __name__ == "__main__":
    # One process forks for each moment: most of the time goes into starting Python.
    import alembic.command  # noqa: F401  so that it is there already

    base = Path(sys.argv[1])
    for number in itertools.count(int(sys.argv[2]), int(sys.argv[3])):
        folder = base / f"killed-{number}"
        child = os.fork()
        if child == 0:
            kill_before(number, folder)
            make(folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # it had fewer things to do
            sys.exit(os.WEXITSTATUS(status))
