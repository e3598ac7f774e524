"""Several devices of one machine: different ones, with one nonce, and on a protected board all of them.

On a board in protected-PCIe mode the links between GPUs and NVSwitches are not encrypted, so the set of devices must
be complete and belong together. Each names its neighbours by their PDI, and the PDI of each is in its certificate.

Spec: specs/nvidia-gpu.md, section 14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from attest.checks import Check, Outcome, Unchecked
from attest.errors import BindingError
from attest.evidence.gpu.opaque_types import PROTECTED_PCIE, UNPROTECTED
from attest.evidence.gpu.verify import VerifiedGpu

BOARD_GPUS = 8
BOARD_SWITCHES = 4
"""An HGX board has eight GPUs and four NVSwitches."""
_HINT = (
    "give the evidence of all GPUs and NVSwitches of the board; if a service gives no evidence of its switches, "
    "--unchecked topology=REASON skips the missing ones"
)
_LOCKED = 1
"""Opaque field 25 of a switch."""
_OFF = bytes(8)
_CLAUSE = "NVIDIA nvtrust, topology of protected PCIe"

NamedDevice = tuple[str, VerifiedGpu]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A contradiction in the topology.

    Attributes:
        negative: the devices contradict each other or the rule; otherwise something is only not there.
    """

    negative: bool
    problem: str
    expected: str
    got: str


def judge_set(
    devices: Sequence[NamedDevice], *, unchecked: tuple[Unchecked, ...] = ()
) -> tuple[tuple[Check, ...], tuple[BindingError, ...]]:
    """Judge what no single device can show: that they are different, fresh together, of one mode, and complete.

    Args:
        devices: every verified GPU and NVSwitch of one Attester with the name of its item, in any order.
        unchecked: ``topology`` tolerates that devices are missing, or that a board does not say who its neighbours
            are; duplicates, other nonces and contradictions refuse all the same. With one device alone, whatever it
            says of its neighbours is not evaluated.

    Returns:
        The checks ``device.unique``, ``device.nonce`` and ``device.mode`` for two or more devices, ``topology`` as
        soon as there is a switch or a GPU that says that it is in protected-PCIe mode; and one error for each check
        that failed, with its id. Both are empty for a single GPU.

    Spec: specs/nvidia-gpu.md, section 14; CLI.md, "Options".
    """
    found: list[tuple[Check, BindingError | None]] = []
    if len(devices) > 1:
        found += [_unique(devices), _nonce(devices), _mode(devices)]
    if any(_calls_for_topology(device) for _, device in devices):
        found.append(_topology(devices, unchecked))
    return tuple(check for check, _ in found), tuple(error for _, error in found if error is not None)


def _calls_for_topology(device: VerifiedGpu) -> bool:
    """Return whether a device belongs to a board whose devices come together, so that a missing one is seen."""
    opaque = device.evidence.report.opaque
    return device.kind == "nvidia-switch" or opaque.mode == PROTECTED_PCIE or opaque.contradicts_mode


def _outcome(
    check: str, *, code: str, expected: str, got: str, problem: str | None, hint: str | None = None
) -> tuple[Check, BindingError | None]:
    """Build a check and, where there is a problem, the refusal that goes with it."""
    outcome = Outcome.PASS if problem is None else Outcome.FAIL
    shown = Check(id=check, outcome=outcome, expected=expected, got=got, clause=_CLAUSE)
    if problem is None:
        return shown, None
    return shown, BindingError(problem, code=code, check=check, expected=expected, got=got, clause=_CLAUSE, hint=hint)


# -- any two devices


def _unique(devices: Sequence[NamedDevice]) -> tuple[Check, BindingError | None]:
    counts = Counter(device.chain.identity.text for _, device in devices)
    twice = [identity for identity, count in counts.items() if count > 1]
    names = [name for name, device in devices if twice and device.chain.identity.text == twice[0]]
    return _outcome(
        "device.unique",
        code="gpu-device-repeated",
        expected=f"{len(devices)} different devices",
        got=f"{len(counts)} different devices" + (f", {' and '.join(names)} are {twice[0]}" if twice else ""),
        problem=f"the same device occurs twice: {' and '.join(names)} are {twice[0]}" if twice else None,
    )


