"""File systems by what they keep: only tmpfs and ramfs hold nothing once the machine is off."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
MOUNTS: Final = Path("/proc/self/mountinfo")


def is_in_memory(device: int) -> bool:
    """Return True for a device whose file system is in memory; tmpfs may still reach the swap area."""
    return file_system_of(device) in IN_MEMORY


def file_system_of(device: int) -> str:
    """Return the kind of file system of a device, as the kernel lists it (proc(5)), or ``unknown``."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with MOUNTS.open(encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                fields, _, rest = line.partition(" - ")
                if fields.split()[2] == wanted:
                    return rest.split()[0]
    except (OSError, IndexError):
        pass
    return "unknown"
