"""Programs in Go that tests build: peers that are not ours."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def go_program(source: Path, folder: Path) -> Path:
    """Build the program of a directory; skip where that cannot be, or fail where ATTEST_REQUIRE_GO=1 promises it."""
    give_up = pytest.fail if os.environ.get("ATTEST_REQUIRE_GO") == "1" else pytest.skip
    go = shutil.which("go")
    if go is None:
        give_up("no Go here: install Go 1.19 or newer (Debian: golang-go)")
    program = folder / source.parent.name
    built = subprocess.run([go, "build", "-o", program, "."], cwd=source, capture_output=True, text=True, check=False)
    if built.returncode:
        give_up(f"{source} does not build; 'go mod download' there fetches what it needs: {built.stderr[:300]}")
    return program