def _nonce(devices: Sequence[NamedDevice]) -> tuple[Check, BindingError | None]:
    first_name, first = devices[0]
    other = next(((name, device) for name, device in devices if device.nonce != first.nonce), None)
    got = f"{first.nonce.hex()} in all" if other is None else f"{other[1].nonce.hex()} in {other[0]}"
    return _outcome(
        "device.nonce",
        code="gpu-nonces-differ",
        expected=f"one nonce, {first.nonce.hex()} as in {first_name}",
        got=got,
        problem=None if other is None else f"{first_name} and {other[0]} answer different challenges",
    )


def _mode(devices: Sequence[NamedDevice]) -> tuple[Check, BindingError | None]:
    """Compare the GPUs' modes; a switch states none."""
    modes = {name: _mode_text(device) for name, device in devices if device.kind == "nvidia-gpu"}
    different = sorted(set(modes.values()))
    mixed = len(different) > 1
    return _outcome(
        "device.mode",
        code="gpu-modes-differ",
        expected="one mode in all GPUs (opaque data types 36 and 21)",
        got=", ".join(f"{name}: {mode}" for name, mode in modes.items()) if mixed else "".join(different) or "no GPU",
        problem=f"the GPUs are in different modes: {' and '.join(different)}" if mixed else None,
    )


_MODE_TEXTS = {
    "spt": "single GPU pass-through",
    "mpt": "multi GPU pass-through",
    PROTECTED_PCIE: "protected PCIe",
    UNPROTECTED: "not protected PCIe",
}


def _mode_text(device: VerifiedGpu) -> str:
    mode = device.evidence.report.opaque.mode
    return "not stated" if mode is None else _MODE_TEXTS[mode]


# -- a protected board


def _topology(devices: Sequence[NamedDevice], unchecked: tuple[Unchecked, ...]) -> tuple[Check, BindingError | None]:
    board = _Board(devices)
    findings = sorted((found for rule in _RULES for found in rule(board)), key=lambda found: not found.negative)
    reasons = "; ".join(decision.reason for decision in unchecked if decision.check == "topology")
    expected = f"{BOARD_GPUS} GPUs and {BOARD_SWITCHES} NVSwitches that name exactly each other"
    if not findings:
        return _outcome("topology", code="gpu-topology-invalid", expected=expected, got="they do", problem=None)
    first = findings[0]
    if reasons and not first.negative:
        got = f"unchecked: {reasons}"
        not_evaluated = Outcome.NOT_EVALUATED
        return Check(id="topology", outcome=not_evaluated, expected=expected, got=got, clause=_CLAUSE), None
    hint = None if first.negative else _HINT
    return _outcome(
        "topology",
        code="gpu-topology-invalid",
        expected=first.expected,
        got=first.got,
        problem=first.problem,
        hint=hint,
    )


class _Board:
    """The devices by kind.

    Attributes:
        lone: there is one device, and so no neighbour with which its statements could be compared.
    """

    def __init__(self, devices: Sequence[NamedDevice]) -> None:
        self.gpus = [(name, device) for name, device in devices if device.kind == "nvidia-gpu"]
        self.switches = [(name, device) for name, device in devices if device.kind == "nvidia-switch"]
        self.gpu_pdis = frozenset(device.chain.identity.pdi for _, device in self.gpus)
        self.switch_pdis = frozenset(device.chain.identity.pdi for _, device in self.switches)
        self.names = [name for name, _ in devices]
        self.lone = len(devices) == 1


def _counts(board: _Board) -> Iterator[_Finding]:
    """Count devices. One that is missing may have been left out; one too many belongs to another board."""
    found = (len(board.gpus), len(board.switches))
    if found != (BOARD_GPUS, BOARD_SWITCHES):
        whole = f"a protected board of {BOARD_GPUS} GPUs and {BOARD_SWITCHES} NVSwitches"
        there = f"{found[0]} GPUs and {found[1]} NVSwitches are present"
        alone = f"{board.names[0]} is 1 {'GPU' if board.gpus else 'NVSwitch'}"
        yield _Finding(
            negative=found[0] > BOARD_GPUS or found[1] > BOARD_SWITCHES,
            problem=f"{alone} of {whole}, and no other device is present" if board.lone else f"of {whole} {there}",
            expected=f"{BOARD_GPUS} GPUs and {BOARD_SWITCHES} NVSwitches",
            got=f"{found[0]} GPUs and {found[1]} NVSwitches",
        )


def _gpus_name_switches(board: _Board) -> Iterator[_Finding]:
    named = [(name, _lit(device.evidence.report.opaque.switch_pdis)) for name, device in board.gpus]
    return _name_each_other(named, "NVSwitches", board.switch_pdis, BOARD_SWITCHES, lone=board.lone)


