"""What a policy can demand of NVIDIA devices: the keys ``gpu``, ``nvswitch`` and ``devices``, and their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, StatedClaims
from attest.evidence.gpu.claims import gpu_claim, switch_claim
from attest.evidence.gpu.measurements import NVDEC_WAIVER
from attest.evidence.gpu.tolerances import GpuTolerances, WaivedMeasurement
from attest.evidence.gpu.verify import VerifiedGpu
from attest.policy.decode import (
    Decoder,
    Demand,
    RelaxedDemand,
    Section,
    choice,
    demand,
    hex_of,
    list_of,
    table_of,
    text,
)
from attest.policy.rules import Rule, Test, is_, must_be, none_of, one_of, rule_for
from attest.policy.versions import Numbering, VersionRange, in_ranges, ranges_of, ranges_text

__all__ = [
    "BASELINE_GPU_RULES",
    "BASELINE_SWITCH_RULES",
    "GpuDemands",
    "SwitchDemands",
    "decode_gpu",
    "decode_nvswitch",
    "gpu_rules",
    "switch_rules",
    "tolerances_of",
]

ARCHITECTURES = ("hopper", "blackwell")
MODES = ("spt", "mpt", "protected-pcie")
IDENTITY_BYTES = 9
"""Type byte and PDI."""
FWID_BYTES = 48
GPU_MEASUREMENTS, SWITCH_MEASUREMENTS = 64, 31
"""Blocks of a report (nvidia-gpu.md 2); RIM indices count from 0."""

_HARDWARE, _EXECUTABLES, _CONFIGURATION, _IDENTITY = "hardware", "executables", "configuration", "instance-identity"
_Ranges = tuple[VersionRange, ...]
_NO_WAIVERS: Mapping[str, str] = {}
_NOBODY: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDemands:
    """What is demanded of each GPU; None where nothing is. See docs/policy.md for each key."""

    architectures: Demand[tuple[str, ...]]
    driver_versions: Demand[_Ranges]
    vbios_versions: Demand[_Ranges]
    rim: Demand[bool]
    fwid_required: Demand[bool]
    environment: Demand[str]
    cc_mode: Demand[bool]
    dev_tools_mode: Demand[bool]
    modes: Demand[tuple[str, ...]] | None = None
    fwids: Demand[tuple[bytes, ...]] | None = None
    device_identities: Demand[tuple[bytes, ...]] | None = None
    denied_device_identities: tuple[bytes, ...] = ()
    projects: Demand[tuple[str, ...]] | None = None
    project_skus: Demand[tuple[str, ...]] | None = None
    chip_skus: Demand[tuple[str, ...]] | None = None
    waived_measurements: Mapping[str, str]
    held_rim_signers: Demand[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDemands:
    """What is demanded of each NVSwitch; None where nothing is. See docs/policy.md for each key."""

    vbios_versions: Demand[_Ranges]
    rim: Demand[bool]
    locked: Demand[bool]
    fwids: Demand[tuple[bytes, ...]] | None = None
    device_identities: Demand[tuple[bytes, ...]] | None = None
    denied_device_identities: tuple[bytes, ...] = ()
    waived_measurements: Mapping[str, str]
    held_rim_signers: Demand[bool]


# -- reading


_STRICT_RIM: Demand[bool] = Demand(True)  # noqa: FBT003


def decode_gpu(value: JsonValue, path: str, *, rim: Demand[bool] = _STRICT_RIM) -> GpuDemands:
    """Read the key ``gpu`` of a policy.

    Args:
        value: what stands there.
        path: where it stands.
        rim: what its key ``rim`` says when it is left out.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    section = Section(value, path)
    names = demand(list_of(text))
    demands = GpuDemands(
        architectures=section.required("architectures", demand(list_of(choice(ARCHITECTURES)))),
        driver_versions=section.required("driver_versions", demand(ranges_of(Numbering.DECIMAL))),
        environment=section.optional("environment", demand(choice(["production"])), default=Demand("production")),
        cc_mode=section.optional("cc_mode", must_be(True), default=Demand(True)),  # noqa: FBT003
        dev_tools_mode=section.optional("dev_tools_mode", must_be(False), default=Demand(False)),  # noqa: FBT003
        fwid_required=section.optional("fwid_required", must_be(True), default=Demand(True)),  # noqa: FBT003
        modes=_optional(section, "modes", demand(list_of(choice(MODES)))),
        projects=_optional(section, "projects", names),
        project_skus=_optional(section, "project_skus", names),
        chip_skus=_optional(section, "chip_skus", names),
        **_shared(section, GPU_MEASUREMENTS, rim),
    )
    section.finish()
    return demands


