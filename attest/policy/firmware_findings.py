"""Findings about firmware that is older than a fix: of verified devices, and of a GPU driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from attest.errors import InvalidValueError
from attest.evidence.claims import ClaimValue
from attest.evidence.gpu.claims import gpu_claim, switch_claim
from attest.evidence.intel.claims import sgx_claim, tdx_claim
from attest.evidence.snp.claims import snp_claim
from attest.policy.firmware_table import FirmwareEntry, FirmwareTable
from attest.policy.floors import read_floor_demand

FIRMWARE_CODE: Final = "firmware-below-bulletin"
_Device = Any  # the verified device of its format, which the format's claims read
_Get = Callable[[str], ClaimValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareFinding:
    """A component of one device that lacks the fixes of some bulletins.

    Attributes:
        item: the device, by its name in the evidence.
        section: the key of a policy that covers it: ``snp``.
        component: as floors name it: ``microcode``.
        entries: the bulletins, the one with the highest level first.
    """

    item: str
    section: str
    component: str
    found: str
    entries: tuple[FirmwareEntry, ...]

    def __str__(self) -> str:
        fixes = ", ".join(map(str, self.entries))
        return f"{self.item}: this machine's {self.component} {self.found} is older than the fix of {fixes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    product: str
    component: str
    text: str
    cpuid: Mapping[str, int] | None = None


def firmware_findings(devices: Iterable[tuple[str, str, _Device]], table: FirmwareTable) -> tuple[FirmwareFinding, ...]:
    """Judge devices by the table.

    Each device is its name, its kind (``sev-snp``, of an Azure VM ``azure-snp``), and the part that the vendor's
    hardware signed. A kind without firmware levels, and a level that the evidence does not state, give no finding.
    """
    return tuple(
        finding
        for item, kind, silicon in devices
        if kind in _LEVELS
        for level in _LEVELS[kind][1](silicon)
        for finding in _finding(item, _LEVELS[kind][0], level, table)
    )


def driver_finding(item: str, product: str, version: str, table: FirmwareTable) -> tuple[FirmwareFinding, ...]:
    """Judge the driver of a GPU by the table, as ``firmware_findings``."""
    if product not in _ARCHITECTURES:
        return ()
    return tuple(_finding(item, "gpu", _Level(product=product, component="driver", text=version), table))


def _finding(item: str, section: str, level: _Level, table: FirmwareTable) -> Iterator[FirmwareFinding]:
    try:
        found = read_floor_demand(level.product, level.component, level.text)
    except InvalidValueError:
        return  # no version that the table could cover; a policy's range does not have it either
    entries = table.unmet(found, cpuid=level.cpuid)
    if entries:
        yield FirmwareFinding(item=item, section=section, component=level.component, found=level.text, entries=entries)


# -- levels that evidence states


def _snp(device: _Device) -> Iterator[_Level]:
    product, levels, cpuid = (snp_claim(name).get(device) for name in ("product", "reported_tcb", "cpuid"))
    known = {str(n): v for n, v in cpuid.items() if isinstance(v, int)} if isinstance(cpuid, Mapping) else None
    for component, level in levels.items() if isinstance(levels, Mapping) else ():
        yield _Level(product=str(product).lower(), component=str(component), text=str(level), cpuid=known)


def _intel(product: str, get: Callable[[_Device], ClaimValue]) -> Callable[[_Device], Iterator[_Level]]:
    def levels(device: _Device) -> Iterator[_Level]:
        date = get(device)
        if isinstance(date, str):
            yield _Level(product=product, component="tcb_date", text=date)

    return levels


_ARCHITECTURES: Final = ("hopper", "blackwell")


def _gpu(device: _Device) -> Iterator[_Level]:
    architecture = gpu_claim("architecture").get(device)
    for component in ("driver", "vbios") if architecture in _ARCHITECTURES else ():
        version = gpu_claim(f"{component}_version").get(device)
        yield _Level(product=str(architecture), component=component, text=str(version))


def _switch(device: _Device) -> Iterator[_Level]:
    yield _Level(product="ls10", component="vbios", text=str(switch_claim("vbios_version").get(device)))


_Reader = Callable[[_Device], Iterator[_Level]]
_TDX: Final = ("tdx", _intel("tdx", tdx_claim("tcb_date").get))
_LEVELS: Final[Mapping[str, tuple[str, _Reader]]] = MappingProxyType(
    {
        "sev-snp": ("snp", _snp),
        "azure-snp": ("snp", _snp),
        "tdx": _TDX,
        "azure-tdx": _TDX,
        "sgx": ("sgx", _intel("sgx", sgx_claim("tcb_date").get)),
        "nvidia-gpu": ("gpu", _gpu),
        "nvidia-switch": ("nvswitch", _switch),
    }
)
"""Key of a policy for each kind of device, and the levels that the evidence states."""
