"""The filter of system calls: what remains is to compute, to read and write what is open, and to end.

Classic BPF as seccomp(2) runs it: the architecture first, then a comparison for each call that is allowed. What is not
named fails with EPERM, as PDFium's look for the fonts of the system does, without harm. A few calls that no reader of
documents ever makes, and that code in a document might, end the process: a second attempt is not given.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["MACHINES", "Machine", "program"]

_LD_ABS, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data
_PROT_EXEC = 4
_X32 = 0x40000000
_INSTRUCTION = struct.Struct("=HBBI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The numbers of one architecture (``asm/unistd.h``).

    Attributes:
        arch: ``AUDIT_ARCH_…``.
        seccomp: the number of seccomp(2) itself.
        allowed: calls that are allowed whatever their arguments.
        write: allowed to standard output alone.
        mapping: mmap and mprotect: allowed unless the memory is to be executable.
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


# In the same order for both: read, close, munmap, brk, rt_sigaction, rt_sigprocmask, rt_sigreturn, sched_yield, mremap,
# madvise, nanosleep, getpid, exit, sysinfo, sigaltstack, gettid, futex, sched_getaffinity, restart_syscall,
# clock_gettime, exit_group, getrandom. No open, no stat, no poll: nothing is opened, so there is nothing to ask about.
# Ending: socket, socketpair, connect, bind, listen, sendto, clone, clone3, execve, execveat, kill, ptrace,
# process_vm_readv, process_vm_writev, mount, unshare, setns, bpf, userfaultfd, io_uring_setup, pidfd_open, keyctl,
# add_key, request_key, perf_event_open, init_module, finit_module, memfd_create, open_by_handle_at; fork and vfork
# where there are such calls.
MACHINES = {
    "x86_64": Machine(
        arch=0xC000003E,
        seccomp=317,
        allowed=(0, 3, 11, 12, 13, 14, 15, 24, 25, 28, 35, 39, 60, 99, 131, 186, 202, 204, 219, 228, 231, 318),
        write=1,
        mapping=(9, 10),
        tgkill=234,
        ending=(
            *(41, 53, 42, 49, 50, 44, 56, 435, 59, 322, 62, 101, 310, 311, 165, 272, 308, 321, 323, 425, 434, 250),
            *(248, 249, 298, 175, 313, 319, 304, 57, 58),
        ),
    ),
    "aarch64": Machine(
        arch=0xC00000B7,
        seccomp=277,
        allowed=(
            63,
            57,
            215,
            214,
            134,
            135,
            139,
            124,
            216,
            233,
            101,
            172,
            93,
            179,
            132,
            178,
            98,
            123,
            128,
            113,
            94,
            278,
        ),
        write=64,
        mapping=(222, 226),
        tgkill=131,
        ending=(
            *(198, 199, 203, 200, 201, 206, 220, 435, 221, 281, 129, 117, 270, 271, 40, 97, 268, 280, 282, 425, 434),
            *(219, 217, 218, 241, 105, 273, 279, 265),
        ),
    ),
}


def program(machine: Machine, pid: int) -> bytes:
    """Write the filter for a process: instructions of ``struct sock_filter``, in the order of the machine's bytes.

    Each rule stands by itself, a comparison and its answer, so that no jump is longer than a few instructions.
    """
    code = [
        _step(_LD_ABS, _ARCH),
        _jump(_JEQ, machine.arch, yes=1, no=0),
        _step(_RET, _KILL),
        _step(_LD_ABS, _NUMBER),
        # x86-64 has a second set of numbers for programs with short pointers.
        _jump(_JGE, _X32, yes=0, no=1),
        _step(_RET, _KILL),
    ]
    code += _rules(machine.allowed, _ALLOW)
    code += _rules(machine.ending, _KILL)
    code += _argument_rule(machine.write, 0, _JEQ, 1, yes=_ALLOW, no=_EPERM)
    code += _argument_rule(machine.tgkill, 0, _JEQ, pid, yes=_ALLOW, no=_KILL)
    for number in machine.mapping:
        code += _argument_rule(number, 2, _JSET, _PROT_EXEC, yes=_EPERM, no=_ALLOW)
    return b"".join([*code, _step(_RET, _EPERM)])


def _step(code: int, value: int) -> bytes:
    return _INSTRUCTION.pack(code, 0, 0, value)


def _jump(code: int, value: int, *, yes: int, no: int) -> bytes:
    return _INSTRUCTION.pack(code, yes, no, value)


def _rules(numbers: tuple[int, ...], answer: int) -> list[bytes]:
    return [step for number in numbers for step in (_jump(_JEQ, number, yes=0, no=1), _step(_RET, answer))]


def _argument_rule(number: int, argument: int, code: int, value: int, *, yes: int, no: int) -> list[bytes]:
    """Answer a call by the lower half of an argument; both machines have it first.

    The upper half does not matter: the kernel takes descriptors and process numbers as 32 bits, and no protection has
    a bit up there.
    """
    return [
        _jump(_JEQ, number, yes=0, no=4),
        _step(_LD_ABS, _ARGS + 8 * argument),
        _jump(code, value, yes=0, no=1),
        _step(_RET, yes),
        _step(_RET, no),
    ]
