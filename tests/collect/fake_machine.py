"""Confidential guests made for the test: a directory tree, a kernel that answers, and devices that can be asked.

The files are real. `FakeTsm` plays the kernel behind them: it fills in a request when it is made, counts writes, and
makes a report when one is read, as Linux does. Whoever else writes is a thread of its own.
"""

import ctypes
import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from attest.collect import CollectedGpu, GpuIdentity, GpuState
from attest.collect.access import MachineAccess
from attest.collect.ioctl import (
    SNP_EXT_REPORT_REQ,
    SNP_GET_EXT_REPORT,
    SNP_GET_REPORT,
    SNP_GUEST_REQUEST,
    SNP_REPORT_REQ,
    SNP_REPORT_RESP,
    TDX_CMD_GET_REPORT0,
    Device,
)
from attest.collect.tsm import TsmReports
from attest.evidence.gpu.evidence import GpuSettings
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPlatform, SimulatedTd
from attest_simulator.nvidia import SimulatedGpu

Blobs = dict[str, bytes]
Answer = Callable[[bytes, int | None], Blobs]
"""REPORT_DATA and VMPL to the blobs of a report."""


def fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def snp_answer(guest: SimulatedGuest) -> Answer:
    def answer(report_data: bytes, vmpl: int | None) -> Blobs:
        asked = replace(guest, vmpl=vmpl or 0)
        return {"outblob": asked.report(report_data), "auxblob": guest.chip.certificate_table()}

    return answer


def tdx_answer(td: SimulatedTd) -> Answer:
    return lambda report_data, _: {"outblob": td.quote(report_data)}


@dataclass
class Request:
    """One request, as the kernel keeps it."""

    inblob: bytes = b""
    privlevel: int = 0
    service: bytes = b""
    generation: int = 0
    read_generation: int = 0


class FakeTsm(TsmReports):
    """The kernel's side of configfs-tsm."""

    def __init__(self, root: Path, answer: Answer, *, provider: str = "sev_guest", floor: int = 0) -> None:
        super().__init__(root)
        self.answer = answer
        self.provider = provider
        self.floor = floor
        self.shown = {"inblob", "outblob", "provider", "generation"}
        if provider == "sev_guest":
            self.shown |= {"auxblob", "privlevel", "privlevel_floor"}
        self.requests: dict[str, Request] = {}
        self.made: list[str] = []
        self.errors: dict[str, list[int]] = defaultdict(list)
        """Errno for the next uses of `make`, `remove` or an attribute."""
        self.meanwhile: Callable[[str], None] | None = None
        """What another process does to a request before its report is read."""
        self._lock = threading.Lock()

    def _perhaps_fail(self, what: str) -> None:
        if self.errors[what]:
            number = self.errors[what].pop(0)
            if number:
                raise fail(number)

    def make(self, name: str) -> None:
        self._perhaps_fail("make")
        super().make(name)
        for attribute in self.shown:
            (self.folder / name / attribute).touch()
        self.requests[name] = Request()
        self.made.append(name)

    def remove(self, name: str) -> None:
        self._perhaps_fail("remove")
        for path in (self.folder / name).iterdir():
            path.unlink()  # of configfs, attributes go with their directory
        super().remove(name)

    def write(self, name: str, attribute: str, data: bytes) -> None:
        self._perhaps_fail(attribute)
        super().write(name, attribute, data)
        with self._lock:
            request = self.requests[name]
            if attribute == "inblob":
                request.inblob = data
            elif attribute == "privlevel":
                if not self.floor <= int(data) <= 3:
                    raise fail(errno.EINVAL)
                request.privlevel = int(data)
            else:
                request.service = data
            request.generation += 1

    def read(self, name: str, attribute: str) -> bytes:
        if attribute == "outblob" and self.meanwhile is not None:
            other = threading.Thread(target=self.meanwhile, args=(name,))
            other.start()
            other.join()
        self._perhaps_fail(attribute)
        with self._lock:
            self._refresh(name, attribute)
        return super().read(name, attribute)

    def _refresh(self, name: str, attribute: str) -> None:
        request, folder = self.requests[name], self.folder / name
        if attribute in ("outblob", "auxblob", "manifestblob"):
            if len(request.inblob) != 64:
                raise fail(errno.EINVAL)
            if request.read_generation != request.generation:
                privlevel = request.privlevel if "privlevel" in self.shown else None
                for blob, data in self.answer(request.inblob, privlevel).items():
                    (folder / blob).write_bytes(data)
                request.read_generation = request.generation
            return
        told = {"provider": self.provider, "generation": request.generation, "privlevel_floor": self.floor}
        (folder / attribute).write_text(f"{told[attribute]}\n")

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


