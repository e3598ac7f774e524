"""Collection of evidence from this machine and its devices, without judgement.

``collect_machine`` collects all of it in one call. The kernel provides the CPU's evidence (``tsm.py``, ``ioctl.py``).
Driver libraries are native code that may crash or hang, so each runs in a child process with a time limit
(``child.py``). Their data beside the signed evidence (versions, modes) is unsigned.
"""

from __future__ import annotations

from attest.collect.access import THIS_MACHINE, MachineAccess
from attest.collect.detect import Detected, Machine, detect, read_machine
from attest.collect.machine import Collected, collect_all, collect_machine, unasked_binding
from attest.collect.nvml import (
    CollectedGpu,
    GpuIdentity,
    GpuState,
    collect_gpus,
    gpu_state,
    set_gpus_ready,
)
from attest.collect.tpm import OpenTpm, Tpm, open_tpm
from attest.evidence.gpu.evidence import NONCE_BYTES

__all__ = [
    "NONCE_BYTES",
    "THIS_MACHINE",
    "Collected",
    "CollectedGpu",
    "Detected",
    "GpuIdentity",
    "GpuState",
    "Machine",
    "MachineAccess",
    "OpenTpm",
    "Tpm",
    "collect_all",
    "collect_gpus",
    "collect_machine",
    "detect",
    "gpu_state",
    "open_tpm",
    "read_machine",
    "set_gpus_ready",
    "unasked_binding",
]
