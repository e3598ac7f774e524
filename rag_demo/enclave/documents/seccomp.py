"""The filter of system calls: it leaves computation, reads and writes of open descriptors, and the end of the process.

Classic BPF as seccomp(2) runs it: the architecture first, then a comparison for each call that is allowed. Any other
call fails with EPERM, as PDFium's look for the fonts of the system does, without harm. A few calls that no reader of
documents ever makes, and that hostile code might, end the process at the first attempt.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_LD_ABS, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data
_PROT_EXEC = 4
_X32 = 0x40000000
_INSTRUCTION = struct.Struct("=HBBI")


# Numbers of calls on x86-64 and on aarch64 (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
_ALLOWED: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "close": (3, 57),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "exit": (60, 93),
    "sysinfo": (99, 179),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
"""Whatever their arguments. No open, no stat, no poll: nothing is opened, so there is nothing to ask about."""
_ENDING: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "sendto": (44, 206),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "pidfd_open": (434, 434),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "perf_event_open": (298, 241),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "memfd_create": (319, 279),
    "open_by_handle_at": (304, 265),
    "fork": (57, None),
    "vfork": (58, None),
}
"""Action of the filter that ends the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallTable:
    """The numbers of one architecture.

    Attributes:
        arch: ``AUDIT_ARCH_…``.
        seccomp: the number of seccomp(2) itself.
        allowed: calls that are allowed with any arguments.
        write: allowed to standard output alone.
        mapping: mmap and mprotect: allowed for memory that is not executable.
        tgkill: allowed to the process itself, for ``abort``.
        ending: calls that end the process.
    """

    arch: int
    seccomp: int
    allowed: tuple[int, ...]
    write: int
    mapping: tuple[int, int]
    tgkill: int
    ending: tuple[int, ...]


def _table(arch: int, column: int) -> SyscallTable:
    return SyscallTable(
        arch=arch,
        seccomp=(317, 277)[column],
        allowed=tuple(numbers[column] for numbers in _ALLOWED.values()),
        write=(1, 64)[column],
        mapping=((9, 10), (222, 226))[column],
        tgkill=(234, 131)[column],
        ending=tuple(number for numbers in _ENDING.values() if (number := numbers[column]) is not None),
    )


MACHINES = {"x86_64": _table(0xC000003E, 0), "aarch64": _table(0xC00000B7, 1)}


def program(machine: SyscallTable, pid: int) -> bytes:
    """Write the filter for a process: instructions of ``struct sock_filter``, in the order of the machine's bytes.

    Each rule stands by itself, a comparison and its answer, so that no jump is longer than a few instructions.
    """
    code = [
        _step(_LD_ABS, _ARCH),
        _step(_JEQ, machine.arch, yes=1),
        _step(_RET, _KILL),
        _step(_LD_ABS, _NUMBER),
        # x86-64 has a second set of numbers for programs with short pointers.
        _step(_JGE, _X32, no=1),
        _step(_RET, _KILL),
    ]
    code += _rules(machine.allowed, _ALLOW)
    code += _rules(machine.ending, _KILL)
    code += _argument_rule(machine.write, 0, _JEQ, 1, yes=_ALLOW, no=_EPERM)
    code += _argument_rule(machine.tgkill, 0, _JEQ, pid, yes=_ALLOW, no=_KILL)
    for number in machine.mapping:
        code += _argument_rule(number, 2, _JSET, _PROT_EXEC, yes=_EPERM, no=_ALLOW)
    return b"".join([*code, _step(_RET, _EPERM)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Write an instruction; ``yes`` and ``no`` are the numbers of instructions that a comparison skips."""
    return _INSTRUCTION.pack(code, yes, no, value)


def _rules(numbers: tuple[int, ...], answer: int) -> list[bytes]:
    return [step for number in numbers for step in (_step(_JEQ, number, no=1), _step(_RET, answer))]


def _argument_rule(number: int, argument: int, code: int, value: int, *, yes: int, no: int) -> list[bytes]:
    """Answer a call by the lower half of an argument; both machines have it first.

    The upper half does not matter: the kernel takes descriptors and process numbers as 32 bits, and no protection has
    a bit up there.
    """
    return [
        _step(_JEQ, number, no=4),
        _step(_LD_ABS, _ARGS + 8 * argument),
        _step(code, value, no=1),
        _step(_RET, yes),
        _step(_RET, no),
    ]
