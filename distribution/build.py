"""``make dist``: all that is published, in ``dist/``."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attest import __version__
from distribution.artifacts import build_artifacts
from distribution.hatch_hook import GENERATED
from distribution.provenance import digest_of, provenance, write_provenance
from distribution.sbom import LOCK_FILES, write_sbom

ROOT: Final = Path(__file__).resolve().parent.parent


def main() -> int:
    """Build everything anew."""
    target = ROOT / "dist"
    for folder in (target, ROOT / GENERATED):
        shutil.rmtree(folder, ignore_errors=True)
    target.mkdir()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))
    date = datetime.fromtimestamp(epoch, UTC).date().isoformat()
    build_artifacts(ROOT, target, epoch=epoch, date=date)
    for name in LOCK_FILES:
        write_sbom(ROOT, name, target / f"attest-kms-{__version__}-{name}.cdx.json")
    artifacts = sorted(target.iterdir())
    statement = provenance(
        artifacts,
        commit=_git("rev-parse", "HEAD"),
        epoch=epoch,
        lock_file=ROOT / "requirements" / "dev.txt",
        parameters={"python": platform.python_version(), "changed": str(bool(_git("status", "--porcelain"))).lower()},
    )
    write_provenance(statement, target / f"attest-kms-{__version__}.intoto.json")
    sums = "".join(f"{digest_of(path)}  {path.name}\n" for path in sorted(target.iterdir()))
    (target / "SHA256SUMS").write_text(sums, encoding="utf-8")
    sys.stdout.write(sums)
    return 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607  git of PATH
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
