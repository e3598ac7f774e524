"""Program that runs another one until their parent ends: ``python bound_process.py PARENT PROGRAM ARGUMENT…``.

It imports only modules that load quickly. The kernel keeps the parent-death signal across the execution of the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the parent-death signal, and execute the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # the parent ended before the request
        sys.exit(1)
    os.execv(program[0], program)  # noqa: S606  what the demonstration starts, without a shell


if __name__ == "__main__":
    main()
