"""A simulated machine whose hardware changes while it runs: a file names the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.machines import MachineKind, SimulatedMachine
from attest_simulator.nvidia import SimulatedBoard

_MAX_NAME: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingMachine:
    """An Attester that reads its present change before each evidence.

    Attributes:
        file: has the name of a change, one of ``CHANGES``; absent or empty: the machine is as it was.
        at: moment by which firmware is out of date.
    """

    machine: SimulatedMachine
    file: Path
    at: datetime

    @staticmethod
    def of(kind: MachineKind, *, gpus: int, certified_from: datetime, file: Path) -> ChangingMachine:
        """Return an ordinary machine that changes with a file; arguments as ``SimulatedMachine.of``."""
        machine = SimulatedMachine.of(kind, gpus=gpus, certified_from=certified_from)
        return ChangingMachine(machine=machine, file=file, at=certified_from)

    def __call__(self, binding: Binding) -> Evidence:
        """Return evidence of the machine as it is now.

        Raises:
            ConfigurationError: ``machine-change-unknown``.
        """
        return self._now()(binding)

    def endorsement_files(self, *, at: datetime) -> Mapping[str, bytes]:
        """Return all endorsements of the machine and of what it can become, so that they can be kept over a change."""
        files = dict(self.machine.endorsement_files(at=at))
        for name, change in CHANGES.items():
            more = change(self.machine, self.at).endorsement_files(at=at)
            files |= {f"{name}-{file}": data for file, data in more.items() if data not in files.values()}
        return files

    def _now(self) -> SimulatedMachine:
        name = self._stated()
        if not name:
            return self.machine
        if name not in CHANGES:
            raise ConfigurationError(
                f"{self.file} names no change of the simulated machine",
                code="machine-change-unknown",
                expected=f"one of {', '.join(CHANGES)}",
                got=name,
            )
        return CHANGES[name](self.machine, self.at)

    def _stated(self) -> str:
        """Return the beginning of the file, whatever its bytes are; nothing if there is no file."""
        try:
            with self.file.open("rb") as opened:
                return opened.read(_MAX_NAME).decode(errors="replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as exc:
            return f"a file that cannot be read: {exc.strerror}"


def with_older_firmware(machine: SimulatedMachine, at: datetime) -> SimulatedMachine:
    """Return the machine with firmware below the one that it had."""
    match machine.cpu:
        case SimulatedGuest() as guest:
            return replace(machine, cpu=_older_guest(guest))
        case SimulatedTd() as td:
            return replace(machine, cpu=_older_domain(td, at))
        case SimulatedAzureVm(host=SimulatedSnpHost() as host) as vm:
            return replace(machine, cpu=replace(vm, host=replace(host, guest=_older_guest(host.guest))))
        case SimulatedAzureVm(host=SimulatedTdxHost() as host) as vm:
            return replace(machine, cpu=replace(vm, host=replace(host, td=_older_domain(host.td, at))))
    raise TypeError("a host of another kind")


def with_other_gpus(machine: SimulatedMachine, at: datetime) -> SimulatedMachine:
    """Return the machine with GPUs of another architecture in place of its own; without GPUs, with one."""
    del at
    count = 1 if machine.board is None else len(machine.board.gpus)
    board = SimulatedBoard.of("exchanged board", architecture="blackwell", gpus=count, switches=0)
    return replace(machine, board=board)


CHANGES: Final[Mapping[str, Callable[[SimulatedMachine, datetime], SimulatedMachine]]] = {
    "older-firmware": with_older_firmware,
    "other-gpu": with_other_gpus,
}
"""Changes by name."""


def out_of_date(platform: SimulatedPlatform, *, at: datetime) -> SimulatedPlatform:
    """Return the platform with firmware of Intel's second TDX level, which is OutOfDate."""
    level = platform.tcb_info("tdx", at=at).levels[1]
    svns = tuple(component.svn for component in level.sgx)
    loader_and_rest = bytes(component.svn for component in level.tdx or ())[2:]  # the first two belong to the module
    return replace(
        platform,
        sgx=replace(platform.sgx, components=svns, cpu_svn=bytes(svns), pce_svn=level.pce_svn),
        tee_tcb_svn=platform.tee_tcb_svn[:2] + loader_and_rest,
    )


def _older_guest(guest: SimulatedGuest) -> SimulatedGuest:
    return replace(guest, chip=_older_chip(guest.chip))


def _older_chip(chip: SimulatedChip) -> SimulatedChip:
    older = replace(chip.reported_tcb, microcode=chip.reported_tcb.microcode - 1)
    return replace(chip, current_tcb=older, reported_tcb=older, committed_tcb=older)


def _older_domain(td: SimulatedTd, at: datetime) -> SimulatedTd:
    return replace(td, platform=out_of_date(td.platform, at=at))
