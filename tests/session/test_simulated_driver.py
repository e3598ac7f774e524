"""`attest simulate machine --gpus N -- PROGRAM`: a program that loads NVML, and not `attest`, gets evidence of GPUs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attest_simulator.machines import SimulatedMachine
from attest_simulator.nvidia import SimulatedBoard
from tests.compilers import require_compiler
from tests.session.programs import simulate, verified

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed (extra gpu)")
NONCE = bytes(range(32))
OTHER = bytes(reversed(range(32)))
COLLECT = """
import base64, json, sys
from pynvml import *

def text(data, size):
    return base64.b64encode(bytes(data[:size])).decode()

nonce = bytes.fromhex(sys.argv[1])
nvmlInit()
found = []
for index in range(nvmlDeviceGetCount()):
    gpu = nvmlDeviceGetHandleByIndex(index)
    made = nvmlDeviceGetConfComputeGpuAttestationReport(gpu, nonce)
    chain = nvmlDeviceGetConfComputeGpuCertificate(gpu)
    found.append({
        "arch": {NVML_DEVICE_ARCH_HOPPER: "HOPPER"}[nvmlDeviceGetArchitecture(gpu)],
        "nonce": nonce.hex(),
        "evidence": text(made.attestationReport, made.attestationReportSize),
        "certificate": text(chain.attestationCertChain, chain.attestationCertChainSize),
    })
nvmlShutdown()
print(json.dumps(found))
"""
"""A collector that knows nvidia-ml-py alone; what it prints has the form of NVIDIA's SDK."""
SEEN = """
import json
from pynvml import *

nvmlInit()
gpus = [nvmlDeviceGetHandleByIndex(index) for index in range(nvmlDeviceGetCount())]
state = nvmlSystemGetConfComputeState()
capabilities = nvmlSystemGetConfComputeCapabilities()
print(json.dumps({
    "driver": nvmlSystemGetDriverVersion(),
    "names": [nvmlDeviceGetName(gpu) for gpu in gpus],
    "uuids": [nvmlDeviceGetUUID(gpu) for gpu in gpus],
    "vbios": [nvmlDeviceGetVbiosVersion(gpu) for gpu in gpus],
    "found": [nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(gpu))) for gpu in gpus],
    "state": [state.environment, state.ccFeature, state.devToolsMode],
    "ready": nvmlSystemGetConfComputeGpusReadyState(),
    "capabilities": [capabilities.cpuCaps, capabilities.gpusCaps],
}))
try:
    nvmlDeviceGetHandleByIndex(len(gpus))
except NVMLError_InvalidArgument:
    print("no more")
"""


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    require_compiler()


def python(program: str, *arguments: str) -> tuple[str, ...]:
    """The command of a program that finds no module of `attest simulate`, for its Python ignores the environment."""
    return (sys.executable, "-I", "-c", program, *arguments)


def test_an_unchanged_program_gets_evidence_of_each_gpu_for_its_own_nonce(tmp_path: Path) -> None:
    vendors, far = tmp_path / "vendors", tmp_path / ("far" * 40)  # a path for which a socket's address has no room
    far.mkdir()
    ran = simulate("--gpus", 2, "--endorsements-out", vendors, "--", *python(COLLECT, NONCE.hex()), TMPDIR=str(far))
    assert ran.returncode == 0, ran.stderr
    file = tmp_path / "gpus.json"
    file.write_bytes(ran.stdout)
    assert len(json.loads(ran.stdout)) == 2
    assert verified(file, "--nonce", NONCE.hex(), "--endorsements", vendors) == "verified"
    assert verified(file, "--nonce", OTHER.hex(), "--endorsements", vendors) == "nonce-mismatch"
    assert (
        verified(file, "--nonce", NONCE.hex(), "--endorsements", vendors, simulated=False) == "simulated-root-refused"
    )


def test_the_driver_says_what_the_machine_has_and_that_it_is_simulated() -> None:
    ran = simulate("--kind", "tdx", "--gpus", 2, "--", *python(SEEN))
    said, last = ran.stdout.decode().splitlines()
    board = SimulatedMachine.of("tdx", gpus=2).board
    assert isinstance(board, SimulatedBoard)
    assert json.loads(said) == {
        "driver": board.gpus[0].driver,
        "names": ["SIMULATED HOPPER GPU"] * 2,
        "uuids": [gpu.uuid for gpu in board.gpus],
        "vbios": [gpu.vbios for gpu in board.gpus],
        "found": [0, 1],
        "state": [2, 1, 0],
        "ready": 1,
        "capabilities": [2, 1],
    }
    assert last == "no more"


def test_the_programs_own_library_path_stays_and_is_as_it_was_without_gpus() -> None:
    ran = simulate("--gpus", 1, "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH="/mine:/other")
    ours, *rest = ran.stdout.decode().strip().split(":")
    assert (Path(ours).exists(), rest) == (False, ["/mine", "/other"])
    assert simulate("--", "sh", "-c", 'echo "${LD_LIBRARY_PATH-none}"').stdout == b"none\n"


def test_without_a_compiler_the_program_runs_after_a_note_that_says_what_to_install(tmp_path: Path) -> None:
    for name in ("sh", "echo"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    ran = simulate("--gpus", 1, "--", "sh", "-c", "exit 7", PATH=str(tmp_path))
    assert (ran.returncode, ran.stderr.count(b"install gcc and libc6-dev")) == (7, 1), ran.stderr


def test_a_report_is_refused_once_the_machine_is_gone(tmp_path: Path) -> None:
    waits = f"print('ready', flush=True)\nimport sys\nsys.stdin.read()\n{COLLECT}"
    command = [sys.executable, "-m", "attest.cli.main", "simulate", "machine", "--gpus", "1", "--"]
    with subprocess.Popen(
        [*command, *python(waits, NONCE.hex())],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as machine:
        assert machine.stdout is not None
        assert machine.stdin is not None
        assert machine.stderr is not None
        assert machine.stdout.readline() == b"ready\n"
        machine.send_signal(signal.SIGKILL)
        machine.wait()
        machine.stdin.close()
        assert machine.stdout.read() == b""
        assert b"NVMLError_Unknown" in machine.stderr.read()
