"""Simulated reports are right in every byte: the device's own layout, a signature that holds, the same bytes again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.evidence.gpu.structure import parse_report
from attest_simulator.nvidia import SimulatedBoard, SimulatedDevice, SimulatedGpu, SimulatedNvSwitch
from attest_simulator.nvidia.device import Mode
from attest_simulator.nvidia.keys import p384_key
from attest_simulator.nvidia.responder import ReportTemplate, opaque_data, text_field, vbios_field
from tests.simulator_nvidia import recorded

NONCE = bytes(range(32))
BOARD = SimulatedBoard.of()
DEVICES: dict[str, SimulatedDevice] = {
    "hopper": SimulatedGpu.of(),
    "hopper 535": SimulatedGpu.of(driver="535.86.09"),
    "hopper 550": SimulatedGpu.of(driver="550.90.07"),
    "blackwell": SimulatedGpu.of(architecture="blackwell"),
    "ls10": SimulatedNvSwitch.of(),
    "board gpu": BOARD.gpus[3],
    "board switch": BOARD.switches[2],
}


def entries(report: bytes) -> list[tuple[int, bytes]]:
    """Read opaque data by the specification's table alone."""
    record = int.from_bytes(report[42:45], "little")
    start = 37 + 8 + record + 32 + 2
    data = report[start : start + int.from_bytes(report[start - 2 : start], "little")]
    found = []
    while data:
        size = int.from_bytes(data[2:4], "little")
        found.append((int.from_bytes(data[:2], "little"), data[4 : 4 + size]))
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_report_is_signed_by_its_leaf(device: SimulatedDevice) -> None:
    report = device.report(NONCE)
    key = x509.load_der_x509_certificate(device.certificates[0]).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    r, s = (int.from_bytes(report[at : at + 48], "big") for at in (-96, len(report) - 48))
    key.verify(encode_dss_signature(r, s), report[:-96], ec.ECDSA(hashes.SHA384()))


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_report_is_read_as_it_was_written(device: SimulatedDevice) -> None:
    report = device.report(NONCE)
    parsed = parse_report(report)
    assert (parsed.raw, parsed.nonce, parsed.measurements) == (report, NONCE, device.measurements)
    assert [(entry.type, entry.value) for entry in parsed.opaque.entries] == list(device.opaque_entries())
    assert parsed.signed_bytes == report[:-96]


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_the_same_question_gives_the_same_bytes_and_another_nonce_others(device: SimulatedDevice) -> None:
    assert device.report(NONCE) == device.report(NONCE)
    first, second = device.report(NONCE), device.report(bytes(32))
    assert first[4:36] == NONCE
    assert first[-96:] != second[-96:]
    assert parse_report(first).responder_nonce != parse_report(second).responder_nonce
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match="a nonce has 32 bytes"):
            device.report(bytes(length))


@pytest.mark.parametrize(
    "name", ["gh100-535.86.09", "gh100-545.00", "gh100-550.90.07", "gh100-560.00-bad-signature", "board", "switch"]
)
def test_the_writer_makes_recorded_reports_again(vectors_dir: Path, name: str) -> None:
    if name in {"board", "switch"}:
        genuine, _ = recorded.device(vectors_dir, "gpu" if name == "board" else "switch")
    else:
        genuine = recorded.report(vectors_dir, name)
    parsed = parse_report(genuine)
    template = ReportTemplate(
        nonce=parsed.nonce,
        responder_nonce=parsed.responder_nonce,
        measurements=parsed.measurements,
        opaque=opaque_data((entry.type, entry.value) for entry in parsed.opaque.entries),
        key=p384_key("nobody"),
    )
    assert template.to_be_signed() == genuine[:-96]


BACKED: dict[tuple[str, Mode], Callable[[Path], bytes]] = {
    ("535.86.09", "spt"): lambda folder: recorded.report(folder, "gh100-535.86.09"),
    ("545.00", "spt"): lambda folder: recorded.report(folder, "gh100-545.00"),
    ("550.90.07", "spt"): lambda folder: recorded.report(folder, "gh100-550.90.07"),
    ("560.00", "ppcie"): lambda folder: recorded.report(folder, "gh100-560.00-bad-signature"),
    ("570.172.08", "spt"): lambda folder: recorded.service(folder, "nanogpt/gpu-nras-form.json", "evidence_list", 0),
    ("570.172.08", "ppcie"): lambda folder: recorded.service(
        folder, "near-direct/gpus-nras-form.json", "evidence_list", 0
    ),
    ("580.95.05", "spt"): lambda folder: recorded.report(folder, "gh100-580.95.05-trailing-byte")[:-1],
    ("590.12", "ppcie"): lambda folder: recorded.device(folder, "gpu")[0],
    ("595.71.05", "spt"): lambda folder: recorded.service(folder, "tinfoil-direct/report.json", "gpu", "evidences", 0),
    ("595.71.05", "ppcie"): lambda folder: recorded.service(
        folder, "chutes/evidence.json", "evidence", 0, "gpu_evidence", 0
    ),
}
"""A recorded report for each family of drivers and mode."""
NOT_BACKED: tuple[tuple[str, Mode], ...] = (
    ("535.86.09", "mpt"),
    ("535.86.09", "ppcie"),
    ("545.00", "mpt"),
    ("545.00", "ppcie"),
    ("550.90.07", "mpt"),
    ("550.90.07", "ppcie"),
    ("560.00", "spt"),
    ("560.00", "mpt"),
    ("570.172.08", "mpt"),
    ("580.95.05", "mpt"),
    ("580.95.05", "ppcie"),
    ("590.12", "spt"),
    ("590.12", "mpt"),
    ("595.71.05", "mpt"),
)
"""Layouts that follow the specification's table alone. So does all of Blackwell."""
ALIKE = frozenset({4, 11, 19, 21, 34, 36})
"""Fields with the same value on every board of one mode; the others differ from board to board."""