# -- devices


@dataclass
class FakeSevGuest:
    """/dev/sev-guest: reads and writes the very memory that the addresses point to."""

    guest: SimulatedGuest
    fails: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Call to errno, fw_error and vmm_error."""
    status: int = 0
    size: int = 1184
    table: bytes | None = None
    calls: list[int] = field(default_factory=list)

    def ioctl(self, request: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        self.calls.append(request)
        version, req, resp, _, _ = (int(value) for value in SNP_GUEST_REQUEST.decode(buffer.raw))
        assert version == 1
        if request in self.fails:
            number, firmware, host = self.fails[request]
            ctypes.memmove(ctypes.byref(buffer, 24), firmware.to_bytes(4, "little") + host.to_bytes(4, "little"), 8)
            raise fail(number)
        layout = {SNP_GET_REPORT: SNP_REPORT_REQ, SNP_GET_EXT_REPORT: SNP_EXT_REPORT_REQ}[request]
        asked = dict(zip(layout.names, layout.decode(ctypes.string_at(req, layout.size)), strict=True))
        user_data, vmpl = asked["user_data"], asked["vmpl"]
        assert isinstance(user_data, bytes)
        assert isinstance(vmpl, int)
        report = replace(self.guest, vmpl=vmpl).report(user_data)
        response = SNP_REPORT_RESP.encode(
            {"status": self.status, "report_size": self.size, "unused": bytes(24), "report": report.ljust(3968, b"\0")}
        )
        ctypes.memmove(resp, response, len(response))
        if request == SNP_GET_EXT_REPORT:
            self._certificates(asked)

    def _certificates(self, asked: dict[str, int | bytes]) -> None:
        address, room = asked["certs_address"], asked["certs_len"]
        assert isinstance(address, int)
        assert isinstance(room, int)
        assert address % 4096 == room % 4096 == 0
        table = self.guest.chip.certificate_table() if self.table is None else self.table
        ctypes.memmove(address, table.ljust(room, b"\0"), room)


@dataclass
class FakeTdxGuest:
    """/dev/tdx_guest."""

    error: int = 0

    def ioctl(self, request: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        assert request == TDX_CMD_GET_REPORT0
        assert len(buffer) == 1088
        if self.error:
            raise fail(self.error)
        report = b"\x81".ljust(128, b"\0") + buffer.raw[:64] + bytes(832)
        ctypes.memmove(ctypes.byref(buffer, 64), report, len(report))


# -- whole machines


@dataclass
class FakeMachine:
    """A root directory, and how it is reached."""

    root: Path
    tsm: FakeTsm | None = None
    device: Device | None = None
    device_error: int = 0
    gpus: tuple[SimulatedGpu, ...] = ()
    cc_mode: bool = True
    dev_tools: bool = False
    waited: list[float] = field(default_factory=list)
    counter: int = 0

    @property
    def access(self) -> MachineAccess:
        return MachineAccess(
            root=self.root,
            reports=lambda root: self.tsm or TsmReports(root),
            open_device=self._open,
            collect_gpus=self._collect_gpus,
            gpu_state=self._gpu_state,
            random=self._random,
            sleep=self.waited.append,
        )

    def has(self, path: str, content: str | bytes = "") -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def _random(self, size: int) -> bytes:
        self.counter += 1
        return self.counter.to_bytes(size, "big")

    @contextmanager
    def _open(self, path: Path) -> Iterator[Device]:
        assert path.is_relative_to(self.root)
        if self.device_error:
            raise fail(self.device_error)
        assert self.device is not None
        yield self.device

    @property
    def _settings(self) -> GpuSettings:
        return GpuSettings(
            environment="production",
            cc_mode=self.cc_mode,
            dev_tools_mode=self.dev_tools,
            multi_gpu_mode="none",
            ready=False,
            driver_version="575.57.08",
        )

    def _collect_gpus(self, nonce: bytes, *, timeout: float) -> tuple[CollectedGpu, ...]:
        assert timeout > 0
        return tuple(
            CollectedGpu(
                index=index,
                uuid=f"GPU-{index}",
                architecture="HOPPER",
                report=gpu.report(nonce),
                chain_pem=gpu.chain_pem,
                settings=self._settings,
                driver_version="575.57.08",
                vbios_version="96.00.5E.00.01",
            )
            for index, gpu in enumerate(self.gpus)
        )

    def _gpu_state(self, *, timeout: float) -> GpuState:
        assert timeout > 0
        gpus = tuple(
            GpuIdentity(index=index, uuid=f"GPU-{index}", architecture="HOPPER", vbios_version="96.00.5E.00.01")
            for index in range(len(self.gpus))
        )
        return GpuState(driver_version="575.57.08", settings=self._settings, gpus=gpus)


def plain_machine(root: Path, *, flags: str = "fpu hypervisor") -> FakeMachine:
    """No confidential guest."""
    machine = FakeMachine(root=root)
    processor = f"processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: {flags}\n"
    machine.has("proc/cpuinfo", f"{processor}\n{processor}")
    machine.has("proc/sys/kernel/osrelease", "6.11.0-test\n")
    machine.has("sys/class/dmi/id/sys_vendor", "QEMU\n")
    machine.has("sys/class/dmi/id/product_name", "Standard PC\n")
    return machine


def snp_guest() -> SimulatedGuest:
    return SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA))


def snp_machine(root: Path, guest: SimulatedGuest | None = None, *, floor: int = 0) -> FakeMachine:
    """A SEV-SNP guest with configfs-tsm and the driver's device."""
    found = guest or snp_guest()
    machine = plain_machine(root, flags="fpu hypervisor sev_snp")
    machine.has("dev/sev-guest")
    (root / "sys/kernel/config/tsm/report").mkdir(parents=True)
    machine.tsm = FakeTsm(root, snp_answer(found), floor=floor)
    machine.device = FakeSevGuest(found)
    return machine


