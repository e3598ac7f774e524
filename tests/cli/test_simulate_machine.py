"""`attest simulate machine`: commands that ask their machine, where there is none to ask."""

import json
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.conftest import Attest

OLD = "bootloader=9,tee=0,snp=20,microcode=60"


def test_a_command_collects_on_a_simulated_machine(attest: Attest, tmp_path: Path) -> None:
    made = attest("simulate", "machine", "--", "collect", "evidence", "--nonce", "ab" * 32, "-o", "evidence.json")
    assert made.code == 0, made.err
    assert "SIMULATED" in made.err
    told = attest("verify", "evidence.json", "--nonce", "ab" * 32, "--json", "--allow-simulated", "--offline")
    # As on a real guest, whose host supplies no revocation list.
    assert told.code == 5, told.err
    bundle = attest("simulate", "endorsements", "-o", "chip.endorsements")
    assert bundle.code == 0, bundle.err
    verify = ("verify", "evidence.json", "--nonce", "ab" * 32, "--offline", "--endorsements", "chip.endorsements")
    told = attest(*verify, "--json", "--allow-simulated")
    assert (told.code, json.loads(told.out)["simulated"]) == (0, True), told.err
    assert attest(*verify).code == 4


@pytest.mark.parametrize(
    ("options", "claim", "expected"),
    [
        (("--tcb", OLD), "reported_tcb", {"bootloader": 9, "tee": 0, "snp": 20, "microcode": 60}),
        (("--measurement", "cd" * 48), "measurement", "cd" * 48),
    ],
)
def test_the_machine_is_what_the_options_say(
    attest: Attest, options: tuple[str, ...], claim: str, expected: object
) -> None:
    made = attest("simulate", "machine", *options, "--", "collect", "evidence", "--nonce", "ab", "-o", "evidence.json")
    assert made.code == 0, made.err
    assert attest("simulate", "endorsements", *options[:2][: 2 * (claim != "measurement")], "-o", "e").code == 0
    told = attest(
        *("verify", "evidence.json", "--nonce", "ab", "--json", "--allow-simulated", "--offline", "--endorsements", "e")
    )
    assert told.code == 0, told.err
    assert json.loads(told.out)["items"][0]["claims"][claim] == expected


def test_the_gpus_of_the_machine_are_collected_and_shown_alone(attest: Attest, tmp_path: Path) -> None:
    machine = ("simulate", "machine", "--gpus", "2", "--")
    made = attest(*machine, "collect", "gpu", "--nonce", "ab" * 32, "-o", "gpus.json")
    assert made.code == 0, made.err
    assert len(json.loads((tmp_path / "gpus.json").read_text())) == 2
    shown = attest(*machine, "collect", "gpu-state", "--json")
    assert (shown.code, len(json.loads(shown.out)["gpus"])) == (0, 2), shown.err


def test_the_exit_code_is_the_commands_own(attest: Attest) -> None:
    assert attest("simulate", "machine", "--", "no-such-command").code == 2
    assert attest("simulate", "machine", "--", "key", "get", "model", "--out", "absent/key").code == 2
    assert attest("simulate", "machine").code == 2
    assert attest("simulate", "machine", "attest", "no-such-command").code == 2
    assert attest("simulate", "machine", "attest", "completion", "bash").code == 0


def test_nothing_of_it_is_left_on_the_disk(attest: Attest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert attest("simulate", "machine", "--", "doctor", "--offline").code in {0, 1, 2}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_kinds_of_the_option_are_those_of_the_simulator() -> None:
    from attest_simulator.cli.simulate import KINDS
    from attest_simulator.machines import MachineKind

    assert get_args(MachineKind) == KINDS
