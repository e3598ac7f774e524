"""Access to a simulated machine as to a real one: files below a root directory, and a kernel, a TPM and a driver.

``MachineAccess`` of ``attest.collect`` is the seam: collection itself is the production code.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from attest.collect.access import MachineAccess
from attest.collect.azure import AK_HANDLE, REPORT_INDEX, USER_DATA_INDEX
from attest.collect.azure_host import HostPatience, ThimCertificates
from attest.collect.boot_log import CCEL, TCG_LOG
from attest.collect.detect import TPM
from attest.collect.nvml import CollectedGpu, GpuIdentity, GpuState
from attest.collect.tpm import NvIndex, TpmQuote
from attest.collect.tsm import CONFIGFS, TsmReports
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.guest import SimulatedGuest
from attest_simulator.intel import SimulatedTd
from attest_simulator.intel.certificates import pem_text
from attest_simulator.machines import SimulatedMachine
from attest_simulator.nvidia import SimulatedBoard
from attest_simulator.tpm_log import write_tpm_log

TPM_STATE: Final = Path("tpm-state")
"""Below the root directory, on Azure: the place for the state of a TPM for programs that ask the kernel."""
_PROCESSOR: Final = "processor\t: 0\nvendor_id\t: {}\nflags\t\t: fpu hypervisor{}\n"
_AZURE_TAG: Final = "7783-7084-3265-9085-8269-3286-77\n"
_COMMON: Final = frozenset({"inblob", "outblob", "provider", "generation"})
_OF_SNP: Final = _COMMON | {"auxblob", "privlevel", "privlevel_floor"}
_USER_DATA_BYTES: Final = 64
_OK: Final = 200
_LOG_AREA_BYTES: Final = 64 * 1024


@contextmanager
def simulated_machine(machine: SimulatedMachine) -> Iterator[MachineAccess]:
    """Return access to a machine with this hardware within the block.

    Args:
        machine: the machine; its keys are public, and its evidence is refused unless simulated evidence is allowed.
    """
    with simulated_root(machine) as root:
        yield access_to(machine, root)


@contextmanager
def simulated_root(machine: SimulatedMachine) -> Iterator[Path]:
    """Make the files by which a machine is recognised, in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="attest-simulated-") as folder:
        root = Path(folder)
        for path, content in _files(machine).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        if isinstance(machine.cpu, SimulatedAzureVm):
            (root / TPM_STATE).mkdir()
        else:
            (root / CONFIGFS / "tsm/report").mkdir(parents=True)
        yield root


def access_to(machine: SimulatedMachine, root: Path) -> MachineAccess:
    """Return access to a machine whose files are below this directory."""
    access = MachineAccess(root=root)
    match machine.cpu:
        case SimulatedAzureVm() as vm:
            access = replace(access, open_tpm=lambda _: _Tpm(vm), azure=_Host(vm))
        case SimulatedGuest() | SimulatedTd() as cpu:
            reports = _Reports(root, cpu)
            access = replace(access, reports=lambda _: reports)
    if machine.board is None:
        return access
    board = machine.board
    return replace(access, collect_gpus=partial(_collected, board), gpu_state=partial(_state, board))


def _files(machine: SimulatedMachine) -> dict[Path | str, bytes]:
    files: dict[Path | str, bytes] = {}
    match machine.cpu:
        case SimulatedGuest():
            files["proc/cpuinfo"] = _PROCESSOR.format("AuthenticAMD", " sev_snp").encode()
        case SimulatedTd() as td:
            files["proc/cpuinfo"] = _PROCESSOR.format("GenuineIntel", " tdx_guest").encode()
            files[CCEL] = td.event_log(size=_LOG_AREA_BYTES)
        case SimulatedAzureVm() as vm:
            vendor = "AuthenticAMD" if isinstance(vm.host, SimulatedSnpHost) else "GenuineIntel"
            files["proc/cpuinfo"] = _PROCESSOR.format(vendor, "").encode()
            files["sys/class/dmi/id/chassis_asset_tag"] = _AZURE_TAG.encode()
            files["sys/class/dmi/id/sys_vendor"] = b"Microsoft Corporation\n"
            files[TPM] = b""
            if vm.log:
                files[TCG_LOG] = write_tpm_log(vm.log)
    if machine.board is not None:
        files["proc/driver/nvidia/version"] = f"NVRM version: {machine.board.gpus[0].driver}\n".encode()
        for number in range(len(machine.board.gpus)):
            files[f"sys/bus/pci/devices/0000:{number:02x}:00.0/vendor"] = b"0x10de\n"
            files[f"sys/bus/pci/devices/0000:{number:02x}:00.0/class"] = b"0x030200\n"
    return files


# -- the kernel


@dataclass(slots=True)
class _Request:
    """One request for a report: data to commit to, and the number of writes."""

    inblob: bytes = b""
    generation: int = 0


