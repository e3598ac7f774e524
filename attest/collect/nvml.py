"""NVIDIA GPUs of this machine, through the driver's management library (NVML).

The GPU signs its report; the chain identifies the signer. Driver version, modes and so on come from this machine's
driver and are unsigned: a remote verifier may rely on them only if the CPU's evidence covers the driver.

Spec: specs/nvidia-gpu.md, section 15.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from attest.collect.child import ChildAnswer, ask_child, library_environment
from attest.collect.nvml_errors import nvml_refused, nvml_unusable
from attest.encoding import JsonValue, json_value
from attest.errors import CollectionError, EvidenceError
from attest.evidence.gpu.evidence import (
    ENVIRONMENTS,
    MAX_DEVICES,
    MULTI_GPU_MODES,
    NONCE_BYTES,
    GpuSettings,
    device_json,
)

NVML_SECONDS = 60.0
"""Time limit of one child process. Without NVIDIA's persistence daemon, each GPU takes seconds to restart."""
_WORKER = Path(__file__).with_name("nvml_worker.py")
MAX_TEXT = 64
"""Characters of a version or UUID; NVML's buffers for them have 80 and 96."""
_NONCE_AT = 4
"""Offset of the nonce in the SPDM request at the start of a report (section 2)."""

_ARCHITECTURES = {9: "HOPPER", 10: "BLACKWELL"}
"""NVML's numbers of architectures, as names in evidence files."""

_one_at_a_time = Lock()
"""A GPU has one mailbox for SPDM; concurrent sessions disturb each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """One GPU, as the driver identifies it.

    Attributes:
        index: number of the GPU in NVML, from 0; a restart may change it.
        uuid: NVML's ``GPU-…``; from the driver, not from the certificate.
        architecture: ``HOPPER``, ``BLACKWELL``, or ``NVML architecture N`` for one without support here.
        vbios_version: the driver's text.
    """

    index: int
    uuid: str
    architecture: str
    vbios_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """The GPUs of this machine and the modes of the system, as the driver states them.

    Attributes:
        settings: CC mode, developer tools, multi-GPU mode, ready state.
        gpus: in NVML's order.
    """

    driver_version: str
    settings: GpuSettings
    gpus: tuple[GpuIdentity, ...]

    @property
    def attests(self) -> bool:
        """True if the modes let a GPU attest: confidential computing, or protected PCIe."""
        return self.settings.cc_mode or self.settings.multi_gpu_mode != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedGpu:
    """One GPU's answer to a nonce, not verified.

    Attributes:
        architecture: ``HOPPER`` or ``BLACKWELL``, as in evidence files.
        report: SPDM request and response.
        chain_pem: the attestation certificate chain, PEM, leaf first.
    """

    index: int
    uuid: str
    architecture: str
    report: bytes
    chain_pem: bytes
    settings: GpuSettings
    driver_version: str
    vbios_version: str

    def item(self) -> bytes:
        """Return the item of an envelope: NVIDIA's JSON object, with UUID and modes from the driver."""
        return device_json(self.report, self.chain_pem, self.architecture, self.settings, self.uuid)


def gpu_state(*, timeout: float = NVML_SECONDS) -> GpuState:
    """Return the GPUs and their modes from the driver.

    Raises:
        CollectionError: see ``docs/errors.md``, "Collection".
    """
    with _one_at_a_time:
        reply = _ask({"call": "state"}, seconds=timeout)
    gpus = reply.get("gpus")
    if not isinstance(gpus, list) or len(gpus) > MAX_DEVICES:
        raise _strange("gpus", f"a list of at most {MAX_DEVICES}", type(gpus).__name__)
    driver = _text(reply, "driver_version")
    return GpuState(
        driver_version=driver,
        settings=_settings(reply.get("settings"), driver),
        gpus=tuple(_identity(index, one) for index, one in enumerate(gpus)),
    )


