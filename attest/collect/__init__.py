"""Evidence of this machine and its devices, taken at the edge. Nothing here judges what it takes.

``collect_machine`` takes all of it in one call. The kernel hands out what the CPU says (``tsm.py``, ``ioctl.py``).
Driver libraries are native code that may crash or never return, so each is called in a child process with a time
limit (``child.py``). What they say beside the signed evidence (versions, modes) is this machine's own word.
"""

from __future__ import annotations

from attest.collect.access import THIS_MACHINE, MachineAccess
from attest.collect.detect import Detected, Machine, detect, read_machine
from attest.collect.machine import Collected, collect_all, collect_machine, unasked_binding
from attest.collect.nvml import (
    NONCE_BYTES,
    CollectedGpu,
    GpuIdentity,
    GpuState,
    collect_gpus,
    gpu_state,
    set_gpus_ready,
)

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
    "collect_all",
    "collect_gpus",
    "collect_machine",
    "detect",
    "gpu_state",
    "read_machine",
    "set_gpus_ready",
    "unasked_binding",
]
