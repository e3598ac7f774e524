"""The facts of a verified device under NVIDIA's names, claims version 3.0 (specs/nvidia-gpu.md, section 17.2).

So that a policy written for NVIDIA's SDKs can be carried over. A member that says nothing here is left out, where
NVIDIA writes null: a reason of revocation, a warning. Left out, too, is what no device can say of itself (``iss``), and
whether the nonce is the expected one (``…-nonce-match``), which the check ``freshness`` reports.

NOTE: ``secboot`` and ``dbgstat`` carry no information. NVIDIA's verifiers derive both from ``measres``, and so does
this module: that measurements equal their reference values. No report says that boot was secure or debugging disabled.
"""

from __future__ import annotations

from datetime import datetime

from attest.encoding import rfc3339_text
from attest.endorsements.ocsp_answers import OcspAnswer, OcspStatus
from attest.evidence.claims import ClaimTree
from attest.evidence.gpu.measurements import MeasurementResult, conflicts
from attest.evidence.gpu.references import Status
from attest.evidence.gpu.rim import VerifiedRim
from attest.evidence.gpu.verify import VerifiedGpu

CLAIMS_VERSION = "3.0"
_OEM_ID = "5703"
"""NVIDIA's enterprise number, the manufacturer in every RIM."""
_SOURCES = {"driver": "Driver", "vbios": "Firmware"}

_Claims = dict[str, ClaimTree]


def nvidia_claims(verified: VerifiedGpu) -> dict[str, ClaimTree]:
    """Return the claims of a device as NVIDIA's verifiers name them; texts, booleans, integers, lists and mappings."""
    is_switch = verified.kind == "nvidia-switch"
    return {
        **_common(verified),
        **(_switch(verified) if is_switch else _gpu(verified)),
        **_results(verified),
    }


def _common(v: VerifiedGpu) -> _Claims:
    device = {} if v.chain.device.common_name is None else {"hwmodel": v.chain.device.common_name}
    return {
        **device,
        "ueid": str(v.chain.leaf.certificate.serial),
        "oemid": _OEM_ID,
        "eat_nonce": v.nonce.hex(),
        "x-nvidia-device-type": "nvswitch" if v.kind == "nvidia-switch" else "gpu",
    }


def _results(v: VerifiedGpu) -> _Claims:
    """Return whether all measurements are those that NVIDIA published, with every RIM available."""
    rims = (v.vbios_rim,) if v.kind == "nvidia-switch" else (v.driver_rim, v.vbios_rim)
    if v.measurements is None or None in rims:
        return {"measres": "not-run"}
    mismatches = v.measurements.mismatches
    if not mismatches:
        return {"measres": "success", "secboot": True, "dbgstat": "disabled"}
    return {"measres": "fail", "x-nvidia-mismatch-measurement-records": tuple(map(_record, mismatches))}


def _record(found: MeasurementResult) -> _Claims:
    """Describe a mismatch; sizes in bytes, the first alternative as the expected value."""
    runtime: _Claims = {} if found.got is None else {"runtimeSize": len(found.got), "runtimeValue": found.got.hex()}
    return {
        "index": found.index,
        "goldenSize": len(found.expected[0]),
        "goldenValue": found.expected[0].hex(),
        **runtime,
        "measurementSource": _SOURCES[found.source],
    }


def _gpu(v: VerifiedGpu) -> _Claims:
    prefix = "x-nvidia-gpu-"
    versions = {"driver-version": v.driver_version, "vbios-version": v.vbios_version}
    pdis = v.evidence.report.opaque.switch_pdis
    found: _Claims = {
        prefix + "claims-version": CLAIMS_VERSION,
        **{prefix + name: version for name, version in versions.items() if version is not None},
        **_report(v, prefix),
        **_rim(prefix + "driver-rim", v.driver_rim, v.driver_statuses),
        **_rim(prefix + "vbios-rim", v.vbios_rim, v.vbios_statuses),
    }
    if v.driver_rim is not None and v.vbios_rim is not None:
        found[prefix + "vbios-index-no-conflict"] = not conflicts(v.driver_rim.parsed, v.vbios_rim.parsed)
    if pdis is not None:
        found[prefix + "switch-pdis"] = _connected(pdis)
    return found


def _switch(v: VerifiedGpu) -> _Claims:
    prefix, opaque = "x-nvidia-switch-", v.evidence.report.opaque
    found: _Claims = {
        **({} if v.vbios_version is None else {prefix + "bios-version": v.vbios_version}),
        **_report(v, prefix),
        **_rim(prefix + "bios-rim", v.vbios_rim, v.vbios_statuses),
    }
    if opaque.own_pdi is not None:
        found[prefix + "pdi"] = opaque.own_pdi.hex()
    if opaque.gpu_pdis is not None:
        found[prefix + "gpu-pdis"] = _connected(opaque.gpu_pdis)
    return found


def _connected(pdis: tuple[bytes, ...]) -> tuple[str, ...]:
    """Name each device at the other end once; zero is a link that is off."""
    return tuple(dict.fromkeys(pdi.hex() for pdi in pdis if any(pdi)))


def _report(v: VerifiedGpu, prefix: str) -> _Claims:
    """Return the facts that verification established; no device is verified without them."""
    report, chain = prefix + "attestation-report", v.chain
    certificates = (chain.leaf.certificate, chain.device, *chain.issuers)
    matched: _Claims = {} if v.fwid_matched is None else {f"{report}-cert-chain-fwid-match": v.fwid_matched}
    return {
        prefix + "arch-check": True,
        f"{report}-parsed": True,
        f"{report}-signature-verified": True,
        f"{report}-cert-chain": _chain(min(c.not_after for c in certificates), v.device_statuses),
        **matched,
    }


def _rim(prefix: str, rim: VerifiedRim | None, statuses: tuple[Status, ...]) -> _Claims:
    """Return the facts about a RIM; about a missing one, only that it is missing."""
    if rim is None:
        return {f"{prefix}-fetched": False}
    steps = ("fetched", "schema-validated", "signature-verified", "version-match", "measurements-available")
    return {
        **{f"{prefix}-{step}": True for step in steps},
        f"{prefix}-cert-chain": _chain(rim.not_after, statuses),
    }


def revocation_of(statuses: tuple[Status, ...]) -> str | None:
    """Return the result of the answers about a chain: ``good``, or why a tolerated one is on hold; None without any."""
    negative = (s for s in statuses if isinstance(s, OcspAnswer) and s.status is not OcspStatus.GOOD)
    reasons = [answer.revocation_reason or "unspecified" for answer in negative]
    return (*reasons, "good")[0] if statuses else None


def _chain(not_after: datetime, statuses: tuple[Status, ...]) -> _Claims:
    """Describe a chain: valid, or it would not be here; its revocation only as far as it was judged."""
    described: _Claims = {
        "x-nvidia-cert-expiration-date": rfc3339_text(not_after),
        "x-nvidia-cert-status": "valid",
        "x-nvidia-cert-ocsp-status": "unknown",
    }
    revocation = revocation_of(statuses)
    if revocation is None:
        return described
    answered: _Claims = {"x-nvidia-cert-ocsp-response-valid": True}
    if revocation == "good":
        return {**described, **answered, "x-nvidia-cert-ocsp-status": "good"}
    return {
        **described,
        **answered,
        "x-nvidia-cert-status": "revoked",
        "x-nvidia-cert-ocsp-status": "revoked",
        "x-nvidia-cert-revocation-reason": revocation,
    }
