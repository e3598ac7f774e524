"""Access to this machine: every file, device, clock and source of randomness of a collection, in one place."""

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

_AZURE_HOST = AzureHost()


class CollectGpus(Protocol):
    """Type of ``collect_gpus``."""

    def __call__(self, nonce: bytes, *, timeout: float) -> tuple[CollectedGpu, ...]:
        """Return the evidence of every GPU."""


class AskGpuState(Protocol):
    """Type of ``gpu_state``."""

    def __call__(self, *, timeout: float) -> GpuState:
        """Return the GPUs and their modes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAccess:
    """Access to this machine, by default the real one; tests substitute parts.

    Attributes:
        monotonic: seconds that never run backwards.
        tcti: TPM connection of the user's choice; None is the machine's own if it needs one.
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
        """Connection to the TPM, as a TCTI."""
        return f"{DEVICE_TCTI}{self.root / TPM}" if self.tcti is None else self.tcti

    @property
    def patience(self) -> HostPatience:
        """Retries and time limits for an Azure host."""
        return HostPatience(random=self.random, sleep=self.sleep)

    def tpm(self) -> Tpm:
        """Return the TPM.

        Raises:
            CollectionError: ``tpm-binding-missing``.
        """
        return self.open_tpm(self.tpm_path)

    def detect(self) -> Detected:
        """Return the TEE of this machine and the interface for its evidence."""
        return detect(self.read(), tcti=self.tcti)

    def read(self) -> Machine:
        """Return the relevant contents of the machine's files."""
        return read_machine(self.root)


THIS_MACHINE = MachineAccess()