def decode_nvswitch(value: JsonValue, path: str, *, rim: Demand[bool] = _STRICT_RIM) -> SwitchDemands:
    """Read the key ``nvswitch`` of a policy; ``rim`` is what that key says when it is left out.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    section = Section(value, path)
    locked = section.optional("locked", must_be(True), default=Demand(True))  # noqa: FBT003
    demands = SwitchDemands(locked=locked, **_shared(section, SWITCH_MEASUREMENTS, rim))
    section.finish()
    return demands


def _shared(section: Section, measurements: int, rim: Demand[bool]) -> dict[str, Any]:  # Any: fields of both classes
    """Read the keys that GPUs and switches share."""
    identities = list_of(hex_of(IDENTITY_BYTES))
    waivers = table_of(text, keys=map(str, range(measurements)))
    return {
        "vbios_versions": section.required("vbios_versions", demand(ranges_of(Numbering.HEX))),
        "rim": section.optional("rim", must_be(True), default=rim),  # noqa: FBT003
        "fwids": _optional(section, "fwids", demand(list_of(hex_of(FWID_BYTES)))),
        "device_identities": _optional(section, "device_identities", demand(identities)),
        "denied_device_identities": section.optional("denied_device_identities", identities, default=_NOBODY),
        "waived_measurements": section.optional("waived_measurements", waivers, default=_NO_WAIVERS),
        "held_rim_signers": section.optional("held_rim_signers", must_be(False), default=Demand(False)),  # noqa: FBT003
    }


def _optional(section: Section, name: str, decoder: Decoder[Any]) -> Any:  # noqa: ANN401  the decoder's type, or None
    return section.optional(name, decoder, default=None)


# -- what verification is to tolerate


def tolerances_of(demands: GpuDemands | SwitchDemands) -> GpuTolerances:
    """Return what verification is to tolerate in such devices, each with the author's reason."""
    waived = demands.waived_measurements.items()
    held = demands.held_rim_signers.value
    return GpuTolerances(
        waived_measurements=tuple(WaivedMeasurement(index=int(index), reason=reason) for index, reason in waived),
        held_rim_signers=held.reason if isinstance(held, RelaxedDemand) else None,
    )


# -- rules


def gpu_rules(gpu: GpuDemands) -> tuple[Rule, ...]:
    """Return the rules of a policy document for each GPU."""
    return (
        *_rule("gpu.architectures", gpu.architectures, one_of, category=_HARDWARE, claim=gpu_claim("architecture")),
        *_version("gpu.driver_versions", gpu.driver_versions, gpu_claim("driver_version"), Numbering.DECIMAL),
        *_version("gpu.vbios_versions", gpu.vbios_versions, gpu_claim("vbios_version"), Numbering.HEX),
        *_measured("gpu", gpu, gpu_claim, _GPU_RIMS),
        *_rule("gpu.fwid_required", gpu.fwid_required, is_, category=_EXECUTABLES, claim=gpu_claim("fwid_matched")),
        *_settings(gpu),
        *_identity("gpu", gpu, gpu_claim),
        *(
            rule
            for name, claim, names in (
                ("projects", "project", gpu.projects),
                ("project_skus", "project_sku", gpu.project_skus),
                ("chip_skus", "chip_sku", gpu.chip_skus),
            )
            for rule in _rule(f"gpu.{name}", names, one_of, category=_HARDWARE, claim=gpu_claim(claim))
        ),
    )


def switch_rules(nvswitch: SwitchDemands) -> tuple[Rule, ...]:
    """Return the rules of a policy document for each NVSwitch."""
    return (
        *_version("nvswitch.vbios_versions", nvswitch.vbios_versions, switch_claim("vbios_version"), Numbering.HEX),
        *_measured("nvswitch", nvswitch, switch_claim, _SWITCH_RIMS),
        *_rule("nvswitch.locked", nvswitch.locked, is_, category=_CONFIGURATION, claim=switch_claim("locked")),
        *_identity("nvswitch", nvswitch, switch_claim),
    )


