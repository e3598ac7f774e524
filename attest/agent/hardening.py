"""What the kernel is asked to do for a process that gives out keys: no core dumps, no looking in by the same user."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

__all__ = ["harden", "keep_out"]

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4


def harden() -> bool:
    """Turn both off; say whether other processes of this user are kept out of our memory (Linux alone does that)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return keep_out()


def keep_out() -> bool:
    """Do the same for this process alone: programs that it starts inherit nothing of it."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    set_, now = libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    return (set_, now) == (0, 0)
