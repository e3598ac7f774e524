"""Policies of NVIDIA's Python tools that tests start from: the claims that the tools list, in our own arrangement."""

import copy
import json
from typing import Any

Json = dict[str, Any]  # Any: JSON
CHAIN = {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": "good"}
STEPS = ("fetched", "schema-validated", "signature-verified", "measurements-available", "version-match")


def gpu_claims(*, version: str = "3.0") -> Json:
    """Everything that can be asked of a GPU and carried over."""
    report = "x-nvidia-gpu-attestation-report"
    claims: Json = {
        "measres": "success",
        "secboot": True,
        "dbgstat": "disabled",
        "x-nvidia-gpu-arch-check": True,
        f"{report}-parsed": True,
        f"{report}-nonce-match": True,
        f"{report}-signature-verified": True,
        f"{report}-cert-chain-fwid-match": True,
        "x-nvidia-gpu-vbios-index-no-conflict": True,
        **{f"x-nvidia-gpu-{rim}-rim-{step}": True for rim in ("driver", "vbios") for step in STEPS},
    }
    if version == "2.0":
        flat = (
            f"{report}-cert-chain-validated",
            *(f"x-nvidia-gpu-{rim}-rim-cert-validated" for rim in ("driver", "vbios")),
        )
        return {**claims, **dict.fromkeys(flat, True)}
    chains = (f"{report}-cert-chain", *(f"x-nvidia-gpu-{rim}-rim-cert-chain" for rim in ("driver", "vbios")))
    return {**claims, **{chain: dict(CHAIN) for chain in chains}}


def switch_claims() -> Json:
    """Everything that can be asked of an NVSwitch and carried over."""
    prefix = "x-nvidia-switch-"
    return {
        "measres": "success",
        f"{prefix}arch-check": True,
        f"{prefix}attestation-report-parsed": True,
        f"{prefix}attestation-report-signature-verified": True,
        f"{prefix}attestation-report-cert-chain": dict(CHAIN),
        f"{prefix}bios-rim-cert-chain": dict(CHAIN),
        **{f"{prefix}bios-rim-{step}": True for step in STEPS},
    }


def nvidia(detached: Json | None = None, overall: Json | None = None, *, version: str = "4.0") -> bytes:
    """A policy with these claims."""
    return json.dumps(
        {
            "version": version,
            "authorization-rules": {
                "type": "JWT",
                "overall-claims": {"x-nvidia-overall-att-result": True} if overall is None else overall,
                "detached-claims": copy.deepcopy(gpu_claims() if detached is None else detached),
            },
        }
    ).encode()
