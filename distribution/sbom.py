"""Software bills of materials in CycloneDX, from the lock files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

LOCK_FILES: Final = ("models", "run", "s3", "service", "tpm")


def write_sbom(root: Path, lock_file: str, target: Path) -> None:
    """Write the bill of what a lock file names, with the digests of all of its files; the same bytes each time."""
    line = ["requirements", f"requirements/{lock_file}.txt", "--pyproject", "pyproject.toml"]
    form = ["--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON", "--validate"]
    subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", *line, *form, "--output-file", str(target)],
        cwd=root,
        check=True,
        stderr=subprocess.DEVNULL,
    )
