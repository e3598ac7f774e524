"""A real PostgreSQL that has pgvector, for the tests."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kms.postgres import Server, served_by

__all__ = ["REASON", "running_pgvector"]

REASON = "a server of this test, on this machine"


def _programs() -> Path | None:
    """The newest server with pgvector: of the folder that ATTEST_PGVECTOR names, else of Debian."""
    named = os.environ.get("ATTEST_PGVECTOR")
    if named:
        found = sorted(Path(named).glob("**/pginstall*/bin/postgres"))
        return found[-1].parent if found else None
    controls = sorted(
        Path("/usr/share/postgresql").glob("*/extension/vector.control"), key=lambda path: int(path.parts[-3])
    )
    folders = [Path("/usr/lib/postgresql") / control.parts[-3] / "bin" for control in controls]
    there = [folder for folder in folders if (folder / "postgres").is_file()]
    return there[-1] if there else None


def _missing() -> str | None:
    if _programs() is None:
        return "there is no PostgreSQL with pgvector (CONTRIBUTING.md says how to get one)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "a PostgreSQL server does not run as root, and setpriv is missing"
    return None


@contextmanager
def running_pgvector() -> Iterator[Server]:
    """Start a server that has the extension, and take it away in the end."""
    reason = _missing()
    programs = _programs()
    if reason is not None or programs is None:
        if os.environ.get("ATTEST_REQUIRE_PGVECTOR") == "1":
            pytest.fail(f"ATTEST_REQUIRE_PGVECTOR=1, but {reason}")
        pytest.skip(str(reason))
    with served_by(programs) as server:
        yield server
