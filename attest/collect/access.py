"""How this machine is reached: every file, device, clock and source of randomness of a collection, in one place."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from attest.collect.azure_additions import AzureServices
from attest.collect.azure_host import AzureHost, HostPatience
from attest.collect.detect import TPM, Detected, Machine, detect, read_machine
from attest.collect.ioctl import OpenDevice, open_device
from attest.collect.nvml import CollectedGpu, GpuState, collect_gpus, gpu_state
from attest.collect.tpm import DEVICE_TCTI, OpenTpm, Tpm, open_tpm
from attest.collect.tsm import TsmReports

__all__ = ["THIS_MACHINE", "MachineAccess"]


_AZURE_HOST = AzureHost()


class CollectGpus(Protocol):
    """``collect_gpus``, or what stands in for it."""

    def __call__(self, nonce: bytes, *, timeout: float) -> tuple[CollectedGpu, ...]:
        """Take the evidence of every GPU."""
        ...


class AskGpuState(Protocol):
    """``gpu_state``, or what stands in for it."""

    def __call__(self, *, timeout: float) -> GpuState:
        """Ask for the GPUs and their modes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAccess:
    """How this machine is reached. The defaults are the real one; tests give another.

    Attributes:
        root: the root directory.
        reports: the requests of configfs-tsm below a root directory.
        open_device: opens a character device.
        collect_gpus: takes evidence of all GPUs.
        gpu_state: asks for their modes.
        random: returns so many random bytes.
        sleep: waits so many seconds.
        monotonic: seconds that never run backwards.
        tcti: the way to a TPM, named by a person; None is the machine's own where it needs one.
        open_tpm: opens it.
        azure: what an Azure host offers its guests.
    """

    root: Path = Path("/")
    reports: Callable[[Path], TsmReports] = TsmReports
    open_device: OpenDevice = open_device
    collect_gpus: CollectGpus = collect_gpus
    gpu_state: AskGpuState = gpu_state
    random: Callable[[int], bytes] = secrets.token_bytes
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    tcti: str | None = None
    open_tpm: OpenTpm = open_tpm
    azure: AzureServices = _AZURE_HOST

    @property
    def tpm_path(self) -> str:
        """The way to the TPM, as a TCTI."""
        return f"{DEVICE_TCTI}{self.root / TPM}" if self.tcti is None else self.tcti

    @property
    def patience(self) -> HostPatience:
        """How long an Azure host is waited for."""
        return HostPatience(random=self.random, sleep=self.sleep)

    def tpm(self) -> Tpm:
        """Return the TPM.

        Raises:
            CollectionError: ``tpm-binding-missing``.
        """
        return self.open_tpm(self.tpm_path)

    def detect(self) -> Detected:
        """Say what this machine is, and how it gives evidence."""
        return detect(self.read(), tcti=self.tcti)

    def read(self) -> Machine:
        """Read what the files of the machine say."""
        return read_machine(self.root)


THIS_MACHINE = MachineAccess()
