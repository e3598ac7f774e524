"""Claims of verified GPUs and NVSwitches (specs/nvidia-gpu.md, section 21).

A claim that the evidence does not carry is absent. Nothing in a report says whether developer tools were on: that is
in ``nvml``, which a guest collects itself, so that it counts only where the CPU signed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from attest.encoding import rfc3339_text
from attest.evidence.claims import Claim, ClaimTree, ClaimType, ClaimValue, Origin, claim_finder
from attest.evidence.gpu.evidence import GpuSettings
from attest.evidence.gpu.measurements import MeasurementComparison, MeasurementResult, MeasurementSource
from attest.evidence.gpu.nvidia_claims import nvidia_claims, revocation_of
from attest.evidence.gpu.opaque import OpaqueData
from attest.evidence.gpu.references import served_id
from attest.evidence.gpu.rim import VerifiedRim
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.tolerances import value_names

_Get: TypeAlias = Callable[[VerifiedGpu], ClaimValue]
_RimName: TypeAlias = Literal["driver_rim", "vbios_rim"]

_REPORT = "NVIDIA nvtrust, opaque data"
_CERTIFICATE = "TCG DICE Attestation Architecture, TcbInfo"
_MEASUREMENTS = "TCG Reference Integrity Manifest; NVIDIA nvtrust, comparison of measurements"
_RIM = "TCG Reference Integrity Manifest"
_NVML = "NVML, nvmlSystemGetConfComputeSettings"
_PROTECTED_PCIE = {0x55: False, 0xAA: True}
_LOCKED = 1


def _claim(name: str, kind: ClaimType, origin: Origin, get: _Get, clause: str = _REPORT) -> Claim:
    return Claim(name=name, type=kind, origin=origin, clause=clause, get=get)


def _opaque(v: VerifiedGpu) -> OpaqueData:
    return v.evidence.report.opaque


def _text(name: str, get: _Get, clause: str = _REPORT) -> Claim:
    return _claim(name, ClaimType.TEXT, Origin.HARDWARE, get, clause)


# -- claims of the certificates and of every report


_DEVICE: tuple[Claim, ...] = (
    _claim("architecture", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: v.architecture, _CERTIFICATE),
    _claim("product", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: v.chain.product, _CERTIFICATE),
    _claim(
        "device_identity", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: bytes.fromhex(v.chain.identity.text),
        _CERTIFICATE,
    ),
    _claim("hwmodel", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: v.chain.device.common_name, _CERTIFICATE),
    # The device makes a new L5 for each firmware: this names no device for longer than its firmware lasts.
    _claim("ueid", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: str(v.chain.leaf.certificate.serial), _CERTIFICATE),
    _claim("fwid", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.chain.leaf.fwid, _CERTIFICATE),
    _claim("fwid_matched", ClaimType.BOOLEAN, Origin.HARDWARE, lambda v: v.fwid_matched, _CERTIFICATE),
    _claim("nonce", ClaimType.BYTES, Origin.GUEST, lambda v: v.nonce, "DMTF DSP0274, GET_MEASUREMENTS, Nonce"),
)  # fmt: skip
_OPAQUE: tuple[Claim, ...] = (
    _claim("opaque_version", ClaimType.INTEGER, Origin.HARDWARE, lambda v: _opaque(v).version),
    _claim("unknown_opaque_types", ClaimType.LIST, Origin.HARDWARE, lambda v: _opaque(v).unknown),
    _claim("not_understood", ClaimType.LIST, Origin.HARDWARE, lambda v: value_names(v.accepted)),
)


# -- measurements


def _comparison(name: str, kind: ClaimType, get: Callable[[VerifiedGpu, MeasurementComparison], ClaimTree]) -> Claim:
    """Make a claim that is absent when there was nothing to compare with."""
    found: _Get = lambda v: None if v.measurements is None else get(v, v.measurements)  # noqa: E731  typed as the registry wants it
    return _claim(f"measurements.{name}", kind, Origin.HARDWARE, found, _MEASUREMENTS)


def _difference(v: VerifiedGpu, found: MeasurementResult) -> dict[str, ClaimTree]:
    """Describe what differs: where, in which RIM, what was expected and what is there."""
    described: dict[str, ClaimTree | None] = {
        "index": found.index,
        "name": found.name,
        "source": found.source,
        "expected": found.expected,
        "rim": served_id(_opaque(v), v.chain, found.source),
        "got": found.got,
        "reason": found.waived,
    }
    return {name: value for name, value in described.items() if value is not None}


_COMPARISON: tuple[Claim, ...] = (
    _comparison("compared", ClaimType.INTEGER, lambda _, m: m.compared),
    _comparison("matched", ClaimType.INTEGER, lambda _, m: m.matched),
    _comparison("mismatches", ClaimType.LIST, lambda v, m: tuple(_difference(v, one) for one in m.mismatches)),
    _comparison("waived", ClaimType.LIST, lambda v, m: tuple(_difference(v, one) for one in m.waived)),
)


# -- reference integrity manifests


def _rim(which: _RimName) -> tuple[Claim, ...]:
    """Make the claims of one RIM; without it they are absent."""
    source: MeasurementSource = "driver" if which == "driver_rim" else "vbios"

    def claim(name: str, kind: ClaimType, get: Callable[[VerifiedGpu, VerifiedRim], ClaimValue]) -> Claim:
        def found(v: VerifiedGpu) -> ClaimValue:
            rim: VerifiedRim | None = getattr(v, which)
            return None if rim is None else get(v, rim)

        return _claim(f"{which}.{name}", kind, Origin.CERTIFICATE, found, _RIM)

    return (
        claim("id", ClaimType.TEXT, lambda v, _: served_id(_opaque(v), v.chain, source)),
        claim("version", ClaimType.TEXT, lambda _, rim: rim.parsed.version),
        claim("sha256", ClaimType.BYTES, lambda _, rim: rim.parsed.document.sha256),
        claim("signer", ClaimType.TEXT, lambda _, rim: rim.signers[0].name),
        claim("revocation", ClaimType.TEXT, lambda v, _: revocation_of(getattr(v, f"{source}_statuses"))),
        claim("issued", ClaimType.TEXT, lambda _, rim: rfc3339_text(rim.not_before)),
        claim("expires", ClaimType.TEXT, lambda _, rim: rfc3339_text(rim.not_after)),
        claim("not_after", ClaimType.TEXT, lambda _, rim: rfc3339_text(rim.not_after)),
    )


# -- settings


def _nvml(name: str, kind: ClaimType, get: Callable[[GpuSettings], ClaimValue]) -> Claim:
    """Make a claim of the guest's statement about NVML; absent without a statement."""

    def found(v: VerifiedGpu) -> ClaimValue:
        settings = v.evidence.settings
        return None if settings is None else get(settings)

    return _claim(f"nvml.{name}", kind, Origin.GUEST, found, _NVML)


