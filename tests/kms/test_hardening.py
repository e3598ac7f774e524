"""Memory of a served process is nobody's business: no core dump, and no reading it from beside."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attest.clock import system_clock
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise
from tests.kms.process import ServedProcess
from tests.kms.support import FakeRandom

pytestmark = pytest.mark.loopback
PR_CAPBSET_DROP = 24
READ_MEMORY = """
import os, sys
path = f"/proc/{sys.argv[1]}"
first = open(f"{path}/maps").readline().split("-")[0]
with open(f"{path}/mem", "rb", buffering=0) as memory:
    memory.seek(int(first, 16))
    print(len(memory.read(16)))
"""


def powerless() -> None:
    """As root, take every capability away from the process to be: root with them reads everything."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in range(64):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def service(folder: Path, more: str = "") -> Path:
    config = prepare_directory(folder / "svc", origin="kms.test/hard", allow_simulated=True)
    with config.open("a", encoding="utf-8") as file:
        file.write(more)
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom("hard"))
    return config


def reading(process: int) -> subprocess.CompletedProcess[str]:
    """Let another process of the same user read the first bytes of a process's memory."""
    return subprocess.run(
        [sys.executable, "-c", READ_MEMORY, str(process)],
        preexec_fn=powerless,
        capture_output=True,
        text=True,
        check=False,
    )


def test_mc_33_a_served_process_leaves_no_core_dump_and_shows_its_memory_to_nobody(tmp_path: Path) -> None:
    served = ServedProcess.start(service(tmp_path), before=powerless)
    try:
        limits = Path(f"/proc/{served.process.pid}/limits").read_text()
        (core,) = (line.split() for line in limits.splitlines() if line.startswith("Max core file size"))
        assert core[4:6] == ["0", "0"]
        refused = reading(served.process.pid)
        assert refused.returncode != 0
        assert "PermissionError" in refused.stderr
    finally:
        assert served.terminate() == 0


def test_without_it_a_process_of_the_same_user_would_read_that_memory() -> None:
    """What the test above looks at is there to be refused."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=powerless,  # noqa: PLW1509  as above
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        read = reading(process.pid)
        process.kill()
    if read.returncode:
        pytest.skip("this system lets no process read another's memory at all")
    assert read.stdout == "16\n"


def test_memory_is_locked_where_the_kernel_lets_us_and_refused_where_not(tmp_path: Path) -> None:
    config = service(tmp_path, "lock_memory = true\n")
    try:
        served = ServedProcess.start(config, before=powerless)
    except AssertionError as exc:
        assert "[memory-lock-refused]" in str(exc)  # noqa: PT017  either is right, by the limits of this machine
        return
    try:
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        (locked,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmLck"))
        assert int(locked) > 0
    finally:
        assert served.terminate() == 0