def _switches_name_gpus(board: _Board) -> Iterator[_Finding]:
    named = [(name, _lit(device.evidence.report.opaque.gpu_pdis)) for name, device in board.switches]
    return _name_each_other(named, "GPUs", board.gpu_pdis, BOARD_GPUS, lone=board.lone)


def _lit(pdis: tuple[bytes, ...] | None) -> frozenset[bytes] | None:
    """Return the neighbours of a device, without the links that are off; None when it states none."""
    return None if pdis is None else frozenset(pdis) - {_OFF}


def _name_each_other(
    named: list[tuple[str, frozenset[bytes] | None]], kind: str, present: frozenset[bytes], size: int, *, lone: bool
) -> Iterator[_Finding]:
    """Require all statements to be equal, since halves of two boards make no board, and to name what is there."""
    stated = [(name, pdis) for name, pdis in named if pdis is not None]
    for name, pdis in stated[1:]:
        if pdis != stated[0][1]:
            problem = f"{name} names other {kind} than {stated[0][0]}"
            yield _Finding(negative=True, problem=problem, expected=_listed(stated[0][1]), got=_listed(pdis))
    for name, neighbours in named:
        yield from _neighbours(name, kind, neighbours, present, size, lone=lone)


def _neighbours(
    name: str, kind: str, named: frozenset[bytes] | None, present: frozenset[bytes], size: int, *, lone: bool
) -> Iterator[_Finding]:
    """Compare sets, never numbers of links: those differ from device to device."""
    if named is None:
        problem = f"{name} names no {kind}"
        yield _Finding(negative=False, problem=problem, expected=f"the ids of {size} {kind}", got="none stated")
    elif len(named) != size or not present <= named:
        yield _Finding(
            negative=not lone,
            problem=f"{name} names {len(named)} different {kind}"
            if present <= named
            else f"{name} names other {kind} than those that are present",
            expected=f"{size} {kind}" + (f", among them {_listed(present)}" if present else ""),
            got=_listed(named),
        )
    elif named != present:
        problem = f"{name} names {kind} that are not present"
        yield _Finding(negative=False, problem=problem, expected=_listed(named), got=_listed(present))


def _listed(pdis: frozenset[bytes]) -> str:
    return ", ".join(sorted(pdi.hex() for pdi in pdis)) or "none"


def _switches_are_themselves(board: _Board) -> Iterator[_Finding]:
    for name, device in board.switches:
        own, certified = device.evidence.report.opaque.own_pdi, device.chain.identity.pdi
        if own != certified:
            yield _Finding(
                negative=own is not None,
                problem=f"{name} states another identity than its certificate",
                expected=certified.hex(),
                got="not stated" if own is None else own.hex(),
            )


def _switches_are_locked(board: _Board) -> Iterator[_Finding]:
    for name, device in board.switches:
        status = device.evidence.report.opaque.lock_status
        if status != _LOCKED:
            yield _Finding(
                negative=status is not None,
                problem=f"{name} is not locked (opaque data type 25)",
                expected=str(_LOCKED),
                got="not stated" if status is None else str(status),
            )


def _gpus_are_protected(board: _Board) -> Iterator[_Finding]:
    """Require protected PCIe of every GPU, and no status (type 21) that contradicts the feature flag (type 36)."""
    for name, device in board.gpus:
        opaque = device.evidence.report.opaque
        if opaque.contradicts_mode or opaque.mode != PROTECTED_PCIE:
            status = "not stated" if opaque.protected_pcie is None else f"{opaque.protected_pcie:#x}"
            yield _Finding(
                negative=opaque.contradicts_mode,
                problem=f"{name} contradicts itself about its mode (opaque data types 36 and 21)"
                if opaque.contradicts_mode
                else f"{name} is not in protected-PCIe mode (opaque data types 36 and 21)",
                expected=_MODE_TEXTS[PROTECTED_PCIE],
                got=f"{_mode_text(device)}, status {status}",
            )


def _one_driver(board: _Board) -> Iterator[_Finding]:
    versions = sorted({device.driver_version or "not stated" for _, device in board.gpus})
    if len(versions) > 1:
        yield _Finding(
            negative=True,
            problem="the GPUs of a protected board run different drivers",
            expected="one driver version",
            got=", ".join(versions),
        )


_RULES: tuple[Callable[[_Board], Iterator[_Finding]], ...] = (
    _counts,
    _gpus_are_protected,
    _gpus_name_switches,
    _switches_name_gpus,
    _switches_are_themselves,
    _switches_are_locked,
    _one_driver,
)
