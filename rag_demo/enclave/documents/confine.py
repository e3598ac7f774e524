"""Confinement of the worker before it reads a byte of a document. It cannot be undone.

limits          addresses, processor time; no file, no process, no core, no further descriptor
descriptors     standard input and output stay, which are pipes; all others are closed
namespaces      of users, network, interprocess communication and names, where the kernel allows it; seccomp
                already forbids what they would allow, so their absence is not a reason to refuse
privileges      no capabilities, no new ones, no access by other processes (ptrace)
seccomp         the filter of ``seccomp.py``; without it the worker refuses to continue
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from contextlib import suppress

from rag_demo.enclave.documents.seccomp import MACHINES, program

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_CAPABILITY_VERSION_3 = 0x20080522
_NEW_USER, _NEW_NET, _NEW_IPC, _NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000
_INSTRUCTION_BYTES = 8
_FIRST_TO_CLOSE = 2
_MANY = 65_536


class ConfinementError(Exception):
    """The worker cannot give up what it should. The argument says which."""


class _Filter(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(*, memory_bytes: int, cpu_seconds: int, unconfined: bool) -> None:
    """Give up everything but computing, reading standard input and writing standard output.

    Args:
        memory_bytes: of addresses.
        cpu_seconds: of processor time.
        unconfined: continue without a filter of system calls. All other restrictions apply.

    Raises:
        ConfinementError: something that is demanded cannot be given up.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _prefer_for_oom_killer()
    libc.unshare(_NEW_USER | _NEW_NET | _NEW_IPC | _NEW_UTS)
    _drop_privileges(libc)
    _close_all_but_pipes(libc)
    _limit(memory_bytes=memory_bytes, cpu_seconds=cpu_seconds)
    problem = _filter(libc)
    if problem and not unconfined:
        raise ConfinementError(problem)


def _prefer_for_oom_killer() -> None:
    """Make this process the first that the kernel ends when the machine runs out of memory."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123  few imports
        file.write("1000")


def _drop_privileges(libc: ctypes.CDLL) -> None:
    """Drop all capabilities: of the machine, or of a new user namespace, which grants all of them again."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise ConfinementError("capabilities")
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise ConfinementError("no-new-privileges")
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise ConfinementError("dumpable")


def _close_all_but_pipes(libc: ctypes.CDLL) -> None:
    """Close every descriptor but standard input and output: in one call, or where the C library has none, in many."""
    try:
        closed = libc.close_range(_FIRST_TO_CLOSE, 0xFFFFFFFF, 0) == 0
    except AttributeError:
        closed = False
    if not closed:
        os.closerange(_FIRST_TO_CLOSE, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MANY))


def _limit(*, memory_bytes: int, cpu_seconds: int) -> None:
    wanted = (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        # At the soft limit SIGXCPU, by which the parent recognises the limit; a second later, SIGKILL.
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 2, 2),
    )
    try:
        for kind, soft, hard in wanted:
            _, ceiling = resource.getrlimit(kind)
            if ceiling != resource.RLIM_INFINITY:
                soft, hard = min(soft, ceiling), min(hard, ceiling)  # noqa: PLW2901  the lesser of both
            resource.setrlimit(kind, (soft, hard))
    except (OSError, ValueError) as exc:
        raise ConfinementError("resource limits") from exc


def _filter(libc: ctypes.CDLL) -> str:
    """Install the filter and test it; return the fault, or an empty string."""
    machine = MACHINES.get(platform.machine()) if sys.byteorder == "little" and sys.maxsize > 1 << 32 else None
    if machine is None:
        return "no seccomp filter for this machine"
    code = program(machine, os.getpid())
    asked = _Filter(len(code) // _INSTRUCTION_BYTES, code)
    # TSYNC: all threads, or a failure. There is one, unless a library started another.
    if libc.syscall(machine.seccomp, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, ctypes.byref(asked)):
        return "seccomp"
    try:
        os.close(os.open("/", os.O_RDONLY))
    except PermissionError:
        return ""
    except OSError:
        return "seccomp has no effect"
    return "seccomp has no effect"
