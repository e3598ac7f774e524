"""The folder of temporary files: in memory, where there is enough of it.

Databases sync each transaction. On a disk, the tests of the service wait for that half of their time.
"""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108  folders in it are made for one user
LEAST_FREE_BYTES = 4 << 30


def is_roomy(folder: Path) -> bool:
    """Return whether a folder has room for all temporary files, and lets programs run there, as tests make some."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    runs = not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return runs and os.access(folder, os.W_OK | os.X_OK) and found.f_bavail * found.f_frsize >= LEAST_FREE_BYTES


def use_memory() -> None:
    """Make temporary files in memory, also those of programs that tests start, unless TMPDIR names a folder."""
    if "TMPDIR" not in os.environ and is_roomy(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