def _rule(
    name: str,
    wanted: Demand[Any] | None,  # Any: the demand's own type, which the caller pairs with its test
    test: Callable[[Any], Test],
    *,
    category: str,
    claim: Claim,
    expected: Callable[[Any], str] | None = None,
) -> Iterator[Rule]:
    return rule_for(f"policy.{name}", wanted, test, category=category, claim=claim, expected=expected)


def _version(name: str, ranges: Demand[_Ranges], claim: Claim, numbering: Numbering) -> Iterator[Rule]:
    return _rule(
        name,
        ranges,
        lambda allowed: in_ranges(numbering, allowed),
        category=_EXECUTABLES,
        claim=claim,
        expected=ranges_text,
    )


def _settings(gpu: GpuDemands) -> Iterator[Rule]:
    """Ask about the mode. What NVML says is the guest's word, which counts through what the CPU signed for it."""
    yield from _rule(
        "gpu.environment",
        gpu.environment,
        lambda name: one_of([name]),
        category=_CONFIGURATION,
        claim=gpu_claim("nvml.environment"),
    )
    for name, switch in (("cc_mode", gpu.cc_mode), ("dev_tools_mode", gpu.dev_tools_mode)):
        yield from _rule(f"gpu.{name}", switch, is_, category=_CONFIGURATION, claim=gpu_claim(f"nvml.{name}"))
    yield from _rule("gpu.modes", gpu.modes, one_of, category=_CONFIGURATION, claim=gpu_claim("mode"))


def _identity(kind: str, demands: GpuDemands | SwitchDemands, claim: Callable[[str], Claim]) -> Iterator[Rule]:
    """Ask which device it is. An L5 is made anew for each firmware, so identity is that of L4."""
    identity, denied = claim("device_identity"), demands.denied_device_identities
    allowed = demands.device_identities
    yield from _rule(f"{kind}.device_identities", allowed, one_of, category=_IDENTITY, claim=identity)
    yield from _rule(
        f"{kind}.denied_device_identities",
        Demand(denied) if denied else None,
        none_of,
        category=_IDENTITY,
        claim=identity,
        expected=lambda values: "none of " + ", ".join(value.hex() for value in values),
    )


def _measured(
    kind: str, demands: GpuDemands | SwitchDemands, claim: Callable[[str], Claim], rims: tuple[str, ...]
) -> Iterator[Rule]:
    """Ask whether it runs what NVIDIA published, and show what the policy's author tolerates of the contrary."""
    held = demands.held_rim_signers
    tolerated = _Tolerated(
        indices=frozenset(map(int, demands.waived_measurements)), held=isinstance(held.value, RelaxedDemand)
    )
    yield from _compared(kind, demands.rim, claim, rims, tolerated)
    yield from _rule(f"{kind}.fwids", demands.fwids, one_of, category=_EXECUTABLES, claim=claim("fwid"))
    for index, reason in demands.waived_measurements.items():
        waived: Demand[bool] = Demand(RelaxedDemand(reason=reason))
        name = f"{kind}.waived_measurements.{index}"
        yield from _rule(name, waived, is_, category=_EXECUTABLES, claim=_waived(claim, int(index)))
    if tolerated.held:
        yield from _rule(f"{kind}.held_rim_signers", held, is_, category=_EXECUTABLES, claim=_revocation(claim, rims))