_SETTINGS: tuple[Claim, ...] = (
    _nvml("environment", ClaimType.TEXT, lambda s: s.environment),
    _nvml("cc_mode", ClaimType.BOOLEAN, lambda s: s.cc_mode),
    _nvml("dev_tools_mode", ClaimType.BOOLEAN, lambda s: s.dev_tools_mode),
    _nvml("multi_gpu_mode", ClaimType.TEXT, lambda s: s.multi_gpu_mode),
    _nvml("ready", ClaimType.BOOLEAN, lambda s: s.ready),
    _nvml("driver_version", ClaimType.TEXT, lambda s: s.driver_version),
)


# -- the registries


def _protected_pcie(v: VerifiedGpu) -> ClaimValue:
    status = _opaque(v).protected_pcie
    return None if status is None else _PROTECTED_PCIE.get(status)


def _locked(v: VerifiedGpu) -> ClaimValue:
    status = _opaque(v).lock_status
    return None if status is None else status == _LOCKED


_AS_NVIDIA = _claim("nvidia", ClaimType.OBJECT, Origin.HARDWARE, nvidia_claims, "NVIDIA nvtrust, device claims 3.0")
_VBIOS_VERSION = _text("vbios_version", lambda v: v.vbios_version, "NVIDIA nvtrust, VBIOS version")

GPU_CLAIMS: tuple[Claim, ...] = (
    *_DEVICE,
    _text("driver_version", lambda v: v.driver_version),
    _VBIOS_VERSION,
    _text("mode", lambda v: _opaque(v).mode),
    _claim("feature_flag", ClaimType.INTEGER, Origin.HARDWARE, lambda v: _opaque(v).feature_flag),
    _claim("protected_pcie", ClaimType.BOOLEAN, Origin.HARDWARE, _protected_pcie),
    _text("project", lambda v: _opaque(v).project),
    _text("project_sku", lambda v: _opaque(v).project_sku),
    _text("chip_sku", lambda v: _opaque(v).chip_sku),
    *_OPAQUE,
    *_COMPARISON,
    *_rim("driver_rim"),
    *_rim("vbios_rim"),
    *_SETTINGS,
    _AS_NVIDIA,
)
"""Every claim of a GPU, in the order in which people read them."""
gpu_claim = claim_finder(GPU_CLAIMS)

SWITCH_CLAIMS: tuple[Claim, ...] = (
    *_DEVICE,
    _VBIOS_VERSION,
    _claim(
        "lock_status",
        ClaimType.INTEGER,
        Origin.HARDWARE,
        lambda v: _opaque(v).lock_status,
        "NVIDIA nvtrust, NVSwitch reports",
    ),
    _claim("locked", ClaimType.BOOLEAN, Origin.HARDWARE, _locked, "NVIDIA nvtrust, NVSwitch reports"),
    *_OPAQUE,
    *_COMPARISON,
    *_rim("vbios_rim"),
    _AS_NVIDIA,
)
"""Every claim of an NVSwitch, in the order in which people read them."""
switch_claim = claim_finder(SWITCH_CLAIMS)
