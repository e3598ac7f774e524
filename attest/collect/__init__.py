"""Evidence of the devices of this machine, taken at the edge. Nothing here judges what it takes.

Driver libraries are native code that may crash or never return, so each is called in a child process with a time
limit (``child.py``). What they say beside the signed evidence (versions, modes) is this machine's own word.
"""

from __future__ import annotations

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
    "CollectedGpu",
    "GpuIdentity",
    "GpuState",
    "collect_gpus",
    "gpu_state",
    "set_gpus_ready",
]