class _Reports(TsmReports):
    """configfs-tsm of a guest, with this object as its kernel."""

    def __init__(self, root: Path, cpu: SimulatedGuest | SimulatedTd) -> None:
        """Start without requests."""
        super().__init__(root)
        self._cpu = cpu
        self._requests: dict[str, _Request] = {}

    def make(self, name: str) -> None:
        """Create a request."""
        self._requests[name] = _Request()

    def remove(self, name: str) -> None:
        """Remove a request."""
        del self._requests[name]

    def attributes(self, name: str) -> frozenset[str]:
        """Return the attributes of a request."""
        del name
        return _OF_SNP if isinstance(self._cpu, SimulatedGuest) else _COMMON

    def read(self, name: str, attribute: str) -> bytes:
        """Read an attribute, as from the kernel."""
        request = self._requests[name]
        answers: dict[str, Callable[[], bytes]] = {"generation": lambda: b"%d\n" % request.generation}
        match self._cpu:
            case SimulatedGuest() as guest:
                answers |= {
                    "provider": lambda: b"sev_guest\n",
                    "privlevel_floor": lambda: b"%d\n" % guest.vmpl,
                    "outblob": lambda: guest.report(request.inblob),
                    "auxblob": guest.chip.certificate_table,
                }
            case SimulatedTd() as td:
                answers |= {"provider": lambda: b"tdx_guest\n", "outblob": lambda: td.quote(request.inblob)}
        if attribute not in answers:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return answers[attribute]()

    def write(self, name: str, attribute: str, data: bytes) -> None:
        """Write the data to commit to; the privilege level is fixed."""
        request = self._requests[name]
        request.generation += 1
        if attribute == "inblob":
            request.inblob = data


# -- Azure


class _Tpm:
    """The virtual TPM of a VM, with its paravisor behind it."""

    def __init__(self, vm: SimulatedAzureVm) -> None:
        self._vm = vm
        self._user_data: bytes | None = None

    def nv_size(self, index: int) -> int | None:
        """Return the size of an index, or None if it does not exist."""
        found = self._content(index)
        return None if found is None else len(found)

    def read_nv(self, index: int, *, limit: int) -> NvIndex | None:
        """Return the content of an index."""
        del limit
        found = self._content(index)
        return None if found is None else NvIndex(size=len(found), data=found)

    def write_nv(self, index: int, data: bytes) -> None:
        """Write user data, from which the paravisor makes another report."""
        if index == USER_DATA_INDEX:
            self._user_data = data

    def read_key(self, handle: int) -> rsa.RSAPublicKey | None:
        """Return the attestation key."""
        return self._vm.tpm.ak.public_key() if handle == AK_HANDLE else None

    def quote(self, handle: int, nonce: bytes) -> TpmQuote:
        """Return a quote of all registers."""
        del handle
        found = self._vm.tpm.quote(nonce)
        return TpmQuote(message=found.message, signature=found.signature)

    def read_pcrs(self) -> tuple[bytes, ...]:
        """Return the registers."""
        return self._vm.tpm.pcrs

    def _content(self, index: int) -> bytes | None:
        if index == REPORT_INDEX:
            return self._vm.hcl_report(user_data=self._user_data or bytes(_USER_DATA_BYTES))
        return self._user_data if index == USER_DATA_INDEX else None


class _Host:
    """The services of a VM's host."""

    def __init__(self, vm: SimulatedAzureVm) -> None:
        self._host = vm.host

    def certificates(self, patience: HostPatience) -> ThimCertificates:
        """Return the VCEK and its issuers."""
        del patience
        if not isinstance(self._host, SimulatedSnpHost):
            raise TypeError("a TDX host has no VCEK")
        chip = self._host.guest.chip
        _, *issuers = chip.certificates()
        return ThimCertificates(
            vcek=self._host.vcek(), chain_pem=pem_text(issuers).encode(), tcb=chip.current_tcb.to_bytes()
        )

    def td_quote(self, td_report: bytes, patience: HostPatience) -> bytes:
        """Return a TD quote."""
        del patience
        if not isinstance(self._host, SimulatedTdxHost):
            raise TypeError("an SNP host makes no TD quotes")
        return self._host.quote(td_report)

    def answers(self, patience: HostPatience) -> int:
        """Return the HTTP status of the host's service."""
        del patience
        return _OK


# -- NVIDIA


def _collected(board: SimulatedBoard, nonce: bytes, *, timeout: float) -> tuple[CollectedGpu, ...]:
    state = _state(board, timeout=timeout)
    return tuple(
        CollectedGpu(
            index=one.index,
            uuid=one.uuid,
            architecture=one.architecture,
            report=gpu.report(nonce),
            chain_pem=gpu.chain_pem,
            settings=state.settings,
            driver_version=state.driver_version,
            vbios_version=one.vbios_version,
        )
        for one, gpu in zip(state.gpus, board.gpus, strict=True)
    )


def _state(board: SimulatedBoard, *, timeout: float) -> GpuState:
    del timeout
    settings = board.gpus[0].settings
    if settings is None:
        raise TypeError("a GPU states its modes")
    gpus = tuple(
        GpuIdentity(index=index, uuid=gpu.uuid or "", architecture=gpu.arch, vbios_version=gpu.vbios)
        for index, gpu in enumerate(board.gpus)
    )
    return GpuState(driver_version=board.gpus[0].driver, settings=settings, gpus=gpus)
