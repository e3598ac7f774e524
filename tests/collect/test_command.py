"""`attest collect`: what is written, what is told, and what nothing does without being asked."""

import json
from pathlib import Path

import pytest

from attest.encoding import json_value
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.forms import split_nvidia_json
from tests.cli.conftest import Attest, attest  # noqa: F401  a fixture
from tests.collect.conftest import Machine

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra gpu)")

NONCE = "4cff7f5380ead8fad8ec2c531c110aca4302a88f603792801a8ca29ee151af2e"


def test_what_is_collected_is_what_verification_reads(
    attest: Attest,  # noqa: F811
    machine: Machine,
    vectors_dir: Path,
    tmp_path: Path,
) -> None:
    folder = vectors_dir / "nvidia/gh100-545.00"
    report, chain = bytes.fromhex((folder / "report.hex").read_text()), (folder / "chain.pem").read_bytes()
    machine.has(0, report=report, chain=chain)
    assert attest("collect", "gpu", "--nonce", NONCE, "-o", "gpu.json").code == 0
    ((prefix, item),) = split_nvidia_json(json_value((tmp_path / "gpu.json").read_bytes(), what="file"))
    parsed = parse_nvidia_device(item)
    assert prefix == "gpu"
    assert parsed.report.raw == report
    assert parsed.chain is not None
    assert len(parsed.chain) == 5
    assert (parsed.uuid, parsed.arch) == ("GPU-00000000", "HOPPER")
    assert parsed.settings is not None
    assert (parsed.settings.cc_mode, parsed.settings.driver_version) == (True, "575.57.08")


def test_standard_output_holds_the_evidence_alone_whatever_else_is_asked(
    attest: Attest,  # noqa: F811
    machine: Machine,
) -> None:
    machine.says(count=2)
    for options in ([], ["--json"], ["--quiet"]):
        ran = attest("collect", "gpu", "--nonce", NONCE, *options)
        assert (ran.code, ran.err) == (0, "")
        assert [one["nonce"] for one in json.loads(ran.out)] == [NONCE, NONCE]


def test_a_nonce_made_up_here_is_told(attest: Attest, machine: Machine) -> None:  # noqa: F811
    first, second = attest("collect", "gpu"), attest("collect", "gpu")
    nonce = json.loads(first.out)[0]["nonce"]
    assert first.err == f"nonce: {nonce}\n"
    assert nonce != json.loads(second.out)[0]["nonce"]


def test_what_was_written_is_told_to_programs_and_to_people(attest: Attest, machine: Machine) -> None:  # noqa: F811
    told = attest("collect", "gpu", "--nonce", NONCE, "-o", "a.json", "--json").document
    assert (told["schema"], told["file"], told["nonce"]) == ("attest.collected/1", "a.json", NONCE)
    assert told["gpus"][0]["report_bytes"] == 4037
    ran = attest("collect", "gpu", "--nonce", NONCE, "-o", "b.json")
    assert "GPU-00000000" in ran.out
    assert attest("collect", "gpu", "--nonce", NONCE, "-o", "c.json", "-q").out == ""


def test_a_file_that_is_there_stays_unless_forced(attest: Attest, machine: Machine, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "a.json").write_text("mine")
    assert attest("collect", "gpu", "-o", "a.json").code == 2
    assert (tmp_path / "a.json").read_text() == "mine"
    assert attest("collect", "gpu", "-o", "a.json", "--force").code == 0


def test_developer_tools_are_warned_of(attest: Attest, machine: Machine) -> None:  # noqa: F811
    machine.says(tools=1)
    ran = attest("collect", "gpu", "--nonce", NONCE)
    assert ran.code == 0
    assert ran.err.startswith("warning: developer tools mode is on")


def test_no_evidence_is_exit_6_with_error_and_hint_and_no_file(
    attest: Attest,  # noqa: F811
    machine: Machine,
    tmp_path: Path,
) -> None:
    machine.says(feature=0)
    ran = attest("collect", "gpu", "--nonce", NONCE, "-o", "a.json")
    assert (ran.code, ran.out) == (6, "")
    error, hint = ran.err.splitlines()
    assert error.startswith("error: confidential computing is off")
    assert hint.startswith("hint: ")
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("nonce", ["", "00", "00" * 31, "00" * 33, "zz" * 32])
def test_a_nonce_of_another_length_is_wrong_usage(attest: Attest, nonce: str) -> None:  # noqa: F811
    ran = attest("collect", "gpu", "--nonce", nonce)
    assert (ran.code, ran.out) == (2, "")


def test_the_state_is_shown_to_programs_and_to_people(attest: Attest, machine: Machine) -> None:  # noqa: F811
    machine.says(tools=1, multi=1)
    told = attest("collect", "gpu-state", "--json").document
    assert told["schema"] == "attest.gpu-state/1"
    assert (told["cc_mode"], told["dev_tools_mode"], told["multi_gpu_mode"]) == (True, True, "protected-pcie")
    assert told["ready"] is False
    assert "protected-pcie" in attest("collect", "gpu-state").out
    assert attest("collect", "gpu-state", "-q").out == ""


def test_setting_ready_is_a_dry_run_until_it_is_said_twice(attest: Attest, machine: Machine) -> None:  # noqa: F811
    ran = attest("collect", "gpu-state", "--set-ready", "--json")
    assert "dry run" in ran.err
    assert (ran.document["set_ready"], ran.document["ready"]) == ("dry run: nothing was changed", False)
    assert attest("collect", "gpu-state", "--json").document["ready"] is False
    ran = attest("collect", "gpu-state", "--set-ready", "--yes", "--json")
    assert (ran.code, ran.err, ran.document["set_ready"], ran.document["ready"]) == (0, "", "done", True)
    assert attest("collect", "gpu-state", "--yes").code == 2


def test_a_simulated_gpu_is_collected_and_verified(
    attest: Attest,  # noqa: F811
    machine: Machine,
    tmp_path: Path,
) -> None:
    from attest_simulator.nvidia import SimulatedGpu

    gpu = SimulatedGpu.of("collected")
    # NVML's buffer has 5,120 bytes and the simulator's names are long: its root comes as an endorsement.
    chain, begin, root = gpu.chain_pem.rpartition(b"-----BEGIN CERTIFICATE-----")
    (tmp_path / "root.pem").write_bytes(begin + root)
    machine.has(0, report=gpu.report(bytes.fromhex(NONCE)), chain=chain)
    assert attest("collect", "gpu", "--nonce", NONCE, "-o", "gpu.json", "-q").code == 0
    relaxed = ("--endorsements", "root.pem", "--unchecked", "revocation=a test", "--unchecked", "rim=a test")
    ran = attest("verify", "gpu.json", "--nonce", NONCE, "--allow-simulated", "--offline", "--json", *relaxed)
    assert ran.code == 0, ran.err
    assert ran.document["simulated"] is True
    assert ran.document["freshness"] == "matched"
    assert attest("verify", "gpu.json", "--nonce", "00" * 32, "--allow-simulated", "--offline", *relaxed).code == 4
