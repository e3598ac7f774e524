"""The sections of a drafted policy for GPUs and NVSwitches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attest.encoding import JsonValue
from attest.evidence.claims import Claim
from attest.evidence.gpu.claims import gpu_claim, switch_claim
from attest.evidence.gpu.device_set import DeviceSet
from attest.evidence.gpu.verify import VerifiedGpu
from attest.policy.authoring.draft_sections import DraftSection, raw_bytes
from attest.policy.versions import Numbering, Version, parse_version

_LAST_FAMILY = 0xFF


def device_sections(devices: DeviceSet, chosen: Mapping[str, str]) -> list[DraftSection]:
    """Add the sections of GPUs and NVSwitches, and of all devices together."""
    gpus, switches = (
        tuple(one for one in members if isinstance(one, VerifiedGpu)) for members in (devices.gpus, devices.switches)
    )
    if not gpus and not switches:
        return []
    found: list[DraftSection] = []
    together = DraftSection(key="devices")
    if gpus:
        found.append(_gpus(gpus, chosen))
        together.put("gpus", len(gpus))
    if switches:
        found.append(_switches(switches, chosen))
        together.put("switches", len(switches))
    return [*found, together]


def _gpus(gpus: tuple[VerifiedGpu, ...], chosen: Mapping[str, str]) -> DraftSection:
    section = DraftSection(key="gpu")
    section.put("architectures", [*_texts(gpus, gpu_claim("architecture"))])
    exact_driver = chosen["gpu.driver"] == "exactly"
    _versions(section, "driver_versions", gpus, gpu_claim("driver_version"), Numbering.DECIMAL, exactly=exact_driver)
    exact_vbios = chosen["gpu.vbios"] == "exactly"
    _versions(section, "vbios_versions", gpus, gpu_claim("vbios_version"), Numbering.HEX, exactly=exact_vbios)
    if exact_driver:
        _fwids(section, gpus, gpu_claim("fwid"))
    for name, claim in (
        ("modes", "mode"),
        ("projects", "project"),
        ("project_skus", "project_sku"),
        ("chip_skus", "chip_sku"),
    ):
        texts = _texts(gpus, gpu_claim(claim))
        if texts and all(text.strip() for text in texts):
            section.put(name, [*texts])
    identities = [gpu_claim("device_identity").get(gpu) for gpu in gpus]
    section.identity(chosen["gpu.device"], "device_identities", identities, "Only these devices")
    return section


def _switches(switches: tuple[VerifiedGpu, ...], chosen: Mapping[str, str]) -> DraftSection:
    section = DraftSection(key="nvswitch")
    exactly = chosen["nvswitch.vbios"] == "exactly"
    _versions(section, "vbios_versions", switches, switch_claim("vbios_version"), Numbering.HEX, exactly=exactly)
    if exactly:
        _fwids(section, switches, switch_claim("fwid"))
    identities = [switch_claim("device_identity").get(switch) for switch in switches]
    section.identity(chosen["nvswitch.device"], "device_identities", identities, "Only these devices")
    return section


def _texts(devices: Iterable[VerifiedGpu], claim: Claim) -> tuple[str, ...]:
    """Return the values of all devices, each once; none where one device states none."""
    values = [claim.get(device) for device in devices]
    return () if None in values else tuple(dict.fromkeys(str(value) for value in values))


def _fwids(section: DraftSection, devices: Iterable[VerifiedGpu], claim: Claim) -> None:
    values = dict.fromkeys(raw_bytes(claim.get(device)) for device in devices)
    section.put("fwids", [value.hex() for value in values], "The first firmware: it changes with the driver's branch.")


def _versions(
    section: DraftSection,
    name: str,
    devices: Iterable[VerifiedGpu],
    claim: Claim,
    numbering: Numbering,
    *,
    exactly: bool,
) -> None:
    """Demand these versions, or these and newer ones; an unreadable version is in no range."""
    versions = [version for text in _texts(devices, claim) if (version := parse_version(text, numbering)) is not None]
    if not versions:
        section.put(name, {"at_least": "0"})  # which then is no demand that the device meets
    elif exactly:
        section.put(name, [{"exactly": str(version)} for version in versions], "Exactly these versions.")
    elif numbering is Numbering.DECIMAL:
        least = min(versions, key=lambda version: version.components)
        section.put(name, [{"at_least": str(least)}], "This version or newer.")
    else:
        # The first number is the family of chips: newer is a comparison within one.
        families: dict[int, Version] = {}
        for version in sorted(versions, key=lambda version: version.components, reverse=True):
            families[next(iter(version.components), 0)] = version  # zeros at the end are no components
        ranges: list[JsonValue] = [_of_family(family, version) for family, version in sorted(families.items())]
        section.put(name, ranges, "These versions or newer ones of the same family of chips.")


def _of_family(family: int, version: Version) -> JsonValue:
    """Demand this version or a newer one of its family; above the last family there is nothing to exclude."""
    least: dict[str, JsonValue] = {"at_least": str(version)}
    return least if family == _LAST_FAMILY else {**least, "below": f"{family + 1:X}"}