def old_snp_machine(root: Path, guest: SimulatedGuest | None = None) -> tuple[FakeMachine, FakeSevGuest]:
    """A SEV-SNP guest with a kernel from before configfs-tsm."""
    machine = plain_machine(root, flags="fpu hypervisor sev_snp")
    machine.has("dev/sev-guest")
    device = FakeSevGuest(guest or snp_guest())
    machine.device = device
    return machine, device


def simulated_td() -> SimulatedTd:
    return SimulatedTd(platform=SimulatedPlatform.of())


def tdx_machine(root: Path, td: SimulatedTd | None = None) -> FakeMachine:
    """A TDX guest with configfs-tsm and an event log in an area of 64 KiB."""
    found = td or simulated_td()
    machine = plain_machine(root, flags="fpu hypervisor tdx_guest")
    machine.has("dev/tdx_guest")
    machine.has("sys/firmware/acpi/tables/data/CCEL", found.event_log(size=65536))
    (root / "sys/kernel/config/tsm/report").mkdir(parents=True)
    machine.tsm = FakeTsm(root, tdx_answer(found), provider="tdx_guest")
    machine.device = FakeTdxGuest()
    return machine


def with_gpus(machine: FakeMachine, count: int = 2) -> FakeMachine:
    """Give a machine GPUs and their driver."""
    machine.has("proc/driver/nvidia/version", "NVRM version: 575.57.08\n")
    for number in range(count):
        machine.has(f"sys/bus/pci/devices/0000:0{number}:00.0/vendor", "0x10de\n")
        machine.has(f"sys/bus/pci/devices/0000:0{number}:00.0/class", "0x030200\n")
    machine.gpus = tuple(SimulatedGpu.of(f"collected, {number}") for number in range(count))
    return machine
