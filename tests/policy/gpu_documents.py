"""Policy documents about NVIDIA devices that tests start from, and simulated devices to judge by them."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.evidence.gpu.device_set import DeviceSet
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.evidence.tolerances import NO_TOLERANCES, DeviceTolerances, GpuTolerances
from attest.policy import Policy
from attest_simulator.nvidia import SimulatedDevice, SimulatedGpu, SimulatedNvSwitch

AT = datetime(2026, 6, 1, tzinfo=UTC)
NONCE = bytes(range(32))
HOPPER = SimulatedGpu.of("gpu 0")
BLACKWELL = SimulatedGpu.of("gpu 0", architecture="blackwell")
SWITCH = SimulatedNvSwitch.of("switch 0")

STRICT_GPU: dict[str, Any] = {
    "schema": "attest.policy/1",
    "name": "test",
    "version": 1,
    "simulated": {"unchecked": "the tests have no hardware"},
    "gpu": {
        "architectures": ["hopper"],
        "driver_versions": {"at_least": "570.86"},
        "vbios_versions": {"at_least": "96.00.5E.00.01"},
    },
    "nvswitch": {"vbios_versions": {"at_least": "96.10.55.00.01"}},
}


def gpu_document(**gpu: object) -> dict[str, Any]:
    """The strict document with some keys of ``gpu`` changed."""
    changed = copy.deepcopy(STRICT_GPU)
    changed["gpu"] |= gpu
    return changed


def switch_document(**nvswitch: object) -> dict[str, Any]:
    """The strict document with some keys of ``nvswitch`` changed."""
    changed = copy.deepcopy(STRICT_GPU)
    changed["nvswitch"] |= nvswitch
    return changed


def devices_document(**devices: object) -> dict[str, Any]:
    """The strict document with a key ``devices``."""
    return {**copy.deepcopy(STRICT_GPU), "devices": devices}


_HONEST: dict[str, VerifiedGpu] = {}
"""Devices by what they are: verifying one takes some ten signatures."""


def verified(
    device: SimulatedDevice = HOPPER,
    *,
    endorsements: Endorsements | None = None,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: GpuTolerances = NO_TOLERANCES,
) -> VerifiedGpu:
    """Verify a fresh report of a device."""
    ordinary = endorsements is None and not unchecked and tolerances == NO_TOLERANCES
    if ordinary and repr(device) in _HONEST:
        return _HONEST[repr(device)]
    found = verify_gpu_evidence(
        parse_nvidia_device(device.device_item(NONCE)),
        endorsements=endorsements or device.endorsements(at=AT),
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=unchecked,
        tolerances=DeviceTolerances(gpus=tolerances, switches=tolerances),
    )
    return _HONEST.setdefault(repr(device), found) if ordinary else found


def without_rims(device: SimulatedDevice = HOPPER) -> VerifiedGpu:
    """Verify a device with no RIM at hand, which was left unchecked."""
    return verified(
        device,
        endorsements=replace(device.endorsements(at=AT), rims=()),
        unchecked=(Unchecked(check="rim", reason="none available"),),
    )


def without_settings(device: VerifiedGpu) -> VerifiedGpu:
    """The same device with nothing said by NVML."""
    return replace(device, evidence=replace(device.evidence, settings=None))


def failed(policy: Policy, device: VerifiedGpu, *, at: datetime = AT) -> set[str]:
    """Names of the rules that a device fails."""
    checks = [rule.judge(device, at=at, item="gpu0") for rule in policy.rules[device.kind]]
    return {check.id.split(".", 2)[2] for check in checks if check.outcome is Outcome.FAIL}


def set_of(devices: Iterable[VerifiedGpu], *, cpu_kind: str | None = "sev-snp", bound: bool = True) -> DeviceSet:
    """Several devices as one set."""
    found = tuple(devices)
    return DeviceSet(
        gpus=tuple(v for v in found if v.kind == "nvidia-gpu"),
        switches=tuple(v for v in found if v.kind == "nvidia-switch"),
        cpu_kind=cpu_kind,
        bound=bound,
    )


def set_failed(policy: Policy, devices: DeviceSet) -> set[str]:
    """Names of the rules that a set fails."""
    checks = [rule.judge(devices, at=AT, item=None) for rule in policy.set_rules]
    return {check.id.split(".", 2)[2] for check in checks if check.outcome is Outcome.FAIL}
