"""Boards of GPUs and switches in the browser: page and Python verifier say the same of every set of devices."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from attest_simulator.nvidia import SimulatedBoard, SimulatedDevice
from attest_simulator.nvidia.board import device_items
from attest_simulator.nvidia.responder import opaque_data
from tests.page.browser import Verifier
from tests.page.nvidia_devices import NONCE, Asked, asked, envelope
from tests.page.test_nvidia import judged

pytestmark = pytest.mark.loopback
WITHOUT = ("rim", "revocation")
NO_TOPOLOGY = (*WITHOUT, "topology")
OLDER = SimulatedBoard.of("page board", driver="570.172.08")
NEWER = SimulatedBoard.of("page board", driver="580.95.05")
OTHER = SimulatedBoard.of("another page board", driver="570.172.08")


def case(name: str, devices: Iterable[SimulatedDevice], unchecked: tuple[str, ...] = WITHOUT) -> Asked:
    named = tuple((f"device{number}", device) for number, device in enumerate(devices))
    return asked(name, envelope(*device_items(named, NONCE)), unchecked=unchecked)


def stating(device: SimulatedDevice, entries: dict[int, bytes | None]) -> Asked:
    """A lone device that signed other opaque data, with the topology left unchecked."""
    stated = {**dict(device.opaque_entries()), **entries}
    opaque = opaque_data([(kind, value) for kind, value in stated.items() if value is not None])
    report = replace(device.report_template(NONCE), opaque=opaque).issue()
    (item,) = device_items((("device0", device),), NONCE)
    changed = replace(item, value=device.device_item(NONCE, report=report))
    text = ", ".join(f"{kind}={'none' if value is None else value.hex()[:8]}" for kind, value in entries.items())
    return asked(f"{device.driver}: {text}", envelope(changed), unchecked=NO_TOPOLOGY)


def sets() -> Iterator[Asked]:
    """Whole boards and parts of them, with a driver that writes no feature flag and with one that does."""
    for board, name in ((OLDER, "older"), (NEWER, "newer")):
        gpus, switches = board.gpus, board.switches
        for unchecked, how in ((WITHOUT, "demanded"), (NO_TOPOLOGY, "left out")):
            yield case(f"{name}: whole, {how}", (*gpus, *switches), unchecked)
            yield case(f"{name}: GPUs alone, {how}", gpus, unchecked)
            yield case(f"{name}: switches alone, {how}", switches, unchecked)
            yield case(f"{name}: one GPU, {how}", gpus[:1], unchecked)
            yield case(f"{name}: one switch, {how}", switches[:1], unchecked)
        single = replace(gpus[3], mode="spt", links=())
        yield case(f"{name}: a single GPU among them", (*gpus[:3], single, *gpus[4:]), NO_TOPOLOGY)
        twice = replace(switches[0], gpus=(*switches[0].gpus[:7], switches[0].gpus[0]))
        yield case(f"{name}: a switch that names a GPU twice, alone", (twice,), NO_TOPOLOGY)
        yield case(f"{name}: a switch that names a GPU twice, in its board", (*gpus, twice, *switches[1:]), NO_TOPOLOGY)
        yield case(f"{name}: a switch that names a GPU twice, beside one", (gpus[0], twice), NO_TOPOLOGY)
    yield case("a GPU of another board", (*OLDER.gpus[:7], OTHER.gpus[7]), NO_TOPOLOGY)
    yield case("GPUs of two drivers", (*OLDER.gpus[:4], *NEWER.gpus[4:]), NO_TOPOLOGY)


def lone_devices() -> Iterator[Asked]:
    """One device that says something else about its mode, its neighbours or itself."""
    older, newer, switch = OLDER.gpus[0], NEWER.gpus[0], OLDER.switches[0]
    yield from (stating(older, {21: value}) for value in (b"\xaa", b"\x55", None, b"\0", b""))
    yield from (stating(newer, {36: value}) for value in (b"\0\0", b"\1\0", b"\2\0", b"\3\0", b"\2", b"", None))
    yield from (stating(newer, {21: value}) for value in (b"\x55", None))
    yield from (stating(older, {36: value}) for value in (b"\0\0", b"\3\0", b"\2"))
    yield from (stating(older, {22: value}) for value in (bytes(144), b"\1" * 144, None, bytes(136)))
    yield from (stating(switch, {25: value}) for value in (b"\0\0", b"\2\0", None, b"\1"))
    yield from (stating(switch, {22: value}) for value in (b"\1" * 8, None))
    yield from (stating(switch, {26: value}) for value in (bytes(128), None))


def test_a_set_of_devices_is_judged_alike(in_browser: Verifier) -> None:
    found = judged(in_browser, sets())
    good = {
        *(f"{name}: whole, {how}" for name in ("older", "newer") for how in ("demanded", "left out")),
        *(
            f"{name}: {part}, left out"
            for name in ("older", "newer")
            for part in ("GPUs alone", "switches alone", "one GPU", "one switch")
        ),
        *(f"{name}: a switch that names a GPU twice, alone" for name in ("older", "newer")),
    }
    assert {name for name, code in found.items() if code == "verified"} == good
    assert found["older: a single GPU among them"] == "gpu-modes-differ"
    assert found["older: one switch, demanded"] == "gpu-topology-invalid"


def test_a_lone_device_is_judged_alike_whatever_it_says(in_browser: Verifier) -> None:
    found = judged(in_browser, lone_devices())
    older, newer, switch = OLDER.gpus[0].driver, NEWER.gpus[0].driver, OLDER.switches[0].driver
    expected = {
        f"{older}: 21=55": "verified",
        f"{older}: 21=00": "gpu-opaque-unsupported",
        f"{older}: 36=0300": "verified",
        f"{older}: 22=01010101": "verified",
        f"{newer}: 36=0300": "gpu-opaque-unsupported",
        f"{newer}: 36=02": "gpu-opaque-unsupported",
        f"{newer}: 36=0100": "gpu-topology-invalid",
        f"{newer}: 21=55": "gpu-topology-invalid",
        f"{switch}: 25=0000": "gpu-topology-invalid",
        f"{switch}: 22=01010101": "gpu-topology-invalid",
        f"{switch}: 26=00000000": "verified",
    }
    assert {name: found[name] for name in expected} == expected
