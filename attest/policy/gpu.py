"""Demands of a policy on NVIDIA devices: the keys of ``gpu`` and ``nvswitch``, and their rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin
from attest.evidence.gpu.claims import gpu_claim, switch_claim
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.tolerances import GpuTolerances, WaivedMeasurement
from attest.policy.accepted_values import accepted_of
from attest.policy.decoder import (
    OFF,
    ON,
    STRICT_OFF,
    STRICT_ON,
    Demand,
    RelaxedDemand,
    Section,
    choice,
    demand,
    key,
    list_of,
    must_be,
    table_of,
    text,
)
from attest.policy.gpu_references import GPU_RIMS, SWITCH_RIMS, DeviceDemands, comparison_rule, measurement_rules
from attest.policy.rules import Rule, RuleMaker, is_, one_of
from attest.policy.versions import Numbering, VersionRange, in_ranges, ranges_of, ranges_text

_GPU, _SWITCH = RuleMaker("gpu", gpu_claim), RuleMaker("nvswitch", switch_claim)
ARCHITECTURES = ("hopper", "blackwell")
MODES = ("spt", "mpt", "protected-pcie", "unprotected")
GPU_MEASUREMENTS, SWITCH_MEASUREMENTS = 64, 31
"""Blocks of a report (nvidia-gpu.md 2); RIM indices count from 0."""

_HARDWARE, _EXECUTABLES, _CONFIGURATION, _IDENTITY = "hardware", "executables", "configuration", "instance-identity"
_Ranges = tuple[VersionRange, ...]
_Demands = TypeVar("_Demands", "GpuDemands", "SwitchDemands")


_TEXTS = key(demand(list_of(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDemands(DeviceDemands):
    """Demands on each GPU."""

    architectures: Demand[tuple[str, ...]] = field(metadata=key(demand(list_of(choice(ARCHITECTURES)))))
    driver_versions: Demand[_Ranges] = field(metadata=key(demand(ranges_of(Numbering.DECIMAL))))
    fwid_required: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    environment: Demand[str] = field(default=Demand("production"), metadata=key(demand(choice(["production"]))))
    cc_mode: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    dev_tools_mode: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)
    modes: Demand[tuple[str, ...]] | None = field(default=None, metadata=key(demand(list_of(choice(MODES)))))
    projects: Demand[tuple[str, ...]] | None = field(default=None, metadata=_TEXTS)
    project_skus: Demand[tuple[str, ...]] | None = field(default=None, metadata=_TEXTS)
    chip_skus: Demand[tuple[str, ...]] | None = field(default=None, metadata=_TEXTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDemands(DeviceDemands):
    """Demands on each NVSwitch."""

    locked: Demand[bool] = field(default=ON, metadata=STRICT_ON)


# -- reading


def decode_gpu(value: JsonValue, path: str, *, rim: Demand[bool]) -> GpuDemands:
    """Read the key ``gpu`` of a policy; ``rim`` is the default of that key."""
    return _decoded(GpuDemands, Section(value, path), GPU_MEASUREMENTS, rim)


def decode_nvswitch(value: JsonValue, path: str, *, rim: Demand[bool]) -> SwitchDemands:
    """Read the key ``nvswitch`` of a policy; ``rim`` is the default of that key."""
    return _decoded(SwitchDemands, Section(value, path), SWITCH_MEASUREMENTS, rim)


def _decoded(cls: type[_Demands], section: Section, measurements: int, rim: Demand[bool]) -> _Demands:
    waivers = table_of(text, keys=map(str, range(measurements)))
    found = section.record(
        cls,
        rim=section.optional("rim", must_be(strict=True), default=rim),
        waived_measurements=section.stated("waived_measurements", waivers) or {},
    )
    section.finish()
    return found


# -- tolerances


def tolerances_of(demands: DeviceDemands) -> GpuTolerances:
    """Return the deviations that verification tolerates in such devices, each with the author's reason."""
    waived = demands.waived_measurements.items()
    held = demands.held_rim_signers.value
    return GpuTolerances(
        waived_measurements=tuple(WaivedMeasurement(index=int(index), reason=reason) for index, reason in waived),
        accepted_opaque=accepted_of(demands.accepted_opaque),
        held_rim_signers=held.reason if isinstance(held, RelaxedDemand) else None,
    )