def collect_gpus(nonce: bytes, *, timeout: float = NVML_SECONDS) -> tuple[CollectedGpu, ...]:
    """Collect the report and the certificate chain of every GPU of this machine in turn.

    Args:
        nonce: 32 bytes, the verifier's challenge.
        timeout: seconds for each child process: one for the state, then one per GPU.

    Raises:
        ValueError: the nonce has another length.
        CollectionError: for the first GPU that cannot attest: an incomplete set must not look complete.
    """
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a GPU's nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    state = gpu_state(timeout=timeout)
    _require_attesting(state)
    return tuple(_collect(one, state, nonce, timeout) for one in state.gpus)


def set_gpus_ready(*, timeout: float = NVML_SECONDS) -> bool | None:
    """Set the GPUs' ready state. Only after verification and appraisal of their evidence.

    Returns:
        the driver's ready state afterwards.

    Raises:
        CollectionError: the driver refused, or still reports not ready (``gpu-not-ready``).
    """
    with _one_at_a_time:
        ready = _ask({"call": "set-ready"}, seconds=timeout).get("ready")
    if ready is False:
        raise CollectionError(
            "the driver accepted the ready state and reports that the GPUs are not ready",
            code="gpu-not-ready",
            hint="'attest collect gpu-state' shows the state; look at the kernel log",
        )
    return True if ready is True else None


def _require_attesting(state: GpuState) -> None:
    """Refuse states without evidence, with an error for each cause."""
    if not state.gpus:
        raise CollectionError(
            "the driver sees no GPU",
            code="gpu-missing",
            hint="in a container, pass the GPUs through; in a guest, look for them with lspci",
        )
    if state.settings.environment == "simulation":
        raise CollectionError(
            "confidential computing is in its simulation environment, whose reports no NVIDIA key signs",
            code="gpu-cc-simulated",
            field="environment",
            expected="production",
            got="simulation",
            hint="start the machine in its production environment",
        )
    if not state.attests:
        raise CollectionError(
            "confidential computing is off, so the GPUs make no attestation reports",
            code="gpu-cc-off",
            field="ccFeature",
            expected="confidential computing, or protected PCIe",
            got="neither",
            hint="the host turns CC mode on, and the GPU is reset; 'attest collect gpu-state' shows the mode",
        )
    for one in state.gpus:
        if one.architecture not in _ARCHITECTURES.values():
            raise CollectionError(
                f"GPU {one.index} cannot attest",
                code="gpu-unsupported",
                field=f"gpu[{one.index}]",
                expected=" or ".join(_ARCHITECTURES.values()),
                got=one.architecture,
                hint="attestation begins with Hopper; take this GPU out of the machine or the container",
            )


def _collect(one: GpuIdentity, state: GpuState, nonce: bytes, seconds: float) -> CollectedGpu:
    where = f"gpu[{one.index}]"
    request: dict[str, JsonValue] = {"call": "device", "index": one.index, "nonce": nonce.hex()}
    with _one_at_a_time:
        reply = _ask(request, seconds=seconds, where=where)
    report = _bytes(reply, "report", where)
    _require_same_gpu(reply, one, where)
    got = report[_NONCE_AT : _NONCE_AT + NONCE_BYTES]
    if got != nonce:  # no secret: both values are public
        raise CollectionError(
            f"GPU {one.index} answered under another nonce",
            code="gpu-nonce-ignored",
            field=where,
            expected=nonce.hex(),
            got=got.hex(),
            hint="ask again; if it stays, another program may be attesting at the same time",
        )
    return CollectedGpu(
        index=one.index,
        uuid=one.uuid,
        architecture=one.architecture,
        report=report,
        chain_pem=_bytes(reply, "chain", where).rstrip(b"\0"),  # C text: some drivers include the terminator
        settings=state.settings,
        driver_version=state.driver_version,
        vbios_version=one.vbios_version,
    )


def _require_same_gpu(reply: dict[str, JsonValue], one: GpuIdentity, where: str) -> None:
    """Refuse another GPU under the same number, after a change between two child processes."""
    uuid = _text(reply, "uuid", where)
    if uuid != one.uuid:
        raise CollectionError(
            f"GPU {one.index} is another one than a moment ago",
            code="gpu-changed",
            field=where,
            expected=one.uuid,
            got=uuid,
            hint="ask again when the machine's GPUs no longer change",
        )


