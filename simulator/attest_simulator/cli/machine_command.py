"""The command of ``attest simulate machine``: one of attest in this process, or a program in its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click

from attest.cli.child_process import ChildProgram
from attest.cli.files import write_output
from attest.cli.main import cli
from attest.clock import this_second
from attest_simulator.machine_access import access_to, simulated_root
from attest_simulator.machines import MachineKind, SimulatedMachine
from attest_simulator.nvidia.driver_library import driver_library
from attest_simulator.program_machine import MachineDescription

_STARTING_PROGRAMS: Final = ("run", "agent")
"""Commands whose programs are to see the machine: they need a process of their own, as the programs' parent."""


def run_on(description: MachineDescription, arguments: tuple[str, ...]) -> int:
    """Run a command on this machine, and return its exit code."""
    machine = description.machine()
    named = arguments[0] == "attest" and len(arguments) > 1  # prefixed to a whole command line
    command = arguments[named:]
    of_attest = named or command[0] in cli.list_commands(click.Context(cli))
    if of_attest and command[0] in _STARTING_PROGRAMS:
        command, of_attest = (sys.executable, "-m", "attest", *command), False
    with ExitStack() as more, simulated_root(machine) as root:
        if of_attest:
            return int(cli.main(list(command), standalone_mode=False, obj=access_to(machine, root)))
        program = ChildProgram(
            command=_on_its_kernel(command),
            kind="memfd",
            terminate=False,
            grace=0,
            warn=lambda _: None,
            variables=description.variables(root) | more.enter_context(_driver(description.kind, machine)),
        )
        return program.run((), ())


@contextmanager
def _driver(kind: MachineKind, machine: SimulatedMachine) -> Iterator[dict[str, str]]:
    """Serve the machine's GPUs to programs that load NVML, where this machine can; return the variables for it."""
    with ExitStack() as within:
        variables: dict[str, str] = {}
        if machine.board is not None:
            try:
                variables = within.enter_context(driver_library(machine.board, "tdx" if "tdx" in kind else "snp"))
            except OSError as exc:
                click.echo(f"note: the driver library (NVML) of the real machine answers this program: {exc}", err=True)
        yield variables


def _on_its_kernel(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts a program, if it is there, behind the kernel of this machine."""
    if shutil.which(command[0]) is None:
        return command
    return (sys.executable, "-m", "attest_simulator.kernel", *command)


def write_vendor_files(machine: SimulatedMachine, *, policy: str | None, folder: str | None) -> None:
    """Write the inputs of a service that is to know this machine: a policy, and endorsements as files of a folder."""
    if policy is not None:
        write_output(policy, machine.policy() + b"\n", force=True)
    if folder is not None:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in machine.endorsement_files(at=this_second()).items():
            write_output(str(place / name), content, force=True)