def written_by(driver: str, mode: Mode) -> SimulatedGpu:
    if mode == "ppcie":
        return SimulatedBoard.of(driver=driver).gpus[0]
    return SimulatedGpu.of(driver=driver, mode=mode)


@pytest.mark.parametrize(("driver", "mode"), BACKED)
def test_every_field_of_a_family_of_drivers_is_that_of_a_recorded_report(
    vectors_dir: Path, driver: str, mode: Mode
) -> None:
    report = BACKED[driver, mode](vectors_dir)
    genuine, ours = entries(report), written_by(driver, mode).opaque_entries()
    assert dict(genuine)[3] == driver.encode() + b"\0"
    assert [(kind, len(value)) for kind, value in ours] == [(kind, len(value)) for kind, value in genuine]
    assert [pair for pair in ours if pair[0] in ALIKE] == [pair for pair in genuine if pair[0] in ALIKE]
    assert len(written_by(driver, mode).report(NONCE)) == len(report)


def test_every_layout_of_hopper_is_backed_by_a_recorded_report_or_named_as_not_backed() -> None:
    drivers = dict.fromkeys(driver for driver, _ in BACKED)
    assert sorted([*BACKED, *NOT_BACKED]) == sorted((driver, mode) for driver in drivers for mode in get_args(Mode))


@pytest.mark.parametrize(("driver", "mode"), NOT_BACKED)
def test_a_layout_without_a_recorded_report_has_no_field_that_its_family_does_not_have(driver: str, mode: Mode) -> None:
    branch = int(driver.partition(".")[0])
    expected = {6, *range(14, 20), 3, 4, 12, 13, 11}
    expected |= {20, 21} if branch >= 550 else set()
    expected |= {22} if branch >= 550 and mode == "ppcie" else set()
    expected |= {34, 36} if branch >= 580 else set()
    assert {kind for kind, _ in written_by(driver, mode).opaque_entries()} == expected


def test_opaque_data_of_a_switch_has_the_order_and_sizes_recorded(vectors_dir: Path) -> None:
    report, _ = recorded.device(vectors_dir, "switch")
    assert [(k, len(v)) for k, v in BOARD.switches[0].opaque_entries()] == [(k, len(v)) for k, v in entries(report)]
    assert len(BOARD.switches[0].report(NONCE)) == len(report)


def test_blackwell_says_what_it_is() -> None:
    found = dict(DEVICES["blackwell"].opaque_entries())
    assert (found[4][:2], found[33]) == (b"\xa0\x01", b"\x07\x07")
    assert 35 not in found


def test_changed_measurements_are_reported_and_signed() -> None:
    gpu = SimulatedGpu.of(changed={7: b"\x01" * 48})
    assert gpu.measurements[7] == b"\x01" * 48
    ordinary = SimulatedGpu.of().measurements
    assert [i for i, (a, b) in enumerate(zip(gpu.measurements, ordinary, strict=True)) if a != b] == [7]


def test_what_no_device_would_sign_can_be_made() -> None:
    template = SimulatedGpu.of().report_template(NONCE)
    forged = replace(
        template, request_head=b"\x12\xe0\x01\xff", response_head=b"\x12\x60\x00\x00", slot=b"\x01"
    ).issue()
    assert (forged[:4], forged[36:41]) == (b"\x12\xe0\x01\xff", b"\x01\x12\x60\x00\x00")
    assert replace(template, key=p384_key("other")).issue()[:-96] == template.issue()[:-96]


def test_versions_are_written_as_devices_write_them() -> None:
    assert vbios_field("96.00.74.00.1A") == bytes.fromhex("007400961a000000")
    assert text_field("550.90.07") == b"550.90.07\0"
    assert text_field("882", 9) == b"882\0\0\0\0\0\0"
    for wrong in ("96.00.74.00", "96.00.74.00.1AB", "96007400.1A"):
        with pytest.raises(ValueError, match="five pairs of hex digits"):
            vbios_field(wrong)
    with pytest.raises(ValueError, match="more than 4 characters"):
        text_field("12345", 4)


def test_a_device_that_is_neither_gpu_nor_switch_cannot_be_made() -> None:
    gpu = SimulatedGpu.of()
    with pytest.raises(TypeError, match="abstract"):
        SimulatedDevice(product=gpu.product, label="x", driver=gpu.driver, vbios=gpu.vbios)  # type: ignore[abstract]
