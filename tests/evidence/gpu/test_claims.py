"""Claims of GPUs and NVSwitches: what a device, its certificates and its RIMs say, and nothing for what none says."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.rims import RimDocument
from attest.evidence.claims import Claim, ClaimType, Origin, claims_document
from attest.evidence.gpu.claims import GPU_CLAIMS, SWITCH_CLAIMS, gpu_claim, switch_claim
from attest.evidence.gpu.device_set import DEVICE_SET_CLAIMS
from attest.evidence.gpu.evidence import device_json, parse_nvidia_device
from attest.evidence.gpu.measurements import compare
from attest.evidence.gpu.opaque import OpaqueData, OpaqueEntry
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.evidence.tolerances import GpuTolerances, WaivedMeasurement
from attest_simulator.nvidia import Reason, SimulatedBoard, SimulatedGpu, SimulatedOcsp
from tests.policy.gpu_documents import (
    AT,
    BLACKWELL,
    HOPPER,
    NONCE,
    SWITCH,
    set_of,
    verified,
    without_rims,
    without_settings,
)

PROMISED = {
    "architecture",
    "vbios_version",
    "nonce",
    "device_identity",
    "measurements",
    "vbios_rim",
}
_UNKNOWN = 77


def claims(device: VerifiedGpu) -> dict[str, Any]:
    """The claims of a device as programs read them."""
    registry = SWITCH_CLAIMS if device.kind == "nvidia-switch" else GPU_CLAIMS
    document: dict[str, Any] = json.loads(json.dumps(claims_document(registry, device)))
    return document


def with_opaque(device: VerifiedGpu, *, leave: frozenset[int] = frozenset(), **more: bytes) -> VerifiedGpu:
    """The same device with other entries in its opaque data: some left out, some added as ``type_N``."""
    report = device.evidence.report
    kept = tuple(entry for entry in report.opaque.entries if entry.type not in leave)
    added = tuple(OpaqueEntry(type=int(name.removeprefix("type_")), value=value) for name, value in more.items())
    entries = (*kept, *added)
    opaque = OpaqueData(raw=b"".join(entry.to_bytes() for entry in entries), entries=entries)
    return replace(device, evidence=replace(device.evidence, report=replace(report, opaque=opaque)))


def nulls(value: object) -> bool:
    """Whether null stands anywhere."""
    if isinstance(value, dict):
        return any(map(nulls, value.values()))
    return any(map(nulls, value)) if isinstance(value, list) else value is None


@pytest.mark.parametrize("device", [HOPPER, BLACKWELL, SWITCH], ids=["hopper", "blackwell", "switch"])
def test_every_promised_claim_is_there_and_none_is_null(device: Any) -> None:  # noqa: ANN401  any device
    found = claims(verified(device))
    assert set(found) >= PROMISED
    assert not nulls(found)


def test_what_a_gpu_says() -> None:
    found = claims(verified())
    for name in ("nvidia", "fwid", "ueid", "device_identity", "hwmodel"):
        assert found.pop(name)
    rims = {name: found.pop(name) for name in ("driver_rim", "vbios_rim")}
    assert found == {
        "architecture": "hopper",
        "product": "GH100",
        "fwid_matched": True,
        "nonce": NONCE.hex(),
        "driver_version": "580.95.05",
        "vbios_version": "96.00.9F.00.01",
        "mode": "spt",
        "feature_flag": 0,
        "protected_pcie": False,
        "project": "1010",
        "project_sku": "0200",
        "chip_sku": "882",
        "opaque_version": 1,
        "unknown_opaque_types": [],
        "measurements": {"compared": 33, "matched": 33, "mismatches": [], "waived": []},
        "nvml": {
            "environment": "production",
            "cc_mode": True,
            "dev_tools_mode": False,
            "multi_gpu_mode": "none",
            "ready": True,
            "driver_version": "580.95.05",
        },
    }
    assert rims["driver_rim"]["id"] == "NV_GPU_DRIVER_GH100_580.95.05"
    assert rims["vbios_rim"]["id"] == "NV_GPU_VBIOS_1010_0200_882_96009F0001"
    for rim in rims.values():
        assert set(rim) == {"id", "version", "sha256", "signer", "revocation", "issued", "expires", "not_after"}
        assert rim["issued"] < "2026-06-01" < rim["expires"] == rim["not_after"]


def test_a_device_is_named_by_the_type_byte_and_pdi_of_its_own_certificate() -> None:
    gpu, switch = verified(), verified(SWITCH)
    assert claims(gpu)["device_identity"] == gpu.chain.identity.text == "41" + HOPPER.pdi.hex()
    assert claims(switch)["device_identity"] == "50" + SWITCH.pdi.hex()


def test_a_switch_has_no_driver_and_no_settings() -> None:
    found = claims(verified(SWITCH))
    assert not {"driver_version", "driver_rim", "nvml", "mode", "fwid_matched"} & set(found)
    assert found["architecture"] == "ls10"
    assert (found["lock_status"], found["locked"]) == (1, True)
    assert found["vbios_rim"]["id"] == "NV_SWITCH_BIOS_5612_0002_890_9610730001"
    assert found["measurements"]["compared"] == 31


def test_a_switch_that_does_not_say_whether_it_is_locked() -> None:
    found = claims(with_opaque(verified(SWITCH), leave=frozenset({25})))
    assert not {"lock_status", "locked"} & set(found)
    assert claims(with_opaque(verified(SWITCH), leave=frozenset({25}), type_25=b"\0\0"))["locked"] is False


def test_without_rims_there_are_no_claims_about_measurements() -> None:
    for device in (HOPPER, SWITCH):
        assert not {"measurements", "driver_rim", "vbios_rim"} & set(claims(without_rims(device)))


def test_without_settings_there_are_no_claims_about_modes_of_the_machine() -> None:
    assert "nvml" not in claims(without_settings(verified()))


def test_what_an_old_driver_does_not_say_is_absent() -> None:
    found = claims(verified(SimulatedGpu.of("old", driver="535.86.09")))
    assert not {"mode", "feature_flag", "protected_pcie", "fwid_matched"} & set(found)
    assert found["opaque_version"] == 0


def test_the_mode_is_told_by_name() -> None:
    board = SimulatedBoard.of("b", gpus=1, switches=1)
    found = claims(verified(board.gpus[0]))
    assert (found["mode"], found["feature_flag"], found["protected_pcie"]) == ("protected-pcie", 2, True)
    assert claims(verified(SimulatedGpu.of("m", mode="mpt")))["mode"] == "mpt"


def test_a_driver_before_580_states_protected_pcie_alone() -> None:
    for mode, expected in (("ppcie", "protected-pcie"), ("spt", "unprotected"), ("mpt", "unprotected")):
        found = claims(verified(SimulatedGpu.of(mode, driver="570.172.08", mode=mode)))  # type: ignore[arg-type]
        assert (found["mode"], found["opaque_version"]) == (expected, 0)
        assert "feature_flag" not in found


def test_entries_of_unknown_types_are_listed() -> None:
    assert claims(with_opaque(verified(), type_77=b"?"))["unknown_opaque_types"] == [_UNKNOWN]


def test_the_rim_of_a_blackwell_driver_is_named_after_its_chip() -> None:
    assert claims(verified(BLACKWELL))["driver_rim"]["id"] == "NV_GPU_CC_DRIVER_GB100_580.95.05"
    other = with_opaque(verified(BLACKWELL), type_35=b"GB202\0")
    assert claims(other)["driver_rim"]["id"] == "NV_GPU_CC_DRIVER_GB202_580.95.05"


@pytest.mark.parametrize("entry", [15, 17, 18])
def test_a_rim_whose_id_cannot_be_made_has_none(entry: int) -> None:
    device = verified()
    unnamed = with_opaque(device, leave=frozenset({entry}))
    odd = with_opaque(device, leave=frozenset({entry}), **{f"type_{entry}": b"a/b\0"})
    for changed in (unnamed, odd):
        assert "id" not in claims(changed)["vbios_rim"]
        assert claims(changed)["vbios_rim"]["version"] == "96.00.9F.00.01"
    assert "id" not in claims(with_opaque(device, leave=frozenset({6})))["vbios_rim"]


def test_a_waived_measurement_is_listed_with_its_reason_and_does_not_count_as_matched() -> None:
    device = SimulatedGpu.of("changed", changed={7: b"\x77" * 48})
    waiver = WaivedMeasurement(index=7, reason="developer tools")
    found = claims(verified(device, tolerances=GpuTolerances(waived_measurements=(waiver,))))["measurements"]
    (waived,) = found.pop("waived")
    assert found == {"compared": 33, "matched": 32, "mismatches": []}
    assert len(waived.pop("expected")[0]) == 96
    assert waived == {
        "index": 7,
        "name": "Measurement_7",
        "source": "driver",
        "rim": "NV_GPU_DRIVER_GH100_580.95.05",
        "got": "77" * 48,
        "reason": "developer tools",
    }


def test_a_mismatch_is_told_with_what_was_expected_and_what_is_there() -> None:
    """No verified device has one; whoever shows a refusal writes it in the same words."""
    device = verified()
    assert device.driver_rim is not None
    assert device.vbios_rim is not None
    driver, vbios = device.driver_rim.parsed, device.vbios_rim.parsed
    measurements = (b"\x01" * 48, *device.evidence.report.measurements[1:36])
    differing = replace(device, measurements=compare(measurements, driver=driver, vbios=vbios, nvdec0=None))
    first, last = (claims(differing)["measurements"]["mismatches"][i] for i in (0, -1))
    assert (first["index"], first["source"], "got" in first) == (36, "driver", False)
    assert (last["index"], last["source"], last["got"]) == (0, "vbios", "01" * 48)
    assert last["rim"] == "NV_GPU_VBIOS_1010_0200_882_96009F0001"
    unnamed = with_opaque(differing, leave=frozenset({3, 6}))
    assert "rim" not in claims(unnamed)["measurements"]["mismatches"][0]


def test_a_signer_on_hold_shows() -> None:
    device = SimulatedGpu.of("held")
    honest = verified(device)
    assert honest.driver_rim is not None
    held = SimulatedOcsp.of(AT, revoked={honest.driver_rim.signers[0].serial: Reason.HOLD})
    tolerant = GpuTolerances(held_rim_signers="an old driver")
    found = claims(verified(device, endorsements=device.endorsements(at=AT, ocsp=held), tolerances=tolerant))
    assert found["driver_rim"]["revocation"] == "certificateHold"


def test_revocation_that_was_not_judged_is_not_told() -> None:
    device = SimulatedGpu.of("offline")
    pool = replace(device.endorsements(at=AT), ocsp=())
    unchecked = (Unchecked(check="revocation", reason="offline"),)
    assert "revocation" not in claims(verified(device, endorsements=pool, unchecked=unchecked))["vbios_rim"]


def test_names_are_unique_and_values_have_the_type_they_claim() -> None:
    types = {
        ClaimType.BOOLEAN: bool,
        ClaimType.INTEGER: int,
        ClaimType.TEXT: str,
        ClaimType.BYTES: bytes,
        ClaimType.LIST: tuple,
        ClaimType.OBJECT: dict,
    }
    board = set_of([verified(), verified(SWITCH)])
    registries: list[tuple[tuple[Claim, ...], object]] = [
        (GPU_CLAIMS, verified()),
        (SWITCH_CLAIMS, verified(SWITCH)),
        (DEVICE_SET_CLAIMS, board),
    ]
    for registry, subject in registries:
        assert len({claim.name for claim in registry}) == len(registry)
        for claim in registry:
            value = claim.get(subject)
            assert value is None or type(value) is types[claim.type], claim.name
            assert claim.clause


def test_what_the_guest_says_of_its_machine_is_marked_as_such() -> None:
    """must-check 40."""
    assert gpu_claim("nvml.dev_tools_mode").origin is Origin.GUEST
    assert gpu_claim("nonce").origin is Origin.GUEST
    assert gpu_claim("device_identity").origin is Origin.CERTIFICATE
    assert switch_claim("locked").origin is Origin.HARDWARE


def test_of_no_device_there_is_nothing_to_bind() -> None:
    assert claims_document(DEVICE_SET_CLAIMS, set_of([], cpu_kind=None, bound=False)) == {
        "gpus": 0,
        "switches": 0,
        "architectures": [],
        "driver_versions": [],
        "bound": True,
    }


def test_recorded_evidence_states_what_its_manifest_knows(vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia" / "gh100-545.00"
    manifest = json.loads((vectors_dir / "nvidia" / "MANIFEST.json").read_text())
    (case,) = [case for case in manifest["cases"] if case["id"] == "hopper-545-complete-pass"]
    report = bytes.fromhex((folder / "report.hex").read_text())
    device = verify_gpu_evidence(
        parse_nvidia_device(device_json(report, (folder / "chain.pem").read_bytes(), "HOPPER")),
        endorsements=Endorsements(
            rims=tuple(RimDocument(xml=(folder / f"{name}-rim.xml").read_bytes()) for name in ("driver", "vbios"))
        ),
        anchors=TrustAnchors.vendors(),
        at=datetime.fromisoformat(case["at"]),
        unchecked=(Unchecked(check="revocation", reason="no answer was recorded"),),
    )
    found = claims(device)
    assert found["nonce"] == case["expected_nonce"]
    assert found["architecture"] == "hopper"
    assert found["driver_version"] == found["driver_rim"]["version"]
    assert found["vbios_version"] == found["vbios_rim"]["version"]
    assert found["measurements"]["compared"] == found["measurements"]["matched"] == case["expected"]["golden"]
    assert not {"nvml", "mode", "fwid_matched"} & set(found)
    assert found["nvidia"]["measres"] == "success"
    assert found["nvidia"]["x-nvidia-gpu-driver-rim-cert-chain"]["x-nvidia-cert-ocsp-status"] == "unknown"
