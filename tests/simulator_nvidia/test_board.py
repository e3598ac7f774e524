"""A simulated board: its devices name each other as the specification and recorded boards have it."""

import json
from base64 import b64decode
from collections import Counter
from dataclasses import replace

import pytest

from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.forms import split_nvidia_json
from attest_simulator.nvidia import SimulatedBoard, SimulatedGpu, SimulatedNvSwitch

NONCE = bytes(range(32))
BOARD = SimulatedBoard.of()


def test_a_board_has_eight_gpus_and_four_switches() -> None:
    assert (len(BOARD.gpus), len(BOARD.switches)) == (8, 4)
    assert [name for name, _ in BOARD.devices] == [*(f"gpu{n}" for n in range(8)), *(f"nvswitch{n}" for n in range(4))]
    assert len({device.keys.identity for _, device in BOARD.devices}) == 12


def test_every_gpu_names_every_switch_at_eighteen_links() -> None:
    switches = {switch.pdi for switch in BOARD.switches}
    for gpu in BOARD.gpus:
        links = parse_nvidia_device(gpu.device_item(NONCE)).report.opaque.switch_pdis
        assert links is not None
        assert set(links) == switches
        assert sorted(Counter(links).values()) == [4, 4, 5, 5]


def test_every_switch_names_every_gpu_and_itself() -> None:
    gpus = {gpu.pdi for gpu in BOARD.gpus}
    for switch in BOARD.switches:
        opaque = parse_nvidia_device(switch.device_item(NONCE)).report.opaque
        assert opaque.own_pdi == switch.pdi
        assert set(opaque.gpu_pdis or ()) == gpus
        assert opaque.lock_status == 1


def test_links_and_ports_tell_of_the_same_wires() -> None:
    for switch in BOARD.switches:
        ends = Counter(BOARD.gpus[gpu].pdi for gpu in switch.ports)
        assert ends == {gpu.pdi: gpu.links.count(switch.pdi) for gpu in BOARD.gpus}


def test_every_gpu_is_behind_protected_pcie() -> None:
    for gpu in BOARD.gpus:
        parsed = parse_nvidia_device(gpu.device_item(NONCE))
        assert (parsed.report.opaque.protected_pcie, parsed.report.opaque.feature_flag) == (0xAA, 2)
        assert parsed.settings is not None
        assert parsed.settings.multi_gpu_mode == "protected-pcie"


def test_gpus_without_switches_stand_alone() -> None:
    for count, flag in ((1, 0), (2, 1)):
        board = SimulatedBoard.of(gpus=count, switches=0)
        for gpu in board.gpus:
            opaque = parse_nvidia_device(gpu.device_item(NONCE)).report.opaque
            assert (opaque.switch_pdis, opaque.feature_flag, opaque.protected_pcie) == (None, flag, 0x55)


def test_a_part_of_a_board_still_names_the_whole() -> None:
    part = SimulatedBoard.of(gpus=3, switches=1)
    assert (part.gpus, part.switches) == (BOARD.gpus[:3], BOARD.switches[:1])
    alone = SimulatedBoard.of(gpus=8, switches=0, mode="ppcie")
    assert (alone.gpus, alone.switches) == (BOARD.gpus, ())


@pytest.mark.parametrize(("gpus", "switches"), [(0, 0), (9, 4), (1, 5)])
def test_a_board_that_cannot_be_is_refused(gpus: int, switches: int) -> None:
    with pytest.raises(ValueError, match="expected a device"):
        SimulatedBoard.of(gpus=gpus, switches=switches)


def test_another_label_is_another_board_and_the_same_label_the_same() -> None:
    first, second, other = (SimulatedBoard.of(label).evidence_json(NONCE) for label in ("a", "a", "b"))
    assert first == second != other


def test_the_file_is_nvidias_and_splits_into_the_items() -> None:
    document = json.loads(BOARD.evidence_json(NONCE))
    assert {frozenset(entry) for entry in document} == {frozenset({"arch", "nonce", "evidence", "certificate"})}
    assert [entry["arch"] for entry in document] == ["HOPPER"] * 8 + ["LS10"] * 4
    parts = split_nvidia_json(document)
    assert [prefix for prefix, _ in parts] == ["gpu"] * 8 + ["nvswitch"] * 4
    for (_, part), item, entry in zip(parts, BOARD.items(NONCE), document, strict=True):
        assert item.media_type == MEDIA_NVIDIA_DEVICE
        assert parse_nvidia_device(item.value).report.raw == parse_nvidia_device(part).report.raw
        assert b64decode(entry["certificate"]).count(b"BEGIN CERTIFICATE") == 5


def test_an_item_says_what_nvml_says() -> None:
    parsed = parse_nvidia_device(SimulatedGpu.of(dev_tools_mode=True).device_item(NONCE))
    assert parsed.settings is not None
    assert (parsed.settings.cc_mode, parsed.settings.dev_tools_mode) == (True, True)
    assert (parsed.uuid or "").startswith("GPU-")
    switch = parse_nvidia_device(SimulatedNvSwitch.of().device_item(NONCE))
    assert (switch.settings, switch.uuid, switch.arch) == (None, None, "LS10")


def test_a_report_that_is_given_is_put_into_the_item() -> None:
    gpu = SimulatedGpu.of()
    forged = replace(gpu.report_template(NONCE), measurements=(bytes(48),) * 64).issue()
    assert parse_nvidia_device(gpu.device_item(NONCE, report=forged)).report.raw == forged


def test_a_switch_may_lie_about_itself() -> None:
    liar = replace(SimulatedNvSwitch.of(), stated_pdi=bytes(8), locked=False)
    opaque = parse_nvidia_device(liar.device_item(NONCE)).report.opaque
    assert (opaque.own_pdi, opaque.lock_status) == (bytes(8), 0)
