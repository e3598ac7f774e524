"""The same facts under NVIDIA's names, so that policies for its SDKs can be carried over."""

from dataclasses import replace

from attest.checks import Unchecked
from attest.endorsements.ocsp_answers import OcspAnswer, OcspStatus
from attest.evidence.claims import ClaimTree
from attest.evidence.gpu.measurements import compare
from attest.evidence.gpu.nvidia_claims import nvidia_claims, revocation_of
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.tolerances import GpuTolerances
from attest_simulator.nvidia import Reason, SimulatedBoard, SimulatedGpu, SimulatedOcsp
from tests.policy.gpu_documents import AT, NONCE, SWITCH, verified, without_rims

GOOD = {
    "x-nvidia-cert-status": "valid",
    "x-nvidia-cert-ocsp-status": "good",
    "x-nvidia-cert-ocsp-response-valid": True,
}
RIM_STEPS = ("fetched", "schema-validated", "signature-verified", "version-match", "measurements-available")
TRUE_OF_A_GPU = {
    "x-nvidia-gpu-arch-check",
    "x-nvidia-gpu-attestation-report-parsed",
    "x-nvidia-gpu-attestation-report-signature-verified",
    "x-nvidia-gpu-attestation-report-cert-chain-fwid-match",
    "x-nvidia-gpu-vbios-index-no-conflict",
    *(f"x-nvidia-gpu-driver-rim-{step}" for step in RIM_STEPS),
    *(f"x-nvidia-gpu-vbios-rim-{step}" for step in RIM_STEPS),
}


def chain(device: VerifiedGpu, name: str) -> dict[str, ClaimTree]:
    """One chain's object without its end."""
    found = nvidia_claims(device)[name]
    assert isinstance(found, dict)
    return {key: value for key, value in found.items() if key != "x-nvidia-cert-expiration-date"}


def test_a_gpu_in_nvidias_words() -> None:
    found = nvidia_claims(verified())
    assert {name for name in TRUE_OF_A_GPU if found.pop(name) is True} == TRUE_OF_A_GPU
    for name in ("attestation-report", "driver-rim", "vbios-rim"):
        assert chain(verified(), f"x-nvidia-gpu-{name}-cert-chain") == GOOD
        found.pop(f"x-nvidia-gpu-{name}-cert-chain")
    assert found.pop("ueid") == str(verified().chain.leaf.certificate.serial)
    assert found == {
        "hwmodel": "GH100 A01 GSP BROM",
        "oemid": "5703",
        "eat_nonce": NONCE.hex(),
        "x-nvidia-device-type": "gpu",
        "x-nvidia-gpu-claims-version": "3.0",
        "x-nvidia-gpu-driver-version": "580.95.05",
        "x-nvidia-gpu-vbios-version": "96.00.9F.00.01",
        "measres": "success",
        "secboot": True,
        "dbgstat": "disabled",
    }


def test_a_switch_in_nvidias_words() -> None:
    found = nvidia_claims(verified(SWITCH))
    assert found["x-nvidia-device-type"] == "nvswitch"
    assert found["x-nvidia-switch-bios-version"] == "96.10.73.00.01"
    assert found["x-nvidia-switch-pdi"] == SWITCH.pdi.hex()
    assert found["measres"] == "success"
    assert all(found[f"x-nvidia-switch-bios-rim-{step}"] is True for step in RIM_STEPS)
    assert chain(verified(SWITCH), "x-nvidia-switch-bios-rim-cert-chain") == GOOD
    assert not [name for name in found if "gpu" in name and name != "x-nvidia-switch-gpu-pdis"]
    assert "x-nvidia-switch-bios-version" not in nvidia_claims(replace(verified(SWITCH), vbios_version=None))


def test_devices_name_those_at_the_other_end_of_their_links_once() -> None:
    board = SimulatedBoard.of("b")
    gpu, switch = nvidia_claims(verified(board.gpus[0])), nvidia_claims(verified(board.switches[0]))
    for named, others in (
        (gpu["x-nvidia-gpu-switch-pdis"], board.switches),
        (switch["x-nvidia-switch-gpu-pdis"], board.gpus),
    ):
        assert isinstance(named, tuple)
        assert sorted(map(str, named)) == sorted(other.pdi.hex() for other in others)


def test_a_switch_that_names_nobody_has_no_such_claims() -> None:
    device = verified(SWITCH)
    report = device.evidence.report
    entries = tuple(entry for entry in report.opaque.entries if entry.type not in {22, 26})
    opaque = replace(report.opaque, entries=entries)
    silent = replace(device, evidence=replace(device.evidence, report=replace(report, opaque=opaque)))
    assert not {"x-nvidia-switch-pdi", "x-nvidia-switch-gpu-pdis"} & set(nvidia_claims(silent))