# -- the child process


def _ask(request: dict[str, JsonValue], *, seconds: float, where: str | None = None) -> dict[str, JsonValue]:
    path: list[JsonValue] = [*sys.path]  # the child finds pynvml on the given path, not by its environment
    try:
        answer = ask_child(
            [sys.executable, "-I", str(_WORKER)],
            request=json.dumps({"path": path, **request}).encode(),
            seconds=seconds,
            environment=library_environment(),
        )
    except TimeoutError as exc:
        raise nvml_unusable("nvml-timeout", str(exc), where) from exc
    except OSError as exc:
        raise nvml_unusable("nvml-failed", f"no child process: {exc.strerror}", where) from exc
    return _found(answer, where)


def _found(answer: ChildAnswer, where: str | None) -> dict[str, JsonValue]:
    if answer.code < 0:
        raise nvml_unusable("nvml-crashed", f"signal {-answer.code}", where, answer.last_words)
    try:
        reply = json_value(answer.out, what="answer of the NVML worker")
    except EvidenceError as exc:
        raise nvml_unusable("nvml-answer-invalid", f"exit {answer.code}", where, answer.last_words) from exc
    found, error = (reply.get("ok"), reply.get("error")) if isinstance(reply, dict) else (None, None)
    if isinstance(error, dict):
        raise nvml_refused(error, where)
    if not isinstance(found, dict):
        raise nvml_unusable("nvml-answer-invalid", "neither result nor error", where)
    return found


# -- its answer, read strictly: a library that does not fit pynvml writes anything


def _settings(reply: JsonValue, driver: str) -> GpuSettings:
    members = reply if isinstance(reply, dict) else {}
    ready = members.get("ready")
    return GpuSettings(
        environment=_name(members, "environment", ENVIRONMENTS),
        cc_mode=_flag(members, "cc_feature"),
        dev_tools_mode=_flag(members, "dev_tools_mode"),
        multi_gpu_mode=_name(members, "multi_gpu_mode", MULTI_GPU_MODES),
        ready=ready if isinstance(ready, bool) else None,
        driver_version=driver,
    )


def _identity(index: int, reply: JsonValue) -> GpuIdentity:
    where = f"gpu[{index}]"
    members = reply if isinstance(reply, dict) else {}
    number = members.get("architecture")
    name = _ARCHITECTURES.get(number) if isinstance(number, int) else None
    return GpuIdentity(
        index=index,
        uuid=_text(members, "uuid", where),
        architecture=name or f"NVML architecture {number}",
        vbios_version=_text(members, "vbios_version", where),
    )


def _name(members: dict[str, JsonValue], key: str, names: tuple[str, ...]) -> str:
    """Return the name of a mode, which NVML numbers from 0."""
    number = members.get(key)
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise _strange(key, f"0 to {len(names) - 1}", str(number))
    return names[number]


def _flag(members: dict[str, JsonValue], key: str) -> bool:
    number = members.get(key)
    if number not in (0, 1):
        raise _strange(key, "0 or 1", str(number))
    return number == 1


def _text(members: dict[str, JsonValue], key: str, where: str | None = None) -> str:
    text = members.get(key)
    if not isinstance(text, str) or not text or len(text) > MAX_TEXT or not (text.isascii() and text.isprintable()):
        raise _strange(key, f"1 to {MAX_TEXT} printable ASCII characters", repr(text)[:80], where)
    return text


def _bytes(members: dict[str, JsonValue], key: str, where: str) -> bytes:
    text = members.get(key)
    if not isinstance(text, str):
        raise _strange(key, "hex", repr(text)[:80], where)
    return bytes.fromhex(text)  # written by our own worker


def _strange(key: str, expected: str, got: str, where: str | None = None) -> CollectionError:
    field = key if where is None else f"{where}.{key}"
    return CollectionError(
        f"NVML's {field} is {got}, expected {expected}",
        code="nvml-answer-invalid",
        field=field,
        expected=expected,
        got=got,
        hint="install the nvidia-ml-py that fits the driver, and report this to us",
    )
