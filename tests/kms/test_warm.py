"""A process forked from the warm interpreter is what one started by itself would be."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attest.clock import system_clock
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.operations.services import initialise
from tests.kms.process import ServedProcess, command
from tests.kms.support import FakeRandom
from tests.kms.warm import WarmProcess, environment, run_warm


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = prepare_directory(tmp_path / "svc", origin="kms.test/warm", allow_simulated=True)
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=FakeRandom("warm"))
    return config


def seen(served: ServedProcess) -> dict[str, object]:
    """What the kernel says of a process that serves, but for numbers that differ each time."""
    place = Path(f"/proc/{served.process.pid}")
    lines = (line.partition(":\t") for line in (place / "status").read_text(encoding="ascii").splitlines())
    status = {name: value for name, _, value in lines}
    kept = ("Umask", "Uid", "Gid", "Threads", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs")
    found: dict[str, object] = {name: status[name] for name in kept}
    found["limits"] = (place / "limits").read_text(encoding="ascii")
    with contextlib.suppress(PermissionError):  # a service's files are root's to see
        links = ((int(one.name), str(one.readlink())) for one in (place / "fd").iterdir())
        found["files"] = sorted(re.sub(r"\d+", "N", link) for number, link in links if number)
        found["folder"] = (place / "cwd").readlink()
    return found


@pytest.mark.loopback
def test_a_warm_service_has_the_files_signals_threads_and_limits_of_a_cold_one(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for cold in (True, False):
        served = ServedProcess.start(config, cold=cold)
        found.append(seen(served))
        assert served.terminate() == 0
    assert found[0] == found[1]


@pytest.mark.loopback
def test_a_killed_service_ends_with_the_signal_and_is_gone(config: Path) -> None:
    served = ServedProcess.start(config)
    pid = served.process.pid
    assert os.getsid(pid) == pid
    assert served.process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        served.process.wait(0.01)
    served.kill()
    assert served.process.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{pid}").exists()
    served.kill()  # once more is no harm


@pytest.mark.loopback
def test_a_service_that_does_not_start_is_told_with_its_words(config: Path) -> None:
    (config.parent / "kek").unlink()
    with pytest.raises(AssertionError, match="error: "):
        ServedProcess.start(config)


@pytest.mark.parametrize("arguments", [("--version",), ("frobnicate",), ("log",), ("log", "tail", "--config", "/no")])
def test_words_and_exit_code_are_those_of_a_cold_command(arguments: tuple[str, ...]) -> None:
    cold = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment(), check=False)
    warm = run_warm(*arguments)
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_the_environment_is_that_of_the_start_and_nothing_of_another(config: Path, tmp_path: Path) -> None:
    settings = {"KMS_ORIGIN": "kms.test/of-the-environment"}
    shown = []
    for number, more in enumerate((settings, {})):
        path = tmp_path / str(number)
        with path.open("wb") as out:
            process = WarmProcess.start(
                "config",
                "show",
                "--config",
                str(config),
                stdout=out.fileno(),
                stderr=out.fileno(),
                env=environment() | more,
            )
            assert process.wait(60) == 0
        shown.append("of-the-environment" in path.read_text(encoding="utf-8"))
    assert shown == [True, False]


def test_a_signal_to_what_is_just_ending_is_no_error() -> None:
    for _ in range(5):
        with Path(os.devnull).open("wb") as nowhere:
            process = WarmProcess.start(
                "--version", stdout=nowhere.fileno(), stderr=nowhere.fileno(), env=environment()
            )
        while process.poll() is None:
            process.send_signal(signal.SIGCONT)
        assert process.returncode == 0


def test_starts_from_several_threads_are_kept_apart() -> None:
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(run_warm, ["--version", "frobnicate"] * 4))
    assert [one.returncode for one in ended] == [0, 2] * 4
    assert all(("frobnicate" in one.stderr) == bool(one.returncode) for one in ended)


def test_when_its_test_process_is_gone_so_is_all_that_it_started(config: Path) -> None:
    script = (
        "import sys, os; from pathlib import Path; from tests.kms.process import ServedProcess;"
        "print(ServedProcess.start(Path(sys.argv[1])).process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(config)], capture_output=True, env=environment(), check=False
    )
    pid, end = int(done.stdout), time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
