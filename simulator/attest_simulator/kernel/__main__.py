"""Start of a program on a simulated machine: first the machine's files and configfs-tsm, then the program.

Where the real kernel forbids the mounts, the program starts without them, after a note.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click

from attest.collect.tsm import CONFIGFS
from attest_simulator.kernel.mounts import cover, enter_mount_namespace
from attest_simulator.program_machine import MACHINE_VARIABLE, described_access

_ROOT = Path("/")
_NOT_FOUND = 127


def main(command: list[str]) -> None:
    """Become the program ``command``, on the machine that the environment describes."""
    try:
        _show(os.environ[MACHINE_VARIABLE])
    except (OSError, ImportError) as exc:
        click.echo(f"note: the kernel of the real machine answers this program: {exc}", err=True)
    try:
        os.execvp(command[0], command)  # noqa: S606  the program of the command line, which starts as it would there
    except OSError as exc:
        click.echo(f"error: {command[0]} cannot be started: {exc.strerror}", err=True)
        sys.exit(_NOT_FOUND)


def _show(description: str) -> None:
    from attest_simulator.kernel.configfs import serve_reports  # noqa: PLC0415  its library is an extra

    access = described_access(description)
    reports = access.reports(access.root)
    enter_mount_namespace()
    mountpoint = _ROOT / CONFIGFS
    cover(mountpoint, access.root / CONFIGFS)
    _start_server(lambda ready: serve_reports(reports, mountpoint, ready))
    # Last, so that no program sees the processor of one machine and the kernel of another.
    for source in sorted(path for path in access.root.rglob("*") if path.is_file()):
        cover(_ROOT / source.relative_to(access.root), source)


def _start_server(serve: Callable[[Callable[[], None]], None]) -> None:
    """Serve in a process of its own, which ends with this one; return when the file system is mounted."""
    program = os.getpid()
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(reading)
            threading.Thread(target=_end_with, args=(program,), daemon=True).start()
            serve(lambda: _ready(writing))
        os._exit(0)
    os.close(writing)
    os.waitpid(first, 0)
    with os.fdopen(reading, "rb") as answer:
        if not answer.read(1):
            raise OSError("the file system in place of configfs-tsm cannot be mounted")


def _ready(writing: int) -> None:
    """Say that the file system is mounted, and let go of the program's terminal and pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.write(writing, b"1")
    os.close(writing)


def _end_with(program: int) -> None:
    process = os.pidfd_open(program)
    select.select([process], [], [])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
