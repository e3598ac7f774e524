"""`attest simulate` with NVIDIA devices: evidence, machines, endorsements, and NVIDIA's services."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.ocsp_answers import refusal_of
from attest.endorsements.rims import parse_rim_answer
from attest.evidence.binding import parse_binding
from attest.evidence.envelope import parse_envelope
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.forms import split_nvidia_json
from attest_simulator.nvidia import SimulatedGpu
from tests.cli.conftest import LAB, WHEN, Attest, Files
from tests.samples import AT

NONCE = "0123456789abcdef" * 4
MACHINE = ("--gpus", 8, "--switches", 4, "--form", "envelope", "--nonce", NONCE, "--at", WHEN)


def test_a_gpu_is_written_as_the_collector_writes_it(attest: Attest, files: Files) -> None:
    made = attest("simulate", "gpu", "--nonce", NONCE, "-o", "g", "--dev-tools", "--driver", "580.95.05")
    assert (made.code, made.out) == (0, "")
    assert "SIMULATED" in made.err
    ((prefix, item),) = split_nvidia_json(json.loads((files.folder / "g").read_bytes()))
    parsed = parse_nvidia_device(item)
    assert (prefix, parsed.arch, parsed.report.nonce.hex()) == ("gpu", "HOPPER", NONCE)
    assert parsed.report.opaque.driver_version == "580.95.05"
    assert parsed.settings is not None
    assert parsed.settings.dev_tools_mode


def test_the_same_options_give_the_same_bytes_and_another_name_other_devices(attest: Attest, files: Files) -> None:
    for name, options in {"a": [], "b": [], "c": ["--board", "board 1"], "d": ["--architecture", "blackwell"]}.items():
        attest("simulate", "gpu", "--at", WHEN, *options, "-o", name, "--device-endorsements-out", f"{name}.e")
    a, b, c, d = ((files.folder / name).read_bytes() for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3
    assert (files.folder / "a.e").read_bytes() == (files.folder / "b.e").read_bytes()


def test_the_endorsements_of_a_board_are_a_bundle(attest: Attest, files: Files) -> None:
    options = ("--gpus", 8, "--switches", 4, "--at", WHEN, "--device-days", 30)
    attest("simulate", "gpu", *options, "-o", "g", "--device-endorsements-out", "e")
    found = parse_bundle((files.folder / "e").read_bytes()).endorsements
    assert (len(found.rims), len(found.ocsp)) == (3, 21)
    assert all(answer.next_update and (answer.next_update - answer.this_update).days == 31 for answer in found.ocsp)


@pytest.mark.parametrize("command", ["evidence", "td"])
def test_a_machine_with_devices_is_one_envelope_bound_together(attest: Attest, files: Files, command: str) -> None:
    made = attest("simulate", command, *MACHINE, "-o", "m", "--device-endorsements-out", "e")
    assert (made.code, made.out) == (0, "")
    evidence = parse_envelope((files.folder / "m").read_bytes())
    bound = evidence.item("binding")
    assert bound is not None
    binding = parse_binding(bound.value)
    devices = sorted((i for i in evidence.items if i.name.startswith(("gpu", "nvswitch"))), key=lambda item: item.name)
    assert len(devices) == 12
    assert binding.nonce.hex() == NONCE
    assert binding.devices == tuple(item.digest for item in devices)
    assert {parse_nvidia_device(item.value).report.nonce for item in devices} == {binding.gpu_nonce()}
    cpu = evidence.item("cpu")
    assert cpu is not None
    assert binding.report_data() in cpu.value
    assert (files.folder / "e").stat().st_size > 0


def test_devices_verify_in_the_laboratory_and_nowhere_else(attest: Attest) -> None:
    for options in (["--gpus", 2], ["--architecture", "blackwell"], ["--gpus", 8, "--switches", 4]):
        out = ("-o", "g", "--device-endorsements-out", "e", "--force")
        attest("simulate", "gpu", "--nonce", NONCE, "--at", WHEN, *options, *out)
        ran = attest("verify", "g", "--endorsements", "e", *LAB, "--nonce", NONCE, "-q")
        assert ran.code == 0, ran.err
        ran = attest("verify", "g", "--endorsements", "e", "--offline", "--at", WHEN, "--nonce", NONCE)
        assert (ran.code, "simulated-root-refused" in ran.out + ran.err) == (4, True)


def test_a_machine_verifies_as_a_whole_and_not_without_one_of_its_devices(attest: Attest, files: Files) -> None:
    out = ("-o", "m", "--device-endorsements-out", "e", "--collateral-out", "c")
    attest("simulate", "td", *MACHINE, *out)
    endorsed = ("--endorsements", "e", "--endorsements", "c", *LAB)
    ran = attest("verify", "m", *endorsed, "--nonce", NONCE, "--json")
    assert ran.code == 0, ran.err
    assert [item["kind"] for item in ran.document["items"]] == ["tdx", *["nvidia-gpu"] * 8, *["nvidia-switch"] * 4]
    evidence = parse_envelope((files.folder / "m").read_bytes())
    fewer = replace(evidence, items=tuple(item for item in evidence.items if item.name != "gpu5"))
    files.write("fewer", fewer.to_json())
    ran = attest("verify", "fewer", *endorsed, "--nonce", NONCE)
    assert (ran.code, "binding-devices-mismatch" in ran.out + ran.err) == (4, True)


def test_a_part_of_a_board_verifies_only_where_that_is_left_out_by_name(attest: Attest) -> None:
    for options in (["--gpus", 0, "--switches", 1], ["--gpus", 2, "--switches", 4]):
        out = ("-o", "g", "--device-endorsements-out", "e", "--force")
        attest("simulate", "gpu", "--nonce", NONCE, "--at", WHEN, *options, *out)
        usual = ("verify", "g", "--endorsements", "e", *LAB, "--nonce", NONCE, "-q")
        assert attest(*usual).code == 4
        assert attest(*usual, "--unchecked", "topology=a test").code == 0


def test_wrong_options(attest: Attest) -> None:
    for command, options in (
        ("gpu", ["--gpus", "0"]),
        ("gpu", ["--gpus", "9"]),
        ("gpu", ["--switches", "5"]),
        ("gpu", ["--driver", "latest"]),
        ("gpu", ["--nonce", "00"]),
        ("gpu", ["--architecture", "ampere"]),
        ("evidence", ["--gpus", "1"]),
        ("evidence", ["--gpus", "1", "--form", "envelope", "--report-data", "00" * 64]),
        ("evidence", ["--gpus", "1", "--form", "envelope", "--nonce-text", "short"]),
        ("evidence", ["--device-endorsements-out", "e"]),
        ("td", ["--gpus", "1"]),
        ("td", ["--switches", "1", "--form", "envelope", "--nonce", "00"]),
    ):
        ran = attest("simulate", command, *options, "-o", "x", "--force")
        assert (ran.code, ran.out) == (2, ""), (command, options)


@pytest.mark.loopback
def test_a_verifier_fetches_what_it_needs_from_the_simulated_nvidia(attest: Attest) -> None:
    command = [sys.executable, "-c", "from attest.cli.main import main; raise SystemExit(main())"]
    process = subprocess.Popen(
        [*command, "simulate", "nvidia", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        driver, _ = SimulatedGpu.of().rims(at=AT)
        with urllib.request.urlopen(f"{url}/v1/rim/{driver.id}", timeout=10) as answer:  # noqa: S310  loopback
            assert parse_rim_answer(answer.read()).id == driver.id
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{url}/v1/rim/NV_NOTHING", timeout=10)  # noqa: S310  loopback
        assert missing.value.code == 404
        missing.value.close()
        attest("simulate", "gpu", "--nonce", NONCE, "-o", "g")
        services = ("--rim-url", url, "--ocsp-url", url, "--cache", "cache")
        ran = attest("verify", "g", "--nonce", NONCE, "--allow-simulated", *services, "-q")
        assert ran.code == 0, ran.err
        with urllib.request.urlopen(url, data=b"nonsense", timeout=10) as answer:  # noqa: S310  loopback
            assert answer.headers["Content-Type"] == "application/ocsp-response"
            assert refusal_of(answer.read()) is not None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