_EQUAL = "every measurement equal to a reference value that NVIDIA signed"
_GPU_RIMS: tuple[str, ...] = ("driver_rim", "vbios_rim")
_SWITCH_RIMS: tuple[str, ...] = ("vbios_rim",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tolerated:
    """What this section of this policy tolerates.

    Evidence may have been verified for somebody who tolerates more: another policy, or the other kind of device.

    Attributes:
        indices: measurements that may differ.
        held: signers of RIMs may be on hold.
    """

    indices: frozenset[int] = frozenset()
    held: bool = False


def _compared(
    kind: str,
    wanted: Demand[bool],
    claim: Callable[[str], Claim],
    rims: tuple[str, ...],
    tolerated: _Tolerated = _Tolerated(),
) -> Iterator[Rule]:
    but = ", ".join(map(str, sorted(tolerated.indices)))
    return _rule(
        f"{kind}.rim",
        wanted,
        lambda _: _equals_references(tolerated),
        category=_EXECUTABLES,
        claim=_comparison(claim, rims),
        expected=lambda _: f"{_EQUAL}, but for {but}" if but else _EQUAL,
    )


def _comparison(claim: Callable[[str], Claim], rims: tuple[str, ...]) -> Claim:
    """Sum up the comparison, with the RIMs that it lacked: what one of two RIMs covers is half of the firmware."""
    versions = {name: claim(f"{name}.version") for name in rims}
    revocations = {name: claim(f"{name}.revocation") for name in rims}

    def get(v: VerifiedGpu) -> ClaimValue:
        found = v.measurements
        if found is None:
            return None
        return {
            "compared": found.compared,
            "matched": found.matched,
            "mismatches": len(found.mismatches),
            "waived": tuple(result.index for result in found.waived if result.waived != NVDEC_WAIVER),
            "waived_by_nvidia": tuple(result.index for result in found.waived if result.waived == NVDEC_WAIVER),
            "missing": tuple(name for name, version in versions.items() if version.get(v) is None),
            # Not judged is for ``revocation`` among what is unchecked; this is about answers that are there.
            "held": tuple(name for name, answer in revocations.items() if answer.get(v) not in {None, "good"}),
        }

    def stated(subject: StatedClaims) -> ClaimValue:
        mismatches = subject.values.get("measurements.mismatches")
        if not isinstance(mismatches, tuple):
            return None
        answers = {name: answer.read(subject) for name, answer in revocations.items()}
        return {
            "matched": "not counted",
            "mismatches": len(mismatches),
            "waived": (),
            # Nobody left revocation unjudged here: a RIM of whose signers nothing was asked counts for none.
            "missing": tuple(name for name in rims if None in (subject.values.get(f"{name}.expires"), answers[name])),
            "held": tuple(name for name, answer in answers.items() if answer not in {None, "good"}),
        }

    clause, origin = claim("measurements.compared").clause, Origin.HARDWARE
    return Claim(name="measurements", type=ClaimType.OBJECT, origin=origin, clause=clause, get=get, stated=stated)


def _equals_references(tolerated: _Tolerated) -> Test:
    """Test a summary: something was compared, with every RIM, and nothing differs but what is tolerated here."""

    def holds(found: Mapping[str, Any], _at: datetime) -> bool:  # Any: numbers, indices, names of RIMs
        whole = found["matched"] != 0 and not found["missing"] and not found["mismatches"]
        return whole and tolerated.indices.issuperset(found["waived"]) and (tolerated.held or not found["held"])

    return holds


def _waived(claim: Callable[[str], Claim], index: int) -> Claim:
    """Show how a waived measurement came out."""
    compared = claim("measurements.compared")

    def get(v: VerifiedGpu) -> ClaimValue:
        results = () if v.measurements is None else v.measurements.results
        return next(("matched" if r.matched else "differs" for r in results if r.index == index), None)

    return Claim(
        name=f"measurements.{index}", type=ClaimType.TEXT, origin=compared.origin, clause=compared.clause, get=get
    )


def _revocation(claim: Callable[[str], Claim], rims: tuple[str, ...]) -> Claim:
    """Show what was answered about the signers of RIMs."""
    claims = {name: claim(f"{name}.revocation") for name in rims}

    def get(v: VerifiedGpu) -> ClaimValue:
        found = {name: one.get(v) for name, one in claims.items()}
        return {name: value for name, value in found.items() if value is not None} or None

    origin, clause = Origin.CERTIFICATE, "nvidia-gpu.md 8"
    return Claim(name="rim_signers", type=ClaimType.OBJECT, origin=origin, clause=clause, get=get)


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
"""No report says it (nvidia-gpu.md 15), so the baseline, which is asked of single reports too, demands no statement."""

BASELINE_GPU_RULES: tuple[Rule, ...] = (
    *_rule(
        "gpu.dev_tools_mode", Demand(("off", "not stated")), one_of, category=_CONFIGURATION, claim=_DEV_TOOLS_STATED
    ),
    *_compared("gpu", Demand(True), gpu_claim, _GPU_RIMS),  # noqa: FBT003
)
BASELINE_SWITCH_RULES: tuple[Rule, ...] = tuple(_compared("nvswitch", Demand(True), switch_claim, _SWITCH_RIMS))  # noqa: FBT003
"""What nobody sensible wants relaxed. No production policy."""
