"""Questions to NVIDIA's Python SDK: one process for each, JSON in and out, with a time limit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from attest.collect.child import ask_child
from attest.encoding import JsonValue, json_value, rfc3339_text
from attest.errors import CollectionError, ConfigurationError, EvidenceError
from attest.nvsdk.environment import NvsdkEnvironment

__all__ = [
    "SDK_SECONDS",
    "Architecture",
    "DeviceKind",
    "RimRole",
    "SdkAnswer",
    "SdkDevice",
    "collect_with_sdk",
    "examine",
    "sdk_versions",
    "time_sdk",
]

SDK_SECONDS = 60.0
"""For one process: importing NVIDIA's packages takes about a second, verifying one device a twentieth of that."""
COLLECT_SECONDS = 180.0
"""Their own limit for each NVML call is 30 s."""
_WORKER = Path(__file__).with_name("worker.py")

DeviceKind: TypeAlias = Literal["nvidia-gpu", "nvidia-switch"]
Architecture: TypeAlias = Literal["hopper", "blackwell", "ls10"]
RimRole: TypeAlias = Literal["driver", "vbios"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkDevice:
    """What NVIDIA's functions are given about one device.

    Attributes:
        kind: decides which of their two verifiers is asked.
        architecture: decides their settings.
        report: SPDM request and response.
        chain_pem: certificates in PEM, leaf first; their functions drop the last one, whatever it is.
        rims: role to XML. They have a slot for each and take what lies in it; a switch has ``vbios`` only.
    """

    kind: DeviceKind
    architecture: Architecture
    report: bytes
    chain_pem: str
    rims: Mapping[RimRole, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkAnswer:
    """What came back.

    Attributes:
        versions: of Python and of NVIDIA's packages.
        found: the answer of the mode that was asked for.
    """

    versions: Mapping[str, str]
    found: Mapping[str, JsonValue]


def examine(
    device: SdkDevice,
    *,
    at: datetime,
    nonce: bytes | None,
    environment: NvsdkEnvironment,
    seconds: float = SDK_SECONDS,
) -> SdkAnswer:
    """Have NVIDIA's functions look at one device, each step for itself.

    Args:
        device: evidence and RIMs.
        at: moment to judge certificates by.
        nonce: 32 bytes that the report must carry; None leaves that step out.
        environment: where their packages are.
        seconds: limit for the process.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    request = {**_device(device), "mode": "verify", "at": rfc3339_text(at), "nonce": nonce.hex() if nonce else None}
    return _ask(request, environment=environment, seconds=seconds)


def time_sdk(device: SdkDevice, *, at: datetime, nonce: bytes, rounds: int, environment: NvsdkEnvironment) -> SdkAnswer:
    """Time their verification of one good device inside their interpreter: no start, no input, no logs, no network.

    Returns:
        ``median_seconds``, ``rounds``, and ``parts`` with the median of each.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` (also when a step says no) or ``nvsdk-timeout``.
    """
    request = {**_device(device), "mode": "bench", "at": rfc3339_text(at), "nonce": nonce.hex(), "rounds": rounds}
    return _ask(request, environment=environment, seconds=SDK_SECONDS + rounds)


def sdk_versions(environment: NvsdkEnvironment) -> Mapping[str, str]:
    """Return the versions of Python and of NVIDIA's packages, after importing what is used of them.

    Raises:
        ConfigurationError: ``nvsdk-unusable`` or ``nvsdk-timeout``.
    """
    return _ask({"mode": "status"}, environment=environment, seconds=SDK_SECONDS).versions


def collect_with_sdk(
    nonce: bytes, *, environment: NvsdkEnvironment, seconds: float = COLLECT_SECONDS
) -> tuple[dict[str, JsonValue], ...]:
    """Have NVIDIA's collector take the evidence of the GPUs of this machine.

    Returns:
        one object per GPU as NVIDIA's evidence files have them, the nonce added.

    Raises:
        CollectionError: ``nvsdk-collection-failed``.
        ConfigurationError: ``nvsdk-missing``.
    """
    try:
        answer = _ask({"mode": "collect", "nonce": nonce.hex()}, environment=environment, seconds=seconds)
        devices = answer.found.get("devices")
        if not isinstance(devices, list) or not devices:
            raise _unusable("no device in the answer of the collector")
    except ConfigurationError as exc:
        raise CollectionError(
            f"NVIDIA's collector gave no evidence: {exc.message}",
            code="nvsdk-collection-failed",
            got=exc.got,
            hint="'attest collect gpu' says more about what is wrong with the driver",
        ) from exc
    return tuple({**one, "nonce": nonce.hex()} for one in devices if isinstance(one, dict))


def _device(device: SdkDevice) -> dict[str, JsonValue]:
    return {
        "kind": device.kind,
        "architecture": device.architecture,
        "report": device.report.hex(),
        "chain": device.chain_pem,
        "rims": {role: xml.hex() for role, xml in device.rims.items()},
    }


def _ask(request: Mapping[str, JsonValue], *, environment: NvsdkEnvironment, seconds: float) -> SdkAnswer:
    """Start the worker in a temporary folder, which takes the log files that their packages write on import."""
    where = os.environ.get("LD_LIBRARY_PATH")
    try:
        with TemporaryDirectory(prefix="attest-nvsdk-") as folder:
            answer = ask_child(
                [str(environment.python), "-I", str(_WORKER)],
                request=json.dumps(request).encode(),
                seconds=seconds,
                environment={
                    "LC_ALL": "C.UTF-8",
                    "HOME": folder,
                    **({"LD_LIBRARY_PATH": where} if where else {}),
                },
                folder=Path(folder),
            )
    except TimeoutError as exc:
        raise ConfigurationError(
            f"NVIDIA's Python SDK did not answer: {exc}", code="nvsdk-timeout", got=str(exc), hint="ask again"
        ) from exc
    except OSError as exc:
        raise _unusable(f"its interpreter cannot be started: {exc.strerror}") from exc
    try:
        return _read(json_value(answer.out, what="answer of NVIDIA's Python SDK"))
    except EvidenceError as exc:
        raise _unusable(f"exit {answer.code}: {answer.last_words or 'no answer'}") from exc


def _read(told: JsonValue) -> SdkAnswer:
    members = told if isinstance(told, dict) else {}
    versions, found, error = members.get("versions"), members.get("ok"), members.get("error")
    if isinstance(error, dict):
        raise _unusable(f"{error.get('raised')}: {error.get('detail')}")
    if not isinstance(versions, dict) or not isinstance(found, dict):
        raise _unusable("an answer without versions and findings")
    return SdkAnswer(versions={name: str(version) for name, version in versions.items()}, found=found)


def _unusable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"NVIDIA's Python SDK cannot be used: {problem}",
        code="nvsdk-unusable",
        got=problem,
        hint="'attest nvsdk status' shows what is installed; 'attest nvsdk install --yes' installs it anew",
    )
