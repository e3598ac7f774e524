"""Whole simulated machines for programs that need keys: evidence, endorsements, and a policy of each.

::

    machine = SimulatedMachine.of("tdx", gpus=2)
    session = attest.Session(url, service=verifier_key, attester=machine)

The service needs the endorsements (``endorsement_files``), and has to accept simulated evidence in its
settings and in the key's policy (``policy``). None of it proves anything about hardware.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha384
from typing import Final, Literal, get_args

from attest.encoding import JsonValue
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, MEDIA_SNP_EXTENDED, Evidence, EvidenceItem
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedBoard, bound_evidence
from attest_simulator.revocation_lists import simulated_crl
from attest_simulator.tpm_log import typical_tpm_boot

MachineKind = Literal["snp", "tdx", "azure-snp", "azure-tdx"]
_OTHER_IMAGE: Final = sha384(b"another image").digest()
_BOOT_LOADER: Final = 4
"""Register of the boot loader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMachine:
    """A confidential machine with one workload, an Attester. Make one with ``SimulatedMachine.of``.

    Attributes:
        cpu: an AMD guest, an Intel trust domain, or a VM on Azure.
        board: its GPUs; None without GPUs.
    """

    cpu: SimulatedGuest | SimulatedTd | SimulatedAzureVm
    board: SimulatedBoard | None = None

    @staticmethod
    def of(kind: MachineKind, *, gpus: int = 0, certified_from: datetime | None = None) -> SimulatedMachine:
        """Return an ordinary machine.

        Args:
            kind: ``snp`` and ``tdx`` are bare machines, the others VMs on Azure.
            gpus: number of GPUs.
            certified_from: start of the chip's certificate, aware; None is the simulator's default.

        Raises:
            ValueError: another kind.
        """
        board = SimulatedBoard.of(f"{kind} machine", gpus=gpus, switches=0) if gpus else None
        return SimulatedMachine(cpu=_cpu_of(kind, certified_from), board=board)

    def __call__(self, binding: Binding) -> Evidence:
        """Return evidence of CPU and GPUs that commits to a binding."""
        return bound_evidence(binding, () if self.board is None else self.board.devices, self._items)

    def with_other_image(self) -> SimulatedMachine:
        """Return the machine with another workload, which the first one's policy refuses."""
        match self.cpu:
            case SimulatedGuest():
                return replace(self, cpu=replace(self.cpu, measurement=_OTHER_IMAGE))
            case SimulatedTd():
                return replace(self, cpu=replace(self.cpu, mr_td=_OTHER_IMAGE))
            case SimulatedAzureVm():
                tpm = self.cpu.tpm.with_pcrs({_BOOT_LOADER: _OTHER_IMAGE[:32]})
                return replace(self, cpu=replace(self.cpu, tpm=tpm, log=()))

    def endorsement_files(self, *, at: datetime) -> Mapping[str, bytes]:
        """Return all endorsements at a moment, as files for a service's ``endorsements``."""
        chip, platform = self._hardware
        files: dict[str, bytes] = {}
        if chip is not None:
            # Bare machines send these with their report; a VM sends its own certificate alone.
            issuers = enumerate(chip.certificates()[1:])
            files |= {"amd.crl": simulated_crl(chip.product, at=at)} | {f"amd-{n}.der": one for n, one in issuers}
        if platform is not None:
            files |= {"intel.json": platform.collateral("tdx", at=at).to_json()}
        if self.board is not None:
            found = self.board.endorsements(at=at)
            files |= {f"nvidia-rim-{number}.xml": rim.xml for number, rim in enumerate(found.rims)}
            files |= {f"nvidia-status-{number}.der": answer.der for number, answer in enumerate(found.ocsp)}
            files["nvidia-root.der"] = self.board.devices[0][1].certificates[-1]
        return files

    def policy(self, *, name: str = "simulated") -> bytes:
        """Return a policy, as JSON, that this machine meets and one with another workload does not."""
        chip, _ = self._hardware
        values: dict[str, JsonValue] = {"workload": _values(self._measurement)}
        document: dict[str, JsonValue] = {
            "schema": "attest.policy/1",
            "name": name,
            "version": 1,
            "simulated": {"unchecked": "a machine of the simulator"},
            "reference_values": values,
        }
        if chip is None:
            document["tdx"] = {"mr_td": ["workload"]}
        else:
            product = str(chip.product)
            least: JsonValue = {**chip.reported_tcb.components()}
            document["snp"] = {"products": [product], "measurement": ["workload"], "minimum_tcb": {product: least}}
        if isinstance(self.cpu, SimulatedTd):
            values |= {"settings": _values(self.cpu.rtmrs[0]), "boot": _values(self.cpu.rtmrs[1])}
            document["tdx"] = {"mr_td": ["workload"], "rtmr0": ["settings"], "rtmr1": ["boot"]}
        if isinstance(self.cpu, SimulatedAzureVm):
            values["boot-loader"] = _values(self.cpu.tpm.pcrs[_BOOT_LOADER])
            console: JsonValue = {"console_enabled": {"unchecked": "a machine of the simulator"}}
            document["azure"] = {"pcr4": ["boot-loader"], "vm_configuration": console}
        if self.board is not None:
            document["gpu"] = {
                "architectures": ["hopper"],
                "driver_versions": {"at_least": "570.86"},
                "vbios_versions": {"at_least": "96.00.5E.00.01", "below": "97"},
            }
            document["devices"] = {"gpus": len(self.board.gpus)}
        return json.dumps(document, indent=1).encode()

    @property
    def _bare(self) -> SimulatedGuest | SimulatedTd:
        """Workload of the processor itself: on Azure the paravisor's domain."""
        match self.cpu:
            case SimulatedAzureVm(host=SimulatedSnpHost() as host):
                return host.guest
            case SimulatedAzureVm(host=SimulatedTdxHost() as host):
                return host.td
            case SimulatedGuest() | SimulatedTd() as bare:
                return bare
        raise TypeError("a host of another kind")

    @property
    def _hardware(self) -> tuple[SimulatedChip | None, SimulatedPlatform | None]:
        bare = self._bare
        return (bare.chip, None) if isinstance(bare, SimulatedGuest) else (None, bare.platform)

    @property
    def _measurement(self) -> bytes:
        bare = self._bare
        return bare.measurement if isinstance(bare, SimulatedGuest) else bare.mr_td

    def _items(self, report_data: bytes) -> tuple[EvidenceItem, ...]:
        match self.cpu:
            case SimulatedGuest():
                value = self.cpu.extended_report(report_data)
                return (EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=value),)
            case SimulatedTd():
                return (EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=self.cpu.quote(report_data)),)
            case SimulatedAzureVm():
                return self.cpu.items(report_data)


def _cpu_of(kind: str, certified_from: datetime | None) -> SimulatedGuest | SimulatedTd | SimulatedAzureVm:
    match kind:
        case "snp":
            return SimulatedGuest(chip=_chip(certified_from))
        case "tdx":
            return SimulatedTd(platform=SimulatedPlatform.of())
        case "azure-snp":
            snp_host = SimulatedSnpHost.of(_chip(certified_from, report_version=3))
            return SimulatedAzureVm.of(snp_host).booted(typical_tpm_boot())
        case "azure-tdx":
            return SimulatedAzureVm.of(SimulatedTdxHost.of()).booted(typical_tpm_boot())
    raise ValueError(f"{kind!r} is not a kind of machine: expected one of {', '.join(get_args(MachineKind))}")


def _chip(certified_from: datetime | None, *, report_version: int | None = None) -> SimulatedChip:
    made = SimulatedChip.of(SnpProduct.GENOA)
    version = made.report_version if report_version is None else report_version
    return replace(made, report_version=version, certified_from=certified_from or made.certified_from)


def _values(value: bytes) -> JsonValue:
    return {"values": [value.hex()], "origin": "the simulator"}
