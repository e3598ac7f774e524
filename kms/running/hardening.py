"""What the kernel is asked to do for a process that holds keys: no core dumps, no looking in, no swapping.

Python cannot promise that a copy of a key is gone from memory. What can be done is to keep the memory to ourselves.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable

from attest.errors import ConfigurationError

__all__ = ["harden"]

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
_MCL_CURRENT_AND_FUTURE = 1 | 2


def harden(*, lock_memory: bool, report: Callable[[str], None]) -> None:
    """Turn core dumps off and keep other processes of this user out of our memory, before any key is read.

    Neither outlives ``exec``, except the limit of core dumps: each process that opens keys calls this itself.

    Args:
        lock_memory: keep all memory of this process out of the swap.
        report: takes what an operator should know.

    Raises:
        ConfigurationError: ``memory-lock-refused``.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not _undumpable():
        report("warning: this system does not keep other processes of the same user out of this one's memory")
    if lock_memory:
        _lock()


def _undumpable() -> bool:
    """Say whether the kernel took the process for one whose memory is nobody's business (Linux alone knows this)."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    set_, now = libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    return (set_, now) == (0, 0)


def _lock() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT_AND_FUTURE) == 0:
        return
    problem = os.strerror(ctypes.get_errno())
    raise ConfigurationError(
        f"lock_memory: the kernel does not lock this process's memory: {problem}",
        code="memory-lock-refused",
        field="lock_memory",
        expected="an unlimited RLIMIT_MEMLOCK, or the capability CAP_IPC_LOCK",
        got=problem,
        hint="LimitMEMLOCK=infinity in systemd; or leave lock_memory out and encrypt the swap",
    )
