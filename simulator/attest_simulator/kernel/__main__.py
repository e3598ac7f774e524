"""Start of a program on a simulated machine: first the machine's files, and configfs-tsm or a TPM, then the program.

Where the kernel forbids the mounts, or a program for them is missing, the program starts without them, after a note.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click

from attest.collect.access import MachineAccess
from attest.collect.detect import TPM
from attest.collect.tsm import CONFIGFS
from attest_simulator.azure import SimulatedAzureVm
from attest_simulator.kernel.mounts import cover, enter_mount_namespace, keep_in_memory
from attest_simulator.machine_access import TPM_STATE
from attest_simulator.program_machine import MACHINE_VARIABLE, described_machine

_ROOT = Path("/")
_OTHER_TPM = Path("dev/tpm0")
_NOT_FOUND = 127
Ready = Callable[[], None]


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
    machine, access = described_machine(description)
    root = access.root
    # Covered last, so that no program sees the processor of one machine and the kernel of another.
    files = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    match machine.cpu:
        case SimulatedAzureVm() as vm:
            files |= dict.fromkeys((TPM, _OTHER_TPM), _show_tpm(vm, root / TPM_STATE))
        case _:
            _show_reports(access)
    for path, source in files.items():
        cover(_ROOT / path, source)


def _show_reports(access: MachineAccess) -> None:
    from attest_simulator.kernel.configfs import serve_reports  # noqa: PLC0415  its library is an extra

    reports = access.reports(access.root)
    enter_mount_namespace()
    mountpoint = _ROOT / CONFIGFS
    cover(mountpoint, access.root / CONFIGFS)
    _start_server(
        lambda ready: serve_reports(reports, mountpoint, ready),
        failed="the file system in place of configfs-tsm cannot be mounted",
    )


def _show_tpm(vm: SimulatedAzureVm, state: Path) -> Path:
    """Start the VM's TPM, and return the place of its device."""
    from attest_simulator.kernel.tpm import TpmDevice, VirtualTpm, require_swtpm  # noqa: PLC0415  of these VMs alone

    require_swtpm()
    enter_mount_namespace()
    keep_in_memory(state)
    device = TpmDevice()

    def serve(ready: Ready) -> None:
        tpm = VirtualTpm(vm, state)
        ready()
        device.serve(tpm.answer, tpm.drop_memory)

    _start_server(serve, failed="the software TPM (swtpm) cannot be started")
    return device.path


def _start_server(serve: Callable[[Ready], None], *, failed: str) -> None:
    """Serve in a process of its own, which ends with this one; return when it is ready.

    Raises:
        OSError: it ended before, with this reason.
    """
    program = os.pidfd_open(os.getpid())
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                os.close(reading)
                threading.Thread(target=_end_with, args=(program,), daemon=True).start()
                serve(lambda: _ready(writing))
            finally:
                os._exit(0)
        os._exit(0)
    os.close(program)
    os.close(writing)
    os.waitpid(first, 0)
    with os.fdopen(reading, "rb") as answer:
        if not answer.read(1):
            raise OSError(failed)


def _ready(writing: int) -> None:
    """Say that the server is ready, and let go of the program's terminal and pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.write(writing, b"1")
    os.close(writing)


def _end_with(program: int) -> None:
    select.select([program], [], [])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
