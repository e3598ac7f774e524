"""Findings in the sections ``gpu``, ``nvswitch`` and ``devices`` of one body."""

from __future__ import annotations

from collections.abc import Iterator

from attest.policy.authoring.comparison import spans
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.decoder import Demand, RelaxedDemand, stated
from attest.policy.devices import Count
from attest.policy.gpu import GpuDemands
from attest.policy.model import PolicyBody
from attest.policy.versions import VersionRange

_FIRST_OF_VBIOS = {"hopper": 0x96, "blackwell": 0x97}
"""First component of VBIOS versions (nvidia-gpu.md 4.2)."""


def device_findings(body: PolicyBody, start: str, context: LintContext) -> Iterator[LintFinding]:
    """Return the findings about devices beside the CPU; ``start`` is the path of the body with its dot."""
    if body.gpu is not None:
        yield from _gpu(body.gpu, f"{start}gpu")
    if body.nvswitch is not None:
        yield from _ranges(body.nvswitch.vbios_versions, f"{start}nvswitch.vbios_versions")
    yield from _devices(body, start, context)


def _gpu(gpu: GpuDemands, path: str) -> Iterator[LintFinding]:
    yield from _ranges(gpu.driver_versions, f"{path}.driver_versions")
    yield from _ranges(gpu.vbios_versions, f"{path}.vbios_versions")
    versions = gpu.vbios_versions.value
    if isinstance(versions, RelaxedDemand):
        return
    for architecture in stated(gpu.architectures) or ():
        first = _FIRST_OF_VBIOS[str(architecture)]
        if not _meets(versions, first):
            yield LintFinding(
                rule="never-matches",
                severity=Severity.ERROR,
                path=f"{path}.vbios_versions",
                why=f"VBIOS versions of {architecture} begin with {first:x}, and no range contains such a version",
                remedy=f"add a range for {architecture}, or remove it from architectures",
            )


def _meets(ranges: tuple[VersionRange, ...], first: int) -> bool:
    return any(low < ((first + 1,), 0) and ((first,), 0) < high for low, high in spans(ranges))


def _ranges(demand: Demand[tuple[VersionRange, ...]], path: str) -> Iterator[LintFinding]:
    if isinstance(demand.value, RelaxedDemand):
        return
    ranges = demand.value
    for index, one in enumerate(ranges):
        others = (*ranges[:index], *(other for other in ranges[index + 1 :] if spans([other]) != spans([one])))
        if others and spans(others) == spans(ranges):
            yield LintFinding(
                rule="unreachable",
                severity=Severity.WARNING,
                path=f"{path}[{index}]",
                why=f"the other ranges contain every version that is {one}",
                remedy="remove it; perhaps another bound was meant",
            )


def _devices(body: PolicyBody, start: str, context: LintContext) -> Iterator[LintFinding]:
    if body.devices is None:
        return
    cpu = any(section is not None for section in (body.snp, body.tdx, body.sgx))
    for name, kind, count in (("gpus", "gpu", body.devices.gpus), ("switches", "nvswitch", body.devices.switches)):
        if count is not None and isinstance(count.value, Count) and count.value.at_most == 0:
            yield LintFinding(
                rule="unreachable",
                severity=Severity.WARNING,
                path=f"{start}devices.{name}",
                why=f"the policy permits no such device, so the demands of {start}{kind} judge nothing",
                remedy=f"remove {kind}: a kind without a section in the policy is refused",
            )
    if not cpu and context.policy is body:
        yield LintFinding(
            rule="no-cpu",
            severity=Severity.NOTE,
            path=f"{start}devices",
            why="no CPU is demanded, so nothing shows which machine the devices are in",
            remedy="add demands on the CPU; no key is released under a policy without them",
        )
