"""The simulated machine of a program that was not changed: its description in a variable, and access to it.

``attest simulate machine -- PROGRAM`` sets the variable, and puts ``startup`` on the import path of Python programs.
There ``sitecustomize`` gives ``attest.collect`` this machine in place of the real one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from attest.collect.access import MachineAccess
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedTd
from attest_simulator.machine_access import access_to
from attest_simulator.machines import MachineKind, SimulatedMachine

MACHINE_VARIABLE: Final = "ATTEST_SIMULATED_MACHINE"
STARTUP: Final = Path(__file__).with_name("startup")
_IMPORT_PATH: Final = "PYTHONPATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipDescription:
    """Chip of a bare SEV-SNP machine; ``tcb`` has the firmware levels by component, None for the usual ones."""

    product: str
    report_version: int
    name: str
    tcb: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDescription:
    """Description of a simulated machine; the same one always is the same machine.

    Attributes:
        measurement: of the workload, in hex: the launch digest of SNP, MRTD of TDX, of the paravisor on Azure.
        chip: of a machine of kind ``snp``; None is the usual one.
    """

    kind: MachineKind
    gpus: int = 0
    measurement: str | None = None
    chip: ChipDescription | None = None

    def machine(self) -> SimulatedMachine:
        """Return the machine."""
        found = SimulatedMachine.of(self.kind, gpus=self.gpus)
        cpu = found.cpu
        if self.chip is not None and isinstance(cpu, SimulatedGuest):
            cpu = replace(cpu, chip=_chip(self.chip))
        if self.measurement is not None:
            cpu = _measured(cpu, bytes.fromhex(self.measurement))
        return replace(found, cpu=cpu)

    def variables(self, root: Path) -> dict[str, str]:
        """Return the variables of a program on this machine, whose files are below ``root``."""
        before = os.environ.get(_IMPORT_PATH)
        return {
            MACHINE_VARIABLE: json.dumps({"root": str(root), **asdict(self)}),
            _IMPORT_PATH: os.pathsep.join([str(STARTUP), *([before] if before else [])]),
        }


def described_access(text: str) -> MachineAccess:
    """Return access to the machine that the variable describes."""
    _, access = described_machine(text)
    return access


def described_machine(text: str) -> tuple[SimulatedMachine, MachineAccess]:
    """Return the machine that the variable describes, and access to it."""
    document = json.loads(text)
    root, chip = Path(document.pop("root")), document.pop("chip")
    found = MachineDescription(chip=None if chip is None else ChipDescription(**chip), **document)
    machine = found.machine()
    return machine, access_to(machine, root)


def _chip(description: ChipDescription) -> SimulatedChip:
    levels = None if description.tcb is None else SnpTcbVersion(**description.tcb)
    return SimulatedChip.of(
        SnpProduct(description.product),
        name=description.name,
        report_version=description.report_version,
        tcb=levels,
    )


def _measured(
    cpu: SimulatedGuest | SimulatedTd | SimulatedAzureVm, value: bytes
) -> SimulatedGuest | SimulatedTd | SimulatedAzureVm:
    match cpu:
        case SimulatedGuest():
            return replace(cpu, measurement=value)
        case SimulatedTd():
            return replace(cpu, mr_td=value)
        case SimulatedAzureVm(host=SimulatedSnpHost() as host):
            return replace(cpu, host=replace(host, guest=replace(host.guest, measurement=value)))
        case SimulatedAzureVm(host=SimulatedTdxHost() as host):
            return replace(cpu, host=replace(host, td=replace(host.td, mr_td=value)))
    raise TypeError("a host of another kind")
