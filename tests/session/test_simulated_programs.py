"""`attest simulate machine -- PROGRAM`: a program that was not changed runs on each kind of simulated machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attest.collect.machine import collect_all
from attest.policy import load_policy
from attest_simulator.machine_access import simulated_machine
from attest_simulator.machines import MachineKind, SimulatedMachine
from attest_simulator.program_machine import MACHINE_VARIABLE, ChipDescription, MachineDescription, described_access
from tests.kms.process import ServedProcess
from tests.kms.support import MATERIAL
from tests.session.serving import GPUS, KINDS, key_for
from tests.session.test_commands import environment

pytestmark = pytest.mark.loopback
PROGRAM = (
    "import sys, attest\n"
    "with attest.Session() as session:\n"
    "    print(session.key(sys.argv[1]).export() == bytes.fromhex(sys.argv[2])[::-1])\n"
)
"""What a program does in production; nothing in it knows of a simulator."""


def simulate(
    *arguments: object, served: ServedProcess | None = None, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    given = dict(os.environ) if served is None else environment(served)
    return subprocess.run(
        [sys.executable, "-m", "attest.cli.main", "simulate", "machine", *map(str, arguments)],
        env=given | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("kind", "gpus"),
    [
        pytest.param(kind, gpus, marks=[] if (index + number) % 2 == 0 else pytest.mark.slow)
        for index, kind in enumerate(KINDS)
        for number, gpus in enumerate(GPUS)
    ],
)
def test_an_unchanged_program_gets_its_key_on_each_machine(
    served: ServedProcess, tmp_path: Path, kind: MachineKind, gpus: int
) -> None:
    """Each kind of machine is tried each day, with GPUs or without; every combination by ``make slow``."""
    program = (sys.executable, "-c", PROGRAM, key_for(kind, gpus), MATERIAL[::-1].hex())
    ran = simulate("--kind", kind, "--gpus", gpus, "--", *program, served=served, folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr
    assert "SIMULATED" in ran.stderr


def test_a_machine_gets_no_key_of_another(served: ServedProcess, tmp_path: Path) -> None:
    program = (sys.executable, "-c", PROGRAM, key_for("snp", 2), MATERIAL[::-1].hex())
    for options in ((), ("--kind", "tdx"), ("--gpus", 1), ("--gpus", 2, "--measurement", "ab" * 48)):
        ran = simulate(*options, "--", *program, served=served, folder=tmp_path)
        assert (ran.returncode, "PolicyNotMetError" in ran.stderr) == (1, True), ran.stderr


def test_a_program_started_by_a_script_is_on_the_machine_too(served: ServedProcess, tmp_path: Path) -> None:
    inner = f"{sys.executable} -m attest.cli.main run --env URL=database -- sh -c 'test -n \"$URL\" && exit 7'"
    ran = simulate("--", "sh", "-c", inner, served=served, folder=tmp_path)
    assert ran.returncode == 7, ran.stderr


def test_a_program_started_by_attest_run_is_on_the_machine_too(served: ServedProcess, tmp_path: Path) -> None:
    code = "import attest.collect.access as a; print(a.THIS_MACHINE.root)"
    command = ("run", "--env", "URL=database", "--", sys.executable, "-c", code)
    ran = simulate("--", *command, served=served, folder=tmp_path)
    assert (ran.returncode, ran.stdout.startswith("/") and ran.stdout != "/\n") == (0, True), ran.stderr


def test_the_attest_command_of_another_process_collects_there(tmp_path: Path) -> None:
    inner = f"{sys.executable} -m attest.cli.main collect evidence --nonce abcd -o evidence.json --json"
    ran = simulate("--kind", "azure-snp", "--", "sh", "-c", inner, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["interface"] == "azure-vtpm"
    assert {"cpu", "eventlog"} <= json.loads((tmp_path / "evidence.json").read_bytes()).keys()


def test_without_the_simulator_a_program_is_on_the_real_machine(tmp_path: Path) -> None:
    code = "import attest.collect.access as a; print(a.THIS_MACHINE.root)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, MACHINE_VARIABLE: '{"root": "/nowhere", "kind": "snp"}'},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, "/\n"), ran.stderr


def test_a_program_keeps_its_own_import_path_and_start(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.started = 'mine'\n", encoding="utf-8")
    (tmp_path / "own.py").write_text("value = 3\n", encoding="utf-8")
    code = "import own, sys; print(started, own.value, 'attest' in sys.modules, 'attest_simulator' in sys.modules)"
    ran = simulate("--", sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    assert (ran.returncode, ran.stdout) == (0, "mine 3 False False\n"), ran.stderr


@pytest.mark.parametrize(("code", "expected"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, code: str, expected: int) -> None:
    assert simulate("--", "sh", "-c", code, folder=tmp_path).returncode == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("--", "/no/such/program"),
        ("--kind", "tdx", "--product", "Milan", "--", "true"),
        ("--kind", "sgx", "--", "true"),
        ("--gpus", "9", "--", "true"),
        ("--kind", "tdx", "--measurement", "ab", "--", "true"),
    ],
)
def test_a_machine_that_cannot_be_made_is_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert simulate(*arguments, folder=tmp_path).returncode == 2


def test_signals_reach_the_program_and_nothing_is_left(tmp_path: Path) -> None:
    code = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    command = [sys.executable, "-m", "attest.cli.main", "simulate", "machine", "--", "sh", "-c", code]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 9
    assert list(tmp_path.iterdir()) == []


def test_what_a_service_needs_of_the_machine_is_written(tmp_path: Path) -> None:
    ran = simulate(
        *("--kind", "tdx", "--gpus", 1, "--policy-out", "policy.json", "--endorsements-out", "vendors", "--", "true"),
        folder=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert load_policy((tmp_path / "policy.json").read_bytes()).name == "simulated"
    assert "intel.json" in {file.name for file in (tmp_path / "vendors").iterdir()}


@pytest.mark.parametrize("gpus", GPUS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_described_machine_collects_as_the_one_that_was_described(kind: MachineKind, gpus: int) -> None:
    description = MachineDescription(kind=kind, gpus=gpus, measurement="cd" * 48)
    with simulated_machine(description.machine()) as access:
        text = description.variables(access.root)[MACHINE_VARIABLE]
        made, again = (collect_all(b"n" * 32, access=one) for one in (access, described_access(text)))
    assert made.evidence == again.evidence
    assert (made.tee, made.gpus) == ("sev-snp" if kind == "snp" else kind, gpus)


def test_the_chip_is_the_described_one() -> None:
    levels = {"bootloader": 9, "tee": 0, "snp": 20, "microcode": 60}
    chip = ChipDescription(product="Milan", report_version=3, name="other", tcb=levels)
    machine = MachineDescription(kind="snp", chip=chip).machine()
    assert isinstance(machine, SimulatedMachine)
    assert machine.cpu.chip.reported_tcb.components() == levels  # type: ignore[union-attr]  # an SNP machine
