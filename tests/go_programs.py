"""Programs in Go that tests build: peers that are not ours."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest


def go_program(source: Path, folder: Path, *, least: int = 19) -> Path:
    """Build the program of a directory; skip where that cannot be, or fail where ATTEST_REQUIRE_GO=1 promises it.

    A Go older than 1.``least`` skips in either case: Debian's is 1.19.
    """
    give_up = pytest.fail if os.environ.get("ATTEST_REQUIRE_GO") == "1" else pytest.skip
    go = shutil.which("go")
    if go is None:
        give_up(f"no Go here: install Go 1.{least} or newer (Debian: golang-go)")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    known = re.match(r"go1\.(\d+)", version)
    if known is not None and int(known[1]) < least:
        pytest.skip(f"{source} needs Go 1.{least}, and this is {version}")
    program = folder / source.parent.name
    built = subprocess.run([go, "build", "-o", program, "."], cwd=source, capture_output=True, text=True, check=False)
    if built.returncode:
        give_up(f"{source} does not build; 'go mod download' there fetches what it needs: {built.stderr[:300]}")
    return program
