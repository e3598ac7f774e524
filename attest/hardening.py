"""The one hardening call: no core dumps, no access by other processes of the user and, on request, no swapping.

Python cannot promise that a copy of a key is gone from memory. What can be done is to keep the memory to this process.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from typing import Final

from attest.errors import ConfigurationError

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4
_MCL_CURRENT_AND_FUTURE: Final = 1 | 2


def harden(*, inherited: bool = True, lock_memory: bool = False) -> bool:
    """Keep the memory of this process to itself, before any key is read.

    Args:
        inherited: set the limit of core dumps too, which outlives ``exec`` and holds for programs that this one starts.
            Nothing else does: each process that opens keys makes this call itself.
        lock_memory: keep all memory of this process out of the swap.

    Returns:
        True if other processes of this user cannot access the memory, which only Linux supports.

    Raises:
        ConfigurationError: ``memory-lock-refused``.
    """
    if inherited:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kept_out = _keep_out()
    if lock_memory:
        _lock()
    return kept_out


def _keep_out() -> bool:
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
