"""Runs a program that ends when its parent does, however that ends: ``python tied.py PARENT PROGRAM ARGUMENT…``.

Nothing is imported that takes time; the kernel keeps the promise across the execution of the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it ended before the kernel was asked
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606  what the demonstration starts, without a shell


if __name__ == "__main__":
    main()
