"""Errors of NVML with remedies, in one table."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import CollectionError

IMPORT_STEP = "import pynvml"
_UNKNOWN = (
    "nvml-failed",
    "NVIDIA's driver library refused",
    "look at the kernel log for NVRM messages, and at what nvidia-smi says",
)
_BY_VALUE = {
    3: (
        "gpu-unsupported",
        "this GPU or driver does not support it",
        "attestation needs Hopper or later with confidential computing on; 'attest collect gpu-state' shows the mode",
    ),
    4: (
        "nvml-permission-denied",
        "the driver does not permit it",
        "run as root, or give this user access to /dev/nvidia*",
    ),
    9: (
        "nvml-driver-missing",
        "NVIDIA's kernel driver is not loaded",
        "load it (modprobe nvidia); in a container, pass the GPU devices through",
    ),
    10: ("nvml-timeout", "the driver gave up waiting for the GPU", "ask again; if it stays, reset the GPU"),
    12: (
        "nvml-library-missing",
        "NVIDIA's driver library libnvidia-ml.so.1 is not there",
        "install NVIDIA's driver; in a container, use NVIDIA's container runtime, or set LD_LIBRARY_PATH",
    ),
    13: (
        "nvml-function-missing",
        "the driver, or nvidia-ml-py, is too old for attestation",
        "a driver of branch 550 or later; pip install --upgrade nvidia-ml-py",
    ),
    15: ("gpu-lost", "the GPU fell off the bus", "restart the machine"),
    16: ("gpu-lost", "the GPU needs a reset", "reset the GPU, or restart the machine"),
    18: (
        "nvml-library-mismatch",
        "driver library and kernel driver are of different versions",
        "restart after the driver's update; in a container, mount the library of the host's driver",
    ),
    27: ("gpu-not-ready", "the GPU is not ready yet", "ask again in a moment"),
}
"""NVML's return code to code, text and hint."""
_RETRYABLE = frozenset({10, 27})
_UNUSABLE = {
    "nvml-timeout": (
        "NVIDIA's driver library did not answer",
        "ask again with a longer --timeout; if it stays, look at the kernel log and restart the machine",
    ),
    "nvml-crashed": ("NVIDIA's driver library crashed", "check the kernel log; reinstall library and driver"),
    "nvml-answer-invalid": (
        "NVIDIA's driver library gave no answer that can be read",
        "install the nvidia-ml-py that fits the driver, and report this to us",
    ),
    "nvml-failed": ("NVIDIA's driver library cannot be called", "look at the limits of this user's processes"),
}


def nvml_refused(error: dict[str, JsonValue], where: str | None) -> CollectionError:
    """Return the error for a failed step of the worker; ``value`` is NVML's return code, or null."""
    step, value, text = (error.get(name) for name in ("step", "value", "text"))
    if step == IMPORT_STEP:
        return CollectionError(
            "the Python package nvidia-ml-py is not installed",
            code="nvml-binding-missing",
            got=str(text),
            hint="pip install 'attest-kms[gpu]'",
        )
    if not isinstance(value, int):
        return nvml_unusable("nvml-answer-invalid", f"{step}: {text}", where)
    code, meaning, hint = _BY_VALUE.get(value, _UNKNOWN)
    return CollectionError(
        f"{meaning} ({step}: {text})" if where is None else f"{where}: {meaning} ({step}: {text})",
        code=code,
        field=where,
        expected="NVML_SUCCESS",
        got=f"{text} ({value})",
        hint=hint,
        retryable=value in _RETRYABLE,
    )


def nvml_unusable(code: str, got: str, where: str | None, last_words: str = "") -> CollectionError:
    """Return the error for a library without an answer."""
    meaning, hint = _UNUSABLE[code]
    return CollectionError(
        ": ".join(part for part in (where, f"{meaning} ({got})", last_words) if part),
        code=code,
        field=where,
        got=got,
        hint=hint,
        retryable=code == "nvml-timeout",
    )
