"""A disk that can be full: a small file system in memory, which takes a superuser to mount."""

import os
import subprocess
from pathlib import Path

import pytest

NEEDS_MOUNT = pytest.mark.skipif(os.geteuid() != 0, reason="only a superuser mounts a file system")
DISK_BYTES = 4 * 1024 * 1024


class Disk:
    """A small file system in memory.

    Args:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        """Mount it."""
        self.folder = folder
        self._filler = folder / "filler"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0777", "tmpfs", str(folder)], check=False
        )
        if done.returncode:
            pytest.skip("this machine lets nobody mount a file system in memory")

    def fill(self, *, leave: int = 0) -> None:
        """Take all the room there is, but for so many bytes."""
        free = os.statvfs(self.folder)
        with self._filler.open("wb") as file:
            file.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def close(self) -> None:
        """Unmount it, whatever is still open there."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