# -- rules


def gpu_rules(gpu: GpuDemands) -> tuple[Rule, ...]:
    """Return the rules of a policy document for each GPU."""
    return (
        *_GPU.rule("architectures", gpu.architectures, one_of, category=_HARDWARE, claim="architecture"),
        *_version(_GPU, "driver_version", gpu.driver_versions, Numbering.DECIMAL),
        *_version(_GPU, "vbios_version", gpu.vbios_versions, Numbering.HEX),
        *measurement_rules(_GPU, gpu, GPU_RIMS),
        *_GPU.rule("fwid_required", gpu.fwid_required, is_, category=_EXECUTABLES, claim="fwid_matched"),
        *_settings(gpu),
        *_identity(_GPU, gpu),
        *_GPU.rule("projects", gpu.projects, one_of, category=_HARDWARE, claim="project"),
        *_GPU.rule("project_skus", gpu.project_skus, one_of, category=_HARDWARE, claim="project_sku"),
        *_GPU.rule("chip_skus", gpu.chip_skus, one_of, category=_HARDWARE, claim="chip_sku"),
    )


def switch_rules(nvswitch: SwitchDemands) -> tuple[Rule, ...]:
    """Return the rules of a policy document for each NVSwitch."""
    return (
        *_version(_SWITCH, "vbios_version", nvswitch.vbios_versions, Numbering.HEX),
        *measurement_rules(_SWITCH, nvswitch, SWITCH_RIMS),
        *_SWITCH.rule("locked", nvswitch.locked, is_, category=_CONFIGURATION),
        *_identity(_SWITCH, nvswitch),
    )


def _version(make: RuleMaker, claim: str, ranges: Demand[_Ranges], numbering: Numbering) -> Iterator[Rule]:
    return make.rule(
        f"{claim}s",
        ranges,
        lambda allowed: in_ranges(numbering, allowed),
        category=_EXECUTABLES,
        claim=claim,
        expected=ranges_text,
    )


def _settings(gpu: GpuDemands) -> Iterator[Rule]:
    """Make the rules for the mode. The guest states NVML's settings; the CPU's signature over the guest backs them."""
    yield from _GPU.rule(
        "environment",
        gpu.environment,
        lambda name: one_of([name]),
        category=_CONFIGURATION,
        claim="nvml.environment",
    )
    for name, switch in (("cc_mode", gpu.cc_mode), ("dev_tools_mode", gpu.dev_tools_mode)):
        yield from _GPU.rule(name, switch, is_, category=_CONFIGURATION, claim=f"nvml.{name}")
    yield from _GPU.rule("modes", gpu.modes, one_of, category=_CONFIGURATION, claim="mode")


def _identity(make: RuleMaker, demands: DeviceDemands) -> Iterator[Rule]:
    """Make the rules for the device's identity. An L5 is new for each firmware, so the identity is that of L4."""
    claim = "device_identity"
    yield from make.rule("device_identities", demands.device_identities, one_of, category=_IDENTITY, claim=claim)
    yield from make.denial("denied_device_identities", demands.denied_device_identities, claim=claim)


# -- the baseline


def _dev_tools(v: VerifiedGpu) -> ClaimValue:
    settings = v.evidence.settings
    if settings is None:
        return "not stated"
    return "on" if settings.dev_tools_mode else "off"


_DEV_TOOLS_STATED = Claim(
    name="dev_tools_mode",
    type=ClaimType.TEXT,
    origin=Origin.GUEST,
    clause=gpu_claim("nvml.dev_tools_mode").clause,
    get=_dev_tools,
)
"""No report states it (nvidia-gpu.md 15), so the baseline, which also applies to single reports, does not demand it."""

BASELINE_GPU_RULES: tuple[Rule, ...] = (
    *_GPU.rule(
        "dev_tools_mode", Demand(("off", "not stated")), one_of, category=_CONFIGURATION, claim=_DEV_TOOLS_STATED
    ),
    *comparison_rule(_GPU, ON, GPU_RIMS),
)
BASELINE_SWITCH_RULES: tuple[Rule, ...] = tuple(comparison_rule(_SWITCH, ON, SWITCH_RIMS))
"""Demands that no policy should relax. No production policy."""
