"""Programs on simulated machines, each in a process of its own, and what `attest verify` says of their evidence."""

import json
import os
import subprocess
import sys

from click.testing import CliRunner

from attest.cli.main import cli


def simulate(*arguments: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program on a simulated machine, without a library path unless one is given."""
    return subprocess.run(
        [sys.executable, "-m", "attest.cli.main", "simulate", "machine", *map(str, arguments)],
        env={**{name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}, **variables},
        capture_output=True,
        timeout=120,
        check=False,
    )


def verified(*arguments: object, simulated: bool = True) -> str:
    """Verify evidence offline; return the outcome, or the code of the refusal."""
    allowed = ("--allow-simulated",) if simulated else ()
    ran = CliRunner().invoke(cli, ["verify", *map(str, arguments), "--offline", "--json", *allowed])
    document = json.loads(ran.stdout)
    error = document["error"]
    return str(document["outcome"] if error is None else error["code"])
