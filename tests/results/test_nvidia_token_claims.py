"""Claims of NVIDIA's devices under our names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attest.errors import AttestError
from attest.results.jose import read_jwks
from attest.results.nras import verify_nras_token
from attest.results.nvidia_token_claims import nvidia_kind
from tests.results import tokens as nras
from tests.results.facts import nras_facts, require_registered


def chain(**more: object) -> dict[str, Any]:
    return {
        "x-nvidia-cert-status": "valid",
        "x-nvidia-cert-ocsp-status": "good",
        "x-nvidia-cert-expiration-date": "2026-06-01T02:08:29Z",
        "x-nvidia-cert-revocation-reason": None,
        **more,
    }


def test_devices_of_nras() -> None:
    revoked = {"x-nvidia-cert-ocsp-status": "revoked", "x-nvidia-cert-revocation-reason": "keyCompromise"}
    (found,) = nras_facts(
        ueid="478",
        oemid="5703",
        **{
            "x-nvidia-gpu-driver-version": "550.90.07",
            "x-nvidia-gpu-vbios-version": "96.00.9F.00.01",
            "x-nvidia-gpu-attestation-report-cert-chain-fwid-match": True,
            "x-nvidia-gpu-driver-rim-cert-chain": chain(),
            "x-nvidia-gpu-vbios-rim-cert-chain": chain(**revoked),
            "x-nvidia-attestation-warning": None,
        },
    )
    require_registered(found)
    assert (found.name, found.kind, found.frame.service) == ("GPU-0", "nvidia-gpu", "nras")
    own = found.claims["nvidia"]
    assert isinstance(own, Mapping)
    assert "iss" not in own
    assert "x-nvidia-attestation-warning" not in own
    assert {name: value for name, value in found.claims.items() if name != "nvidia"} == {
        "architecture": "hopper",
        "hwmodel": "GH100 A01 GSP BROM",
        "ueid": "478",
        "fwid_matched": True,
        "nonce": nras.NONCE,
        "driver_version": "550.90.07",
        "vbios_version": "96.00.9F.00.01",
        "measurements.mismatches": (),
        "vbios_rim.revocation": "keyCompromise",
        "vbios_rim.expires": "2026-06-01T02:08:29Z",
        "vbios_rim.not_after": "2026-06-01T02:08:29Z",
        "driver_rim.revocation": "good",
        "driver_rim.expires": "2026-06-01T02:08:29Z",
        "driver_rim.not_after": "2026-06-01T02:08:29Z",
    }
    assert found.statements == {"overall_result": True}
    assert (found.nonces, found.frame.issuer) == ((nras.NONCE,), nras.ISSUER)


def test_a_revocation_without_reason_is_one() -> None:
    revoked = chain(**{"x-nvidia-cert-ocsp-status": "revoked"})
    (found,) = nras_facts(**{"x-nvidia-gpu-driver-rim-cert-chain": revoked})
    assert found.claims["driver_rim.revocation"] == "unspecified"


def test_measurements_that_differ_are_told_one_by_one() -> None:
    record = {"index": 9, "goldenSize": 2, "goldenValue": "059b", "runtimeSize": 2, "runtimeValue": "7f3e"}
    (found,) = nras_facts(measres="fail", **{"x-nvidia-mismatch-measurement-records": [record, {"index": 3}]})
    require_registered(found)
    assert found.claims["measurements.mismatches"] == (
        {"index": 9, "expected": (b"\x05\x9b",), "got": b"\x7f\x3e"},
        {"index": 3},
    )
    (unknown,) = nras_facts(measres="fail")
    assert "measurements.mismatches" not in unknown.claims


def test_switches_have_their_own_names() -> None:
    (found,) = nras_facts(hwmodel="LS10 A01", **{"x-nvidia-switch-bios-version": "96.10.5B", "measres": "fail"})
    require_registered(found)
    assert found.kind == "nvidia-switch"
    assert (found.claims["architecture"], found.claims["vbios_version"]) == ("ls10", "96.10.5B")
    assert "driver_version" not in found.claims
    assert nvidia_kind({"x-nvidia-device-type": "nvswitch"}, "GPU-0") == "nvidia-switch"
    assert nvidia_kind({"x-nvidia-device-type": "gpu"}, "SWITCH-0") == "nvidia-gpu"
    assert nvidia_kind({}, "SWITCH-0") == "nvidia-switch"
    assert nvidia_kind({}, "GPU-0") == "nvidia-gpu"


@pytest.mark.parametrize(
    "device",
    [
        {"hwmodel": 5},
        {"x-nvidia-gpu-driver-version": ["550"]},
        {"x-nvidia-mismatch-measurement-records": [5]},
        {"x-nvidia-mismatch-measurement-records": [{}]},
        {"x-nvidia-mismatch-measurement-records": [{"index": 1, "goldenValue": "0"}]},
        {"x-nvidia-gpu-driver-rim-cert-chain": []},
        {"x-nvidia-gpu-driver-rim-cert-chain": chain(**{"x-nvidia-cert-expiration-date": "soon"})},
        {"something": 0.5},
    ],
)
def test_claims_of_nras_that_are_not_what_nvidia_documents_are_refused(device: dict[str, Any]) -> None:
    with pytest.raises(AttestError) as outcome:
        nras_facts(**device)
    assert outcome.value.code == "token-claim-invalid"
    assert outcome.value.checks[-1].id == "token.format"


def test_the_recorded_token_of_nras_has_our_names(vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia"
    case = next(c for c in json.loads((folder / "MANIFEST.json").read_text())["cases"] if c["id"] == "nras-token")
    from attest.encoding import rfc3339

    token, keys = ((folder / case["files"][name]).read_bytes() for name in ("token", "jwks"))
    at = rfc3339(case["at"], what="at")
    found = verify_nras_token(token, trusted={nras.ISSUER: read_jwks(keys)}, at=at).facts
    assert found
    for facts in found:
        require_registered(facts)
        assert (facts.claims["driver_version"], facts.claims["architecture"]) == ("550.90.07", "hopper")
        assert facts.claims["measurements.mismatches"] == ()
        assert facts.claims["driver_rim.revocation"] == "good"
