"""The GPUs and NVSwitches of one Attester together: claims of a set and of no single device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, StatedClaims, StatedItem, claim_finder

if TYPE_CHECKING:
    from attest.evidence.gpu.verify import VerifiedGpu

_CLAUSE = "NVIDIA nvtrust, topology of protected PCIe"
_DEVICES = frozenset({"nvidia-gpu", "nvidia-switch", "sample-device"})
"""Kinds of devices beside a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDevice:
    """A GPU or switch that another Verifier states."""

    architecture: str | None
    driver_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSet:
    """Every device of one evidence, or of one token: verified, or stated by another Verifier.

    Attributes:
        cpu_kind: kind of the CPU's evidence that came with them (``sev-snp``, ``tdx``), or None.
        bound: true if the CPU's signed report commits to exactly these devices and their settings.
    """

    gpus: tuple[VerifiedGpu | StatedDevice, ...]
    switches: tuple[VerifiedGpu | StatedDevice, ...]
    cpu_kind: str | None
    bound: bool


def stated_devices(items: Sequence[StatedItem], *, bound: bool) -> DeviceSet:
    """Return the devices among the items that another Verifier states; ``bound`` as in ``DeviceSet``."""
    return DeviceSet(
        gpus=tuple(_stated(item.verified) for item in items if item.kind == "nvidia-gpu"),
        switches=tuple(_stated(item.verified) for item in items if item.kind == "nvidia-switch"),
        cpu_kind=next((item.kind for item in items if item.kind not in _DEVICES), None),
        bound=bound,
    )


def _stated(claims: StatedClaims) -> StatedDevice:
    architecture, driver = (claims.values.get(name) for name in ("architecture", "driver_version"))
    return StatedDevice(
        architecture=architecture if isinstance(architecture, str) else None,
        driver_version=driver if isinstance(driver, str) else None,
    )


_Get = Callable[[DeviceSet], ClaimValue]


def _claim(name: str, kind: ClaimType, get: _Get, clause: str = _CLAUSE) -> Claim:
    return Claim(name=name, type=kind, origin=Origin.HARDWARE, clause=clause, get=get)


def _different(values: tuple[str | None, ...]) -> tuple[str, ...]:
    """Each value once; what one device does not state is a value of its own, and equal to no version."""
    return tuple(dict.fromkeys("not stated" if value is None else value for value in values))


DEVICE_SET_CLAIMS: tuple[Claim, ...] = (
    _claim("gpus", ClaimType.INTEGER, lambda s: len(s.gpus)),
    _claim("switches", ClaimType.INTEGER, lambda s: len(s.switches)),
    _claim("architectures", ClaimType.LIST, lambda s: _different(tuple(v.architecture for v in s.gpus))),
    _claim("driver_versions", ClaimType.LIST, lambda s: _different(tuple(v.driver_version for v in s.gpus))),
    _claim("cpu_kind", ClaimType.TEXT, lambda s: s.cpu_kind, "NVIDIA nvtrust, modes and collection"),
    # Of no device there is nothing to bind: how many there must be is another question.
    _claim(
        "bound",
        ClaimType.BOOLEAN,
        lambda s: s.bound or not (s.gpus or s.switches),
        "NVIDIA nvtrust, modes and collection",
    ),
)
"""Claims of a set, for policies."""
device_set_claim = claim_finder(DEVICE_SET_CLAIMS)