def test_secure_boot_and_debugging_are_told_only_with_equal_measurements() -> None:
    """They follow `measres`, as NVIDIA's do, and say nothing of their own."""
    found = nvidia_claims(without_rims())
    assert found["measres"] == "not-run"
    assert not {"secboot", "dbgstat"} & set(found)
    assert found["x-nvidia-gpu-driver-rim-fetched"] is False
    assert "x-nvidia-gpu-driver-rim-signature-verified" not in found
    assert "x-nvidia-gpu-vbios-index-no-conflict" not in found
    assert nvidia_claims(without_rims(SWITCH))["measres"] == "not-run"


def test_half_of_the_rims_is_no_success() -> None:
    device = verified()
    assert device.vbios_rim is not None
    measurements = device.evidence.report.measurements
    half = compare(measurements, driver=None, vbios=device.vbios_rim.parsed, nvdec0=None)
    found = nvidia_claims(replace(device, driver_rim=None, measurements=half))
    assert found["measres"] == "not-run"
    assert found["x-nvidia-gpu-vbios-rim-fetched"] is True


def test_a_mismatch_in_nvidias_words() -> None:
    """No verified device has one; a switch here is given another report's measurements."""
    device = verified(SWITCH)
    assert device.vbios_rim is not None
    bios = device.vbios_rim.parsed
    measurements = (b"\x01" * 48, *device.evidence.report.measurements[1:30])
    found = nvidia_claims(replace(device, measurements=compare(measurements, driver=None, vbios=bios, nvdec0=None)))
    assert found["measres"] == "fail"
    assert not {"secboot", "dbgstat"} & set(found)
    first = {
        "index": 0,
        "goldenSize": 48,
        "goldenValue": bios.reference_values[0][0].hex(),
        "runtimeSize": 48,
        "runtimeValue": "01" * 48,
        "measurementSource": "Firmware",
    }
    missing = {
        "index": 30,
        "goldenSize": 48,
        "goldenValue": bios.reference_values[30][0].hex(),
        "measurementSource": "Firmware",
    }
    assert found["x-nvidia-mismatch-measurement-records"] == (first, missing)


def test_a_signer_on_hold_is_revoked_in_nvidias_words() -> None:
    device = SimulatedGpu.of("held")
    honest = verified(device)
    assert honest.vbios_rim is not None
    held = SimulatedOcsp.of(AT, revoked={honest.vbios_rim.signers[0].serial: Reason.HOLD})
    tolerant = GpuTolerances(held_rim_signers="an old VBIOS")
    judged = verified(device, endorsements=device.endorsements(at=AT, ocsp=held), tolerances=tolerant)
    assert chain(judged, "x-nvidia-gpu-vbios-rim-cert-chain") == {
        "x-nvidia-cert-status": "revoked",
        "x-nvidia-cert-ocsp-status": "revoked",
        "x-nvidia-cert-ocsp-response-valid": True,
        "x-nvidia-cert-revocation-reason": "certificateHold",
    }


def test_revocation_that_was_not_judged_is_unknown() -> None:
    device = SimulatedGpu.of("offline")
    pool = replace(device.endorsements(at=AT), ocsp=())
    judged = verified(device, endorsements=pool, unchecked=(Unchecked(check="revocation", reason="offline"),))
    for name in ("attestation-report", "driver-rim", "vbios-rim"):
        unknown = {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": "unknown"}
        assert chain(judged, f"x-nvidia-gpu-{name}-cert-chain") == unknown


def test_a_negative_answer_without_a_reason_is_still_negative() -> None:
    answer = next(status for status in verified().device_statuses if isinstance(status, OcspAnswer))
    assert revocation_of(()) is None
    assert revocation_of((answer,)) == "good"
    revoked = replace(answer, status=OcspStatus.REVOKED, revocation_reason=None)
    assert revocation_of((answer, revoked)) == "unspecified"


def test_what_a_device_cannot_say_of_itself_is_left_out() -> None:
    found = nvidia_claims(verified())
    assert not {"iss", "x-nvidia-gpu-attestation-report-nonce-match", "x-nvidia-attestation-warning"} & set(found)
    nameless = verified()
    device = replace(nameless.chain.device, common_name=None)
    nameless = replace(nameless, chain=replace(nameless.chain, device=device), driver_version=None, fwid_matched=None)
    found = nvidia_claims(nameless)
    assert not {"hwmodel", "x-nvidia-gpu-driver-version"} & set(found)
    assert "x-nvidia-gpu-attestation-report-cert-chain-fwid-match" not in found
