"""Several devices of one machine: the recorded board, the simulated one, and every way to fall short of one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import permutations
from pathlib import Path

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.evidence.gpu.evidence import parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.opaque import parse_opaque
from attest.evidence.gpu.topology import judge_set
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest_simulator.nvidia import SimulatedBoard, SimulatedGpu
from tests.evidence.gpu import made

AT = datetime(2026, 11, 21, tzinfo=UTC)
NONCE = bytes(32)
WITHOUT = tuple(Unchecked(check=check, reason="a test of sets") for check in ("revocation", "rim"))
NO_TOPOLOGY = (Unchecked(check="topology", reason="one GPU of a board is passed through"),)
Set = Sequence[tuple[str, VerifiedGpu]]


def verified(item: bytes, anchors: TrustAnchors) -> VerifiedGpu:
    return verify_gpu_evidence(
        parse_nvidia_device(item), endorsements=NO_ENDORSEMENTS, anchors=anchors, at=AT, unchecked=WITHOUT
    )


@lru_cache(maxsize=2)
def simulated(*, other: bool = False) -> tuple[tuple[str, VerifiedGpu], ...]:
    board = SimulatedBoard.of("another board" if other else "one board", gpus=8, switches=4)
    devices = [(f"gpu-{n}", gpu) for n, gpu in enumerate(board.gpus)]
    devices += [(f"nvswitch-{n}", switch) for n, switch in enumerate(board.switches)]  # type: ignore[misc]  # both
    return tuple((label, verified(d.device_item(NONCE), TrustAnchors.simulation())) for label, d in devices)


@lru_cache(maxsize=8)
def alone(label: str = "alone", mode: str = "spt", nonce: bytes = NONCE) -> VerifiedGpu:
    gpu = SimulatedGpu.of(label, mode=mode)  # type: ignore[arg-type]  # the test's word
    return verified(gpu.device_item(nonce), TrustAnchors.simulation())


def recorded(vectors_dir: Path) -> tuple[tuple[str, VerifiedGpu], ...]:
    items = [
        (f"{kind}-{n}", item) for kind in ("gpu", "switch") for n, item in enumerate(made.board(vectors_dir, kind))
    ]
    return tuple((label, verified(json.dumps(item).encode(), TrustAnchors.vendors())) for label, item in items)


def edited(device: VerifiedGpu, *gone: int, **changed: bytes) -> VerifiedGpu:
    """Change opaque data of a device that was verified, as if it had signed that."""
    report = device.evidence.report
    entries = tuple((entry.type, entry.value) for entry in report.opaque.entries if entry.type not in gone)
    opaque = parse_opaque(made.opaque(entries, **changed))
    version = device.driver_version if device.kind == "nvidia-switch" else opaque.driver_version
    evidence = replace(device.evidence, report=replace(report, opaque=opaque))
    return replace(device, evidence=evidence, driver_version=version)


def with_edit(devices: Set, at: int, *gone: int, **changed: bytes) -> Set:
    label, device = devices[at]
    return [*devices[:at], (label, edited(device, *gone, **changed)), *devices[at + 1 :]]


def outcomes(devices: Set, unchecked: tuple[Unchecked, ...] = ()) -> dict[str, Outcome]:
    checks, errors = judge_set(devices, unchecked=unchecked)
    assert {check.id for check in checks if check.outcome is Outcome.FAIL} == {error.check for error in errors}
    assert all(error.exit_code == 4 and error.expected and error.got and error.clause for error in errors)
    return {check.id: check.outcome for check in checks}


def failing(devices: Set, unchecked: tuple[Unchecked, ...] = ()) -> set[str]:
    return {check for check, outcome in outcomes(devices, unchecked).items() if outcome is Outcome.FAIL}


# -- what passes


def test_a_whole_board_in_any_order_passes() -> None:
    board = simulated()
    everything = {"device.unique", "device.nonce", "device.mode", "topology"}
    for devices in (board, board[::-1], (*board[6:], *board[:6])):
        assert outcomes(devices) == dict.fromkeys(("device.unique", "device.nonce", "device.mode", "topology"), "pass")
        assert set(outcomes(devices)) == everything


def test_a_single_gpu_that_stands_alone_is_no_set() -> None:
    assert judge_set([("gpu", alone())]) == ((), ())
    assert judge_set([]) == ((), ())


def test_several_gpus_that_are_not_on_a_protected_board_have_no_topology() -> None:
    for mode in ("spt", "mpt"):
        found = outcomes([("a", alone("a", mode)), ("b", alone("b", mode))])
        assert found == dict.fromkeys(("device.unique", "device.nonce", "device.mode"), Outcome.PASS)


def test_gpus_that_state_no_mode_are_of_one_mode() -> None:
    devices = [("a", edited(alone("a"), 34, 36)), ("b", edited(alone("b"), 34, 36))]
    assert outcomes(devices)["device.mode"] is Outcome.PASS
    assert failing([devices[0], ("c", alone("c"))]) == {"device.mode"}


def test_gpus_whose_mode_is_not_understood_are_not_of_the_mode_of_others() -> None:
    strange = edited(alone("a"), t36=b"\3\0")
    assert failing([("a", strange), ("b", alone("b"))]) == {"device.mode"}


def before_580(board: Set) -> Set:
    """Take the opaque version and the feature flag from all GPUs: drivers before 580 write neither."""
    return [(name, edited(gpu, 34, 36)) for name, gpu in board[:8]] + list(board[8:])


def test_a_board_whose_driver_writes_no_feature_flag_passes() -> None:
    for board in (before_580(simulated()), [*before_580(simulated())[::-1]]):
        assert set(outcomes(board).values()) == {Outcome.PASS}


def test_the_gpus_of_such_a_board_pass_without_switches_only_where_that_is_tolerated() -> None:
    gpus = before_580(simulated())[:8]
    assert failing(gpus) == {"topology"}
    assert outcomes(gpus, NO_TOPOLOGY)["topology"] is Outcome.NOT_EVALUATED
    assert failing(gpus, NO_TOPOLOGY) == set()


def test_a_gpu_that_is_not_protected_among_those_of_such_a_board_is_refused() -> None:
    board = before_580(simulated())
    for status in (b"\x55", None):
        single = edited(board[3][1], *([21] if status is None else []), **({} if status is None else {"t21": status}))
        devices = [*board[:3], ("single", single), *board[4:]]
        assert failing(devices) == {"device.mode", "topology"}
        assert failing(devices[:8], NO_TOPOLOGY) == {"device.mode"}


def test_without_a_version_the_feature_flag_is_not_read() -> None:
    board = [(name, edited(gpu, 34, t36=b"\0\0")) for name, gpu in simulated()[:8]]
    assert failing([*board, *simulated()[8:]]) == set()


# -- any two devices


def test_the_same_device_twice_is_refused() -> None:
    device = alone()
    _, errors = judge_set([("first", device), ("second", device)])
    assert [(error.code, error.check) for error in errors] == [("gpu-device-repeated", "device.unique")]
    assert "first and second" in errors[0].message
    again = verified(SimulatedGpu.of("alone", driver="590.12").device_item(NONCE), TrustAnchors.simulation())
    assert again.chain.leaf.certificate.der != device.chain.leaf.certificate.der
    assert failing([("first", device), ("second", again)]) == {"device.unique"}


def test_devices_that_answered_different_challenges_are_refused() -> None:
    devices = [("a", alone("a")), ("b", alone("b", nonce=b"\1" * 32))]
    _, errors = judge_set(devices)
    assert [(error.code, error.check) for error in errors] == [("gpu-nonces-differ", "device.nonce")]


def test_gpus_of_different_modes_are_refused() -> None:
    _, errors = judge_set([("a", alone("a")), ("b", alone("b", "mpt"))])
    assert [(error.code, error.check) for error in errors] == [("gpu-modes-differ", "device.mode")]
    assert "single GPU pass-through" in errors[0].message


def got(devices: Set, check: str) -> str:
    checks, _ = judge_set(devices, unchecked=())
    return next(one.got for one in checks if one.id == check)


def test_what_was_found_in_a_set_is_told() -> None:
    one, two, other = (("a", alone("a")), ("b", alone("b")), ("c", alone("c", "mpt", b"\1" * 32)))
    identity = one[1].chain.identity.text
    assert got([one, two], "device.unique") == "2 different devices"
    assert got([one, two, ("d", one[1])], "device.unique") == f"2 different devices, a and d are {identity}"
    assert got([one, two], "device.nonce") == f"{NONCE.hex()} in all"
    assert got([one, two, other], "device.nonce") == f"{'01' * 32} in c"
    assert got([one, two], "device.mode") == "single GPU pass-through"
    assert got([one, other], "device.mode") == "a: single GPU pass-through, c: multi GPU pass-through"
    assert got(simulated()[:2], "device.mode") == "protected PCIe"
    assert got(simulated()[8:], "device.mode") == "no GPU"
    assert (
        got([("a", edited(alone("a"), 34, 36)), ("b", edited(alone("b"), 34, 36))], "device.mode")
        == "not protected PCIe"
    )


def topology(devices: Set) -> str:
    _, errors = judge_set(devices, unchecked=())
    return next(error.message for error in errors if error.check == "topology")


def test_what_is_wrong_with_a_board_is_told() -> None:
    board, whole = simulated(), "of a protected board of 8 GPUs and 4 NVSwitches"
    assert topology(board[1:]) == f"{whole} 7 GPUs and 4 NVSwitches are present"
    assert topology(board[:1]) == f"gpu-0 is 1 GPU {whole}, and no other device is present"
    assert topology(board[8:9]) == f"nvswitch-0 is 1 NVSwitch {whole}, and no other device is present"
    assert topology([*board, ("more", alone())]) == f"{whole} 9 GPUs and 4 NVSwitches are present"
    assert topology(with_edit(board, 3, t22=bytes(144))) == "gpu-3 names other NVSwitches than gpu-0"
    assert topology(with_edit(board, 9, t26=board_gpus(board, 7))) == "nvswitch-1 names other GPUs than nvswitch-0"
    assert topology(with_edit(board, 0, 22)) == "gpu-0 names no NVSwitches"
    assert topology(with_edit(board, 8, 26)) == "nvswitch-0 names no GPUs"


# -- a board that is none


def derived(board: Set, stranger: VerifiedGpu) -> dict[str, tuple[Set, set[str]]]:
    """The mutations that the manifest names, with the checks that refuse them."""
    gpus, switches = board[:8], board[8:]
    return {
        "one switch dropped": (board[:-1], {"topology"}),
        "one GPU dropped": (board[1:], {"topology"}),
        "one GPU repeated": ([*gpus[:-1], ("again", gpus[0][1]), *switches], {"device.unique", "topology"}),
        "one switch repeated": ([*board[:-1], ("again", switches[0][1])], {"device.unique", "topology"}),
        "one switch four times": (
            [*gpus, *[(str(n), switches[0][1]) for n in range(4)]],
            {"device.unique", "topology"},
        ),
        "one GPU more": ([*board, ("again", gpus[0][1])], {"device.unique", "topology"}),
        "a stranger for a GPU": ([("other", stranger), *board[1:]], {"device.nonce", "device.mode", "topology"}),
        "GPUs without switches": (gpus, {"topology"}),
        "switches without GPUs": (switches, {"topology"}),
        "one GPU alone": (gpus[:1], {"topology"}),
        "one switch alone": (switches[:1], {"topology"}),
    }


def test_every_derived_board_is_refused() -> None:
    for what, (devices, expected) in derived(simulated(), alone(nonce=b"\1" * 32)).items():
        assert failing(devices) == expected, what


def test_a_gpu_of_another_board_is_refused_though_it_answers_the_same_challenge() -> None:
    board, other = simulated(), simulated(other=True)
    for at in range(12):
        exchanged = [*board[:at], other[at], *board[at + 1 :]]
        assert failing(exchanged) == {"topology"}
        assert failing(exchanged, NO_TOPOLOGY) == {"topology"}
    assert failing([*board[:4], *other[4:8]], NO_TOPOLOGY) == {"topology"}
    assert failing([*board[8:10], *other[8:10]], NO_TOPOLOGY) == {"topology"}
    assert failing([*board, *other], NO_TOPOLOGY) == {"topology"}


_ONES = b"\1" * 8
FALSE: dict[str, Callable[[Set], Set]] = {
    "a GPU that names three switches": lambda board: with_edit(board, 0, t22=board_links(board, 3)),
    "a GPU that names a fifth switch": lambda board: with_edit(board, 0, t22=board_links(board, 4, _ONES)),
    "a GPU that names another switch": lambda board: with_edit(board, 0, t22=board_links(board, 3, _ONES)),
    "a GPU whose links are off": lambda board: with_edit(board, 0, t22=bytes(144)),
    "a first GPU that alone names a stranger where a switch is missing": lambda board: without_a_switch(board, 0),
    "a last GPU that alone names a stranger where a switch is missing": lambda board: without_a_switch(board, 7),
    "a switch that names seven GPUs": lambda board: with_edit(board, 8, t26=board_gpus(board, 7)),
    "a switch that names another GPU": lambda board: with_edit(board, 8, t26=board_gpus(board, 7, _ONES)),
    "a switch that calls itself otherwise": lambda board: with_edit(board, 8, t22=_ONES),
    "a switch that is not locked": lambda board: with_edit(board, 11, t25=b"\0\0"),
    "a switch with another lock status": lambda board: with_edit(board, 11, t25=b"\2\0"),
    "a GPU with another driver": lambda board: with_edit(board, 3, t3=b"1.2.3\0"),
    "a GPU without a driver": lambda board: with_edit(board, 3, 3),
    "a GPU whose status contradicts its flag": lambda board: with_edit(board, 0, t21=b"\x55"),
    "a GPU with a flag and without a status": lambda board: with_edit(board, 0, 21),
    "a GPU with a status and without a flag": lambda board: with_edit(board, 0, 36),
}
MODES_APART = frozenset({"a GPU with a status and without a flag"})
"""Of these the modes differ, too."""
MISSING: dict[str, Callable[[Set], Set]] = {
    "a GPU that names no switch": lambda board: with_edit(board, 0, 22),
    "a switch that names no GPU": lambda board: with_edit(board, 8, 26),
    "a switch that does not say who it is": lambda board: with_edit(board, 8, 22),
    "a switch that does not say whether it is locked": lambda board: with_edit(board, 8, 25),
    "one switch less": lambda board: board[:-1],
    "one GPU less": lambda board: board[1:],
    "one GPU": lambda board: board[:1],
    "one switch": lambda board: board[-1:],
}


def without_a_switch(board: Set, at: int) -> Set:
    """Leave out the fourth switch, and let one GPU name another in its place."""
    return with_edit(board, at, t22=board_links(board, 3, _ONES))[:-1]


def board_links(board: Set, count: int, *more: bytes) -> bytes:
    pdis = [device.chain.identity.pdi for _, device in board[8:]][:count] + list(more)
    return b"".join(pdi[::-1] for pdi in (pdis * 18)[:18])


def board_gpus(board: Set, count: int, *more: bytes) -> bytes:
    pdis = [device.chain.identity.pdi for _, device in board[:8]][:count] + list(more)
    return b"".join(pdis).ljust(64, b"\0") + b"\xff" * 64


@pytest.mark.parametrize("what", FALSE)
def test_a_board_that_contradicts_itself_is_refused_whatever_is_tolerated(what: str) -> None:
    devices = FALSE[what](simulated())
    expected = {"topology", "device.mode"} if what in MODES_APART else {"topology"}
    assert failing(devices) == expected
    assert failing(devices, NO_TOPOLOGY) == expected


# -- one device is no set


LONE: dict[str, Callable[[Set], Set]] = {
    "a switch that names one GPU twice": lambda board: with_edit(board, 8, t26=board_gpus(board, 7))[8:9],
    "a switch that names a stranger": lambda board: with_edit(board, 8, t26=board_gpus(board, 7, _ONES))[8:9],
    "a switch that names no GPU": lambda board: with_edit(board, 8, t26=board_gpus(board, 0))[8:9],
    "a GPU that names three switches": lambda board: with_edit(board, 0, t22=board_links(board, 3))[:1],
    "a GPU that names five switches": lambda board: with_edit(board, 0, t22=board_links(board, 4, _ONES))[:1],
    "a GPU whose links are off": lambda board: with_edit(board, 0, t22=bytes(144))[:1],
}


@pytest.mark.parametrize("change", LONE.values(), ids=LONE.keys())
def test_what_a_lone_device_says_of_neighbours_that_are_not_there_is_not_evaluated(
    change: Callable[[Set], Set],
) -> None:
    devices = change(simulated())
    assert outcomes(devices, NO_TOPOLOGY) == {"topology": Outcome.NOT_EVALUATED}
    assert failing(devices) == {"topology"}
    # Beside others of its board the same statement is a contradiction.
    (name, device), others = devices[0], [*simulated()[1:3], *simulated()[9:11]]
    assert "topology" in failing([(name, device), *others], NO_TOPOLOGY)


def test_the_refusal_of_a_lone_device_speaks_of_that_device() -> None:
    for at, word in ((0, "1 GPU"), (8, "1 NVSwitch")):
        name, device = simulated()[at]
        _, errors = judge_set([(name, device)])
        assert errors[0].message.startswith(f"{name} is {word} of a protected board")
        assert "--unchecked topology" in (errors[0].hint or "")


def test_a_lone_device_that_contradicts_itself_is_refused_whatever_is_tolerated() -> None:
    switch, gpu = simulated()[8][1], simulated()[0][1]
    for device in (
        edited(switch, t22=_ONES),
        edited(switch, t25=b"\0\0"),
        edited(gpu, t21=b"\x55"),
        edited(gpu, t36=b"\0\0"),
        edited(gpu, t36=b"\3\0"),  # a mode that is not understood, beside a status of protected PCIe
        edited(gpu, t21=b"\x56"),
        edited(gpu, 21),
        edited(gpu, 36),
    ):
        assert failing([("alone", device)], NO_TOPOLOGY) == {"topology"}


@pytest.mark.parametrize("change", MISSING.values(), ids=MISSING.keys())
def test_a_board_of_which_something_is_missing_is_refused_unless_that_is_tolerated(
    change: Callable[[Set], Set],
) -> None:
    devices = change(simulated())
    assert failing(devices) == {"topology"}
    assert outcomes(devices, NO_TOPOLOGY)["topology"] is Outcome.NOT_EVALUATED
    checks, errors = judge_set(devices, unchecked=NO_TOPOLOGY)
    assert "one GPU of a board" in checks[-1].got
    assert errors == ()
    assert failing(devices, WITHOUT) == {"topology"}  # other relaxations are none of this one


def test_a_relaxation_tolerates_neither_duplicates_nor_other_challenges_nor_mixed_modes() -> None:
    gpu = simulated()[0]
    assert failing([gpu, ("again", gpu[1])], NO_TOPOLOGY) == {"device.unique"}
    assert failing([gpu, ("b", alone("b", nonce=b"\1" * 32))], NO_TOPOLOGY) == {"device.nonce", "device.mode"}


def test_gpus_of_another_mode_beside_a_switch_are_no_protected_board() -> None:
    devices = [("a", alone("a", "mpt")), ("b", alone("b", "mpt")), simulated()[8]]
    assert failing(devices) == {"topology"}
    assert failing([("a", alone("a", "mpt"))]) == set()


def test_either_field_calls_for_a_topology() -> None:
    for changed in ({"t36": b"\0\0", "t21": b"\xaa"}, {"t36": b"\2\0", "t21": b"\x55"}):
        assert failing([("a", edited(alone("a"), **changed))]) == {"topology"}


def test_a_board_without_relaxations_needs_none() -> None:
    assert outcomes(simulated(), NO_TOPOLOGY)["topology"] is Outcome.PASS


# -- the recorded board


def test_the_recorded_board_passes_and_every_derived_one_is_refused(vectors_dir: Path) -> None:
    board = recorded(vectors_dir)
    assert set(outcomes(board).values()) == {Outcome.PASS}
    assert set(outcomes(board[::-1]).values()) == {Outcome.PASS}
    folder = vectors_dir / "nvidia" / "gh100-550.90.07"
    chain = tuple(parse_certificate(der) for _, der in pem_blocks((folder / "chain.pem").read_bytes()))
    stranger = verify_gpu_evidence(
        parse_nvidia_report(made.recorded(vectors_dir, "gh100-550.90.07")),
        endorsements=Endorsements(certificates=chain),
        anchors=TrustAnchors.vendors(),
        at=AT,
        unchecked=WITHOUT,
    )
    for what, (devices, expected) in derived(board, stranger).items():
        assert failing(devices) == expected, what


def test_two_devices_exchanged_in_place_are_the_same_board(vectors_dir: Path) -> None:
    board = list(recorded(vectors_dir))
    for order in list(permutations(range(4)))[:6]:
        assert failing([*(board[i] for i in order), *board[4:]]) == set()
