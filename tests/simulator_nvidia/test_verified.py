"""What the simulator makes is genuine under its own roots, refused under the vendors', and wrong where made wrong."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.errors import AttestError
from attest.evidence.gpu.evidence import ParsedGpuEvidence, parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest_simulator.nvidia import (
    Mode,
    Reason,
    SimulatedBoard,
    SimulatedDevice,
    SimulatedGpu,
    SimulatedNvSwitch,
    SimulatedOcsp,
)
from attest_simulator.nvidia.keys import p384_key
from attest_simulator.nvidia.rims import rim_signer_template, signed_in

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
NONCE = bytes(range(32))
SIMULATION, VENDORS = TrustAnchors.simulation(), TrustAnchors.vendors()
BOARD = SimulatedBoard.of()
DEVICES: dict[str, SimulatedDevice] = {
    "hopper": SimulatedGpu.of(),
    "hopper 535": SimulatedGpu.of(driver="535.86.09"),
    "hopper 580": SimulatedGpu.of(driver="580.95.05", vbios="96.00.a5.00.01"),
    "multiple": SimulatedGpu.of(mode="mpt"),
    "blackwell": SimulatedGpu.of(architecture="blackwell"),
    "ls10": SimulatedNvSwitch.of(),
    "board gpu": BOARD.gpus[7],
    "board switch": BOARD.switches[3],
}


def verify(
    parsed: ParsedGpuEvidence, endorsements: Endorsements, *, at: datetime = AT, anchors: TrustAnchors = SIMULATION
) -> VerifiedGpu:
    return verify_gpu_evidence(parsed, endorsements=endorsements, anchors=anchors, at=at)


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(AttestError) as refusal:
        act()
    return refusal.value.code


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_device_verifies_under_the_simulators_roots(device: SimulatedDevice) -> None:
    found = verify(parse_nvidia_device(device.device_item(NONCE)), device.endorsements(at=AT))
    assert (found.simulated, found.nonce, found.architecture) == (True, NONCE, device.product.architecture)
    assert found.chain.identity.text == device.keys.identity.hex()
    assert found.measurements is not None
    judged = len(device.product.firmware_active) + len(device.product.driver_active)
    assert found.measurements.compared == judged
    assert not found.measurements.mismatches
    assert found.vbios_version == device.vbios


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_raw_report_finds_its_chain_among_the_endorsements(device: SimulatedDevice) -> None:
    found = verify(
        parse_nvidia_report(device.report(NONCE)), BOARD.endorsements(at=AT).merged(device.endorsements(at=AT))
    )
    assert found.chain.identity.text == device.keys.identity.hex()


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_nothing_simulated_verifies_under_the_vendors_roots(device: SimulatedDevice) -> None:
    parsed, endorsements = parse_nvidia_device(device.device_item(NONCE)), device.endorsements(at=AT)
    refusal = code_of(lambda: verify(parsed, endorsements, anchors=VENDORS))
    assert refusal == "simulated-root-refused"


def test_endorsements_last_for_a_week_from_midnight() -> None:
    gpu = SimulatedGpu.of()
    parsed, endorsements = parse_nvidia_device(gpu.device_item(NONCE)), gpu.endorsements(at=AT)
    verify(parsed, endorsements, at=AT + timedelta(days=6))
    assert code_of(lambda: verify(parsed, endorsements, at=AT + timedelta(days=8))) == "ocsp-expired"


def test_a_changed_measurement_is_a_mismatch() -> None:
    gpu = SimulatedGpu.of(changed={9: b"\x01" * 48})
    parsed, endorsements = parse_nvidia_device(gpu.device_item(NONCE)), gpu.endorsements(at=AT)
    assert code_of(lambda: verify(parsed, endorsements)) == "gpu-measurement-mismatch"


def test_rims_of_another_driver_do_not_serve() -> None:
    gpu, other = SimulatedGpu.of(), SimulatedGpu.of(driver="550.90.07")
    parsed = parse_nvidia_device(gpu.device_item(NONCE))
    assert code_of(lambda: verify(parsed, other.endorsements(at=AT))) == "gpu-rim-missing"


def test_a_revoked_device_and_a_held_signer_are_refused() -> None:
    gpu = SimulatedGpu.of()
    parsed = parse_nvidia_device(gpu.device_item(NONCE))
    signer = rim_signer_template(gpu.product, signed_in(AT)).serial
    for serial, reason in ((gpu.keys.device_template().serial, Reason.KEY_COMPROMISE), (signer, Reason.HOLD)):
        ocsp = SimulatedOcsp.of(AT, revoked={serial: reason})
        endorsements = gpu.endorsements(at=AT, ocsp=ocsp)
        assert code_of(lambda found=endorsements: verify(parsed, found)) == "certificate-revoked"  # type: ignore[misc]


def test_a_report_signed_by_another_key_is_refused() -> None:
    gpu = SimulatedGpu.of()
    forged = replace(gpu.report_template(NONCE), key=p384_key("other")).issue()
    parsed = parse_nvidia_device(gpu.device_item(NONCE, report=forged))
    assert code_of(lambda: verify(parsed, gpu.endorsements(at=AT))) == "gpu-signature-invalid"


def test_endorsements_hold_each_thing_once() -> None:
    found = BOARD.endorsements(at=AT)
    assert len(found.rims) == 3  # driver, VBIOS, switch BIOS
    # 12 devices, their two provisioners and one identity CA; two products with L4, L3 and L2 of RIM signers each.
    assert len(found.ocsp) == 12 + 2 + 1 + 2 * 3
    assert {parse_certificate(der) for _, device in BOARD.devices for der in device.certificates} == set(
        found.certificates
    )


@pytest.mark.parametrize("mode", ["spt", "mpt", "ppcie"])
def test_a_mode_shows_in_the_feature_flag(mode: Mode) -> None:
    opaque = parse_nvidia_device(SimulatedGpu.of(mode=mode).device_item(NONCE)).report.opaque
    assert opaque.feature_flag == {"spt": 0, "mpt": 1, "ppcie": 2}[mode]
