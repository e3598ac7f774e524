"""Child process for NVIDIA's driver library: one request on standard input, one answer on standard output.

A separate program, started by its path with ``python -I``. It imports the standard library and pynvml only, so that
damage by a faulty library ends with this process. Request and answer are JSON objects::

    {"path": [...], "call": "state" | "device" | "set-ready", "index": 0, "nonce": "hex"}
    {"ok": {...}}  or  {"error": {"step": "nvmlInit", "value": 9, "text": "Driver Not Loaded"}}

``value`` is NVML's return code; null for an impossible answer of the library.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from types import ModuleType
from typing import Any

FUNCTION_NOT_FOUND = 13
NOT_SUPPORTED = 3
ARGUMENT_VERSION_MISMATCH = 25
_UNKNOWN_HERE = frozenset({FUNCTION_NOT_FOUND, NOT_SUPPORTED, ARGUMENT_VERSION_MISMATCH})
NO_MULTI_GPU = 0
READY = 1


class NativeError(Exception):
    """A failed call of NVML, or an impossible answer."""

    def __init__(self, step: str, value: int | None, text: str) -> None:
        super().__init__(text)
        self.step = step
        self.value = value


class Library:
    """pynvml, with the name of each call for errors."""

    def __init__(self, pynvml: ModuleType) -> None:
        self._pynvml = pynvml

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  pynvml is untyped
        """Call a function of pynvml by name.

        Raises:
            NativeError: it failed, or this pynvml lacks the function.
        """
        function = getattr(self._pynvml, name, None)
        if function is None:
            raise NativeError(name, FUNCTION_NOT_FOUND, "this nvidia-ml-py is too old for it")
        try:
            return function(*arguments)
        except self._pynvml.NVMLError as exc:
            raise NativeError(name, int(exc.value), str(exc)) from exc
        except (UnicodeDecodeError, ValueError, OverflowError) as exc:
            raise NativeError(name, None, f"text that cannot be read: {exc}") from exc

    def settings(self) -> dict[str, int]:
        """Return the modes of the system; older drivers have an older call without the multi-GPU mode."""
        structure = getattr(self._pynvml, "c_nvmlSystemConfComputeSettings_v1_t", None)
        if structure is not None:
            filled = structure()
            try:
                self._checked("nvmlSystemGetConfComputeSettings", ctypes.byref(filled))
            except NativeError as exc:
                if exc.value not in _UNKNOWN_HERE:
                    raise
            else:
                return {**_modes(filled), "multi_gpu_mode": int(filled.multiGpuMode)}
        return {**_modes(self.call("nvmlSystemGetConfComputeState")), "multi_gpu_mode": NO_MULTI_GPU}

    def _checked(self, name: str, *arguments: object) -> None:
        """Call a function whose return code pynvml returns instead of raising."""
        value = self.call(name, *arguments)
        if value:
            raise NativeError(name, int(value), str(self._pynvml.NVMLError(value)))

    def ready(self) -> bool | None:
        """Return whether the GPUs accept work; None if the driver has no such state."""
        try:
            return bool(self.call("nvmlSystemGetConfComputeGpusReadyState"))
        except NativeError as exc:
            if exc.value not in _UNKNOWN_HERE:
                raise
            return None


def _modes(given: Any) -> dict[str, int]:  # noqa: ANN401  a ctypes structure of pynvml
    return {
        "environment": int(given.environment),
        "cc_feature": int(given.ccFeature),
        "dev_tools_mode": int(given.devToolsMode),
    }


def _taken(step: str, what: str, buffer: ctypes.Array[ctypes.c_uint8], size: int) -> bytes:
    """Return the filled part of a buffer, and refuse a size beyond it, which a slice would hide."""
    if not 0 < size <= len(buffer):
        raise NativeError(step, None, f"{what} is {size}, expected 1 to {len(buffer)}")
    return bytes(buffer[:size])


def _identity(library: Library, handle: object) -> dict[str, str | int]:
    return {
        "uuid": library.call("nvmlDeviceGetUUID", handle),
        "architecture": int(library.call("nvmlDeviceGetArchitecture", handle)),
        "vbios_version": library.call("nvmlDeviceGetVbiosVersion", handle),
    }


def state(library: Library) -> dict[str, Any]:
    """Answer ``state``: driver, modes, and GPUs."""
    driver = library.call("nvmlSystemGetDriverVersion")
    count = int(library.call("nvmlDeviceGetCount"))
    settings: dict[str, Any] = {**library.settings(), "ready": library.ready()}
    handles = [library.call("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    return {"driver_version": driver, "settings": settings, "gpus": [_identity(library, one) for one in handles]}


def device(library: Library, index: int, nonce: bytes) -> dict[str, Any]:
    """Answer ``device``: chain and report of one GPU."""
    handle = library.call("nvmlDeviceGetHandleByIndex", index)
    step = "nvmlDeviceGetConfComputeGpuCertificate"
    given = library.call(step, handle)
    size = int(given.attestationCertChainSize)
    chain = _taken(step, "attestationCertChainSize", given.attestationCertChain, size)
    step = "nvmlDeviceGetConfComputeGpuAttestationReport"
    given = library.call(step, handle, nonce)
    size = int(given.attestationReportSize)
    report = _taken(step, "attestationReportSize", given.attestationReport, size)
    return {**_identity(library, handle), "chain": chain.hex(), "report": report.hex()}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request between initialisation and shutdown of the library."""
    sys.path[:] = request["path"]
    try:
        import pynvml  # noqa: PLC0415  on the path that the parent gives
    except ImportError as exc:
        return {"error": {"step": "import pynvml", "value": None, "text": str(exc)}}
    library = Library(pynvml)
    try:
        library.call("nvmlInit")
        if request["call"] == "state":
            found = state(library)
        elif request["call"] == "set-ready":
            library.call("nvmlSystemSetConfComputeGpusReadyState", READY)
            found = {"ready": library.ready()}
        else:
            found = device(library, int(request["index"]), bytes.fromhex(request["nonce"]))
        library.call("nvmlShutdown")
    except NativeError as exc:
        return {"error": {"step": exc.step, "value": exc.value, "text": str(exc)}}
    return {"ok": found}


def main() -> int:
    """Answer the request on standard input."""
    own = os.dup(1)
    os.dup2(2, 1)  # output of native code must not mix with the answer
    reply = json.dumps(answer(json.load(sys.stdin)))
    with os.fdopen(own, "w") as out:
        out.write(reply)
    return 0


if __name__ == "__main__":
    sys.exit(main())
