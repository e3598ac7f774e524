"""Wheels and source archives, the same bytes each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from distribution.hatch_hook import GENERATED
from distribution.shared_files import write_shared_files

PROJECTS: Final = (".", "simulator")


def build_artifacts(root: Path, target: Path, *, epoch: int, date: str) -> None:
    """Build both distributions of a checkout into a folder.

    Args:
        root: the checkout.
        target: the folder, which is there.
        epoch: seconds since 1970 that the archives state for every file.
        date: the same moment as a date, for the manual pages.
    """
    write_shared_files(root / GENERATED, date=date)
    for project in PROJECTS:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "--directory", str(target)],
            cwd=root / project,
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
