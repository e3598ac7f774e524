"""A simulated machine that changes while it runs: its policy holds before and after each change, and not during it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from attest.appraisal import appraise
from attest.endorsements.anchors import TrustAnchors
from attest.errors import ConfigurationError
from attest.evidence.binding import Binding, ExpectedBinding
from attest.evidence.endorsement_files import read_endorsements
from attest.policy import load_policy
from attest.verification import verify
from attest_simulator.changing_machine import CHANGES, ChangingMachine
from attest_simulator.machines import MachineKind

SINCE = datetime(2026, 6, 1, tzinfo=UTC)
BINDING = Binding(context="rag", role="workload", audience="rag.example", nonce=bytes(32), key=b"key")


def affirmed(machine: ChangingMachine, policy: bytes) -> bool:
    files = machine.endorsement_files(at=SINCE)
    verified = verify(
        machine(BINDING),
        endorsements=read_endorsements(list(files.items()), at=SINCE).endorsements,
        anchors=TrustAnchors.simulation(),
        at=SINCE,
        expected=ExpectedBinding(context="rag", role="workload", audience="rag.example", nonce=bytes(32)),
    )
    return appraise(verified, policy=load_policy(policy), at=SINCE).affirmed


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", get_args(MachineKind))
def test_a_change_turns_the_machines_own_policy_red_until_it_is_taken_back(
    kind: MachineKind, change: str, tmp_path: Path
) -> None:
    file = tmp_path / "machine-change"
    machine = ChangingMachine.of(kind, gpus=1, certified_from=SINCE, file=file)
    policy = machine.machine.policy()
    assert affirmed(machine, policy)
    file.write_text(f"{change}\n")
    assert not affirmed(machine, policy)
    file.write_text("")
    assert affirmed(machine, policy)


@pytest.mark.parametrize("content", [b"better-firmware", b"\xff\xfe", b"older-firmware" * 9, None])
def test_an_unknown_change_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "machine-change"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    machine = ChangingMachine.of("snp", gpus=0, certified_from=SINCE, file=file)
    with pytest.raises(ConfigurationError) as refused:
        machine(BINDING)
    assert refused.value.code == "machine-change-unknown"
