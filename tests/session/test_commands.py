"""`attest key` and `attest run` on a machine that is made for the test, against a real service."""

import fcntl
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from attest import file_systems
from attest.cli import key_output
from attest.cli.child_process import ChildProgram, WantedKey, descriptor_of
from attest.cli.main import cli
from attest.errors import ConfigurationError, LeaseLostError
from attest.release import KeyReference
from attest_simulator import SimulatedGuest
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_machine
from tests.kms.process import REPOSITORY, ServedProcess
from tests.kms.support import MATERIAL
from tests.session.serving import key_for, machine, url_of

pytestmark = pytest.mark.loopback
KEY = key_for("snp")
Run = Callable[..., Result]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs; skips where there is none."""
    shared = Path("/dev/shm")  # noqa: S108  that is what it is for
    try:
        key_output.require_in_memory(shared.stat().st_dev, str(shared))
    except (OSError, ConfigurationError):
        pytest.skip("no tmpfs at /dev/shm here")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def run(served: ServedProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ATTEST_KMS_URL", url_of(served))
    monkeypatch.setenv("ATTEST_KMS_KEY", served.identity)
    guest = machine("snp").cpu
    assert isinstance(guest, SimulatedGuest)
    usual = snp_machine(tmp_path / "root", guest)

    def invoke(*arguments: object, on: FakeMachine = usual) -> Result:
        found = CliRunner().invoke(cli, [str(one) for one in arguments], obj=on.access)
        assert "Traceback" not in found.output
        return found

    return invoke


# -- attest key get


def test_a_key_is_written_for_its_owner_alone_into_memory(run: Run, memory: Path) -> None:
    out = memory / "model.key"
    ran = run("key", "get", KEY, "--out", out, "--json")
    assert ran.exit_code == 0, ran.output
    assert out.read_bytes() == MATERIAL
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [one.name for one in memory.iterdir()] == ["model.key"]
    told = json.loads(ran.stdout)
    assert (told["schema"], told["key"], told["version"], told["file"]) == ("attest.key/1", KEY, 1, str(out))
    assert MATERIAL.hex() not in ran.output
    again = run("key", "get", KEY, "--out", out)
    assert (again.exit_code, "already exists" in again.stderr) == (2, True)


def test_a_key_is_not_written_to_a_disk_unless_that_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.key"
    monkeypatch.setattr(file_systems, "IN_MEMORY", frozenset({"nothing"}))  # the folder of tests may be on tmpfs
    ran = run("key", "get", KEY, "--out", out)
    assert (ran.exit_code, "is on persistent storage" in ran.stderr, out.exists()) == (2, True, False)
    assert run("key", "get", KEY, "--out", out, "--allow-disk").exit_code == 0
    assert out.read_bytes() == MATERIAL


def test_a_file_system_that_is_not_known_is_taken_for_a_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "absent")
    with pytest.raises(ConfigurationError) as caught:
        key_output.require_in_memory(1, "x")
    assert (caught.value.code, caught.value.got) == ("output-on-disk", "unknown")


def test_a_key_goes_into_a_pipe(run: Run) -> None:
    reading, writing = os.pipe()
    ran = run("key", "get", KEY, "--out-fd", writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == MATERIAL
    assert (ran.exit_code, ran.output) == (0, "")


def test_a_key_does_not_go_to_a_terminal(run: Run) -> None:
    controller, terminal = pty.openpty()
    try:
        ran = run("key", "get", KEY, "--out-fd", terminal)
        assert (ran.exit_code, "not written to a terminal" in ran.stderr) == (2, True)
        os.set_blocking(controller, False)
        with pytest.raises(BlockingIOError):
            os.read(controller, 1)
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_key_does_not_go_to_the_journal_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others = socket.socketpair()
    with ours, others:
        place_of = partial(key_output.place_of, out=None, out_fd=ours.fileno())
        assert place_of(allow_disk=False) == ours.fileno()
        found = os.fstat(ours.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")  # as systemd sets it
        with pytest.raises(ConfigurationError) as caught:
            place_of(allow_disk=False)
        assert (caught.value.code, caught.value.got) == ("output-on-disk", "the system's journal")
        assert place_of(allow_disk=True) == ours.fileno()


def test_a_key_does_not_go_to_a_disk_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.stat_result((stat.S_IFBLK | 0o600, *[0] * 9))
    monkeypatch.setattr(key_output, "_status", lambda *_: disk)
    with pytest.raises(ConfigurationError) as caught:
        key_output.place_of(out=None, out_fd=1, allow_disk=False)
    assert (caught.value.code, caught.value.got) == ("output-on-disk", "a block device")


def test_standard_output_is_a_pipe_or_nothing(served: ServedProcess, tmp_path: Path) -> None:
    done = driven(served, tmp_path, "key", "get", KEY, "--out", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, MATERIAL, b"")
    controller, terminal = pty.openpty()
    try:
        refused = driven(served, tmp_path, "key", "get", KEY, "--out", "-", stdout=terminal)
        assert (refused.returncode, b"terminal" in refused.stderr) == (2, True)
    finally:
        os.close(controller)
        os.close(terminal)


def test_where_a_key_goes_is_said_once_and_looked_at_first(run: Run, tmp_path: Path, served: ServedProcess) -> None:
    asked = _requests(served)
    for arguments in (
        (KEY,),
        (KEY, "--out", "a", "--out-fd", "1"),
        (KEY, "--out-fd", "999999"),
        (KEY, "--out", tmp_path / "no" / "such"),
        ("KEY", "--out-fd", "1", "--allow-disk"),
    ):
        ran = run("key", "get", *arguments)
        assert ran.exit_code == 2, (arguments, ran.output)
        assert "hint:" in ran.stderr or "error:" in ran.stderr
    assert _requests(served) == asked


def test_a_refusal_has_an_exit_code_of_its_own(run: Run, memory: Path, tmp_path: Path, served: ServedProcess) -> None:
    out = memory / "k"
    assert run("key", "get", "nobodys", "--out", out).exit_code == 1
    assert run("key", "get", key_for("tdx"), "--out", out).exit_code == 1
    other = served.identity.replace("kms.test/session", "kms.test/other")
    assert run("key", "get", KEY, "--out", out, "--identity", other).exit_code == 2
    assert run("key", "get", KEY, "--out", out, "--kms", "http://127.0.0.1:9", "--timeout", "0.3").exit_code == 5
    assert run("key", "get", KEY, "--out", out, on=plain_machine(tmp_path / "plain")).exit_code == 6
    assert list(memory.iterdir()) == []


def test_the_settings_say_where_they_come_from(run: Run, tmp_path: Path, served: ServedProcess) -> None:
    config = tmp_path / "attest.toml"
    config.write_text('[kms]\nlog_memory = "log"\ntimeout_seconds = 7\n')
    ran = run("key", "settings", "--config", config, "--kms", "https://kms.example", "--json")
    assert ran.exit_code == 0, ran.output
    settings = json.loads(ran.stdout)["settings"]
    assert settings["url"] == {"value": "https://kms.example", "from": "argument url"}
    assert settings["key"] == {"value": served.identity, "from": "ATTEST_KMS_KEY"}
    assert settings["log_memory"] == {"value": str(tmp_path / "log"), "from": f"{config} [kms] log_memory"}
    assert settings["policy"] == {"value": None, "from": "default"}
    assert "ATTEST_KMS_KEY" in run("key", "settings").stdout
    assert run("key", "settings", "--quiet").stdout == ""


# -- attest run

READER = "import os; print(os.read(int(os.environ['ATTEST_KEY_FD_MODEL']), 99) == bytes.fromhex('{}'))"
READS = READER.format(MATERIAL[::-1].hex()).replace("== bytes", "[::-1] == bytes")
"""A program that has its key if it prints True. Its text does not hold the key."""


@pytest.mark.parametrize("kind", ["memfd", "pipe"])
def test_a_program_reads_its_key_from_a_descriptor(run: Run, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    ran = run("run", "--key", f"model={KEY}", "--as", kind, "--", sys.executable, "-c", READS)
    assert ran.exit_code == 0, ran.output
    assert capfd.readouterr().out == "True\n"


def test_a_program_has_no_descriptor_but_its_keys_and_no_variable_with_a_key(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTEST_KEY_FD_OUTER", "3")
    code = (
        "import json, os\n"
        "shown = os.listdir('/proc/self/fd')\n"
        "fds = [int(fd) for fd in shown if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "named = {k: int(v) for k, v in os.environ.items() if k.startswith('ATTEST_KEY_FD_')}\n"
        "links = [os.readlink(f'/proc/self/fd/{fd}') for fd in named.values()]\n"
        "print(json.dumps([fds, named, links, dict(os.environ)]))\n"
    )
    ran = run("run", "--key", f"A={KEY}", "--key", f"B={KEY}@1", "--", sys.executable, "-c", code)
    assert ran.exit_code == 0, ran.output
    fds, named, links, environment = json.loads(capfd.readouterr().out)
    assert sorted(named) == ["ATTEST_KEY_FD_A", "ATTEST_KEY_FD_B"]
    assert set(fds) == set(named.values())
    assert all(link.startswith("/memfd:attest-key") for link in links)
    assert MATERIAL.hex() not in json.dumps(environment)


def test_nobody_can_change_the_key_in_memory() -> None:
    descriptor = descriptor_of(memoryview(MATERIAL), "memfd")
    try:
        assert os.read(descriptor, 99) == MATERIAL
        with pytest.raises(PermissionError):
            os.write(descriptor, b"x")
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        assert not fcntl.fcntl(descriptor, fcntl.F_GETFD) & ~fcntl.FD_CLOEXEC
    finally:
        os.close(descriptor)


def test_a_key_that_does_not_fit_into_a_pipe_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        descriptor_of(memoryview(bytes(1 << 20)), "pipe")
    assert caught.value.code == "descriptor-unusable"


@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_the_programs(run: Run, code: str, expected: int) -> None:
    assert run("run", "--key", f"MODEL={KEY}", "--", sys.executable, "-c", code).exit_code == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("--key", "MODEL", "--", "true"),
        ("--key", "1=a", "--", "true"),
        ("--key", "A=BAD", "--", "true"),
        ("--key", "A=a", "--key", "a=b", "--", "true"),
        ("--key", "A=a", "--key", "B=a", "--", "true"),
        ("--key", "A=a"),
        ("--", "true"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_usage(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("run", *arguments).exit_code == 2


def test_a_program_that_is_not_there_is_usage(run: Run) -> None:
    ran = run("run", "--key", f"MODEL={KEY}", "--", "/no/such/program")
    assert (ran.exit_code, "cannot be started" in ran.stderr) == (2, True)


def test_without_a_key_nothing_is_started(run: Run, tmp_path: Path) -> None:
    ran = run("run", "--key", "MODEL=nobodys", "--", "touch", tmp_path / "started")
    assert (ran.exit_code, (tmp_path / "started").exists()) == (1, False)


def test_a_dry_run_asks_nobody_and_starts_nothing(run: Run, tmp_path: Path, served: ServedProcess) -> None:
    asked = _requests(served)
    ran = run("run", "--key", f"model={KEY}", "--dry-run", "--json", "--", "touch", tmp_path / "started")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["keys"] == [{"key": KEY, "variable": "ATTEST_KEY_FD_MODEL", "as": "memfd"}]
    assert told["command"] == ["touch", str(tmp_path / "started")]
    assert told["settings"]["url"]["from"] == "ATTEST_KMS_URL"
    assert not (tmp_path / "started").exists()
    assert _requests(served) == asked
    assert "ATTEST_KEY_FD_MODEL" in run("run", "--key", f"model={KEY}", "--dry-run", "--", "x").stdout
    assert run("run", "--key", f"model={KEY}", "--dry-run", "--quiet", "--", "x").stdout == ""


def test_signals_are_passed_on(served: ServedProcess, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b'heard\\n'), sys.exit(7)))\n"
        "os.write(1, b'ready\\n')\n"
        "signal.pause()\n"
    )
    command = driver(tmp_path, "run", "--key", f"MODEL={KEY}", "--", sys.executable, "-c", code)
    with subprocess.Popen(command, env=environment(served), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == b"heard\n"
        assert process.wait(60) == 7


class FakeKey:
    """What a program's keys need to be; its lease is the test's to take."""

    def __init__(self, reference: str) -> None:
        self.reference = KeyReference.parse(reference)
        self.material = memoryview(MATERIAL)
        self.version = 1


LOST = LeaseLostError("the lease is not renewed: no", code="lease-renewal-refused")


def program(*, terminate: bool, grace: float = 60, code: str) -> tuple[ChildProgram, list[str]]:
    said: list[str] = []
    made = ChildProgram(
        command=(sys.executable, "-c", code), kind="memfd", terminate=terminate, grace=grace, warn=said.append
    )
    return made, said


def losing(made: ChildProgram, key: FakeKey, ready: int) -> threading.Thread:
    """Lose the key when the program says that it runs."""

    def lose() -> None:
        os.read(ready, 1)
        made.lost(key, LOST)  # type: ignore[arg-type]  # as much of a key as is needed

    thread = threading.Thread(target=lose)
    thread.start()
    return thread


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_lost_lease_ends_the_program(tmp_path: Path, stubborn: bool) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    code = f"{ignore}import time; open({str(fifo)!r}, 'wb').write(b'x'); time.sleep(600)"
    made, _ = program(terminate=True, grace=0.05, code=code)
    ready, key = os.open(fifo, os.O_RDWR), FakeKey("model")
    thread = losing(made, key, ready)
    with pytest.raises(LeaseLostError) as caught:
        made.run((WantedKey.parse("M=model"),), (key,))  # type: ignore[arg-type]  # as above
    thread.join()
    os.close(ready)
    assert caught.value is LOST


def test_a_lease_that_is_lost_while_the_program_starts_ends_it_too() -> None:
    made, _ = program(terminate=True, code="import time; time.sleep(600)")
    key = FakeKey("model")
    made.lost(key, LOST)  # type: ignore[arg-type]  # as above
    with pytest.raises(LeaseLostError):
        made.run((WantedKey.parse("M=model"),), (key,))  # type: ignore[arg-type]  # as above


def test_a_signal_while_the_program_starts_is_passed_on_and_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = program(terminate=True, code="import time; time.sleep(600)")
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def starting(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401  Popen's own
        started.append(popen(*arguments, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", starting)
    code = made.run((WantedKey.parse("M=model"),), (FakeKey("model"),))  # type: ignore[arg-type]  # as above
    assert code == 128 + signal.SIGTERM
    assert started[0].returncode == -signal.SIGTERM


def test_a_program_may_go_on_without_a_lease(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = program(terminate=False, code="raise SystemExit(5)")
    key = FakeKey("model")
    made.lost(key, LOST)  # type: ignore[arg-type]  # as above
    assert made.run((WantedKey.parse("M=model"),), (key,)) == 5  # type: ignore[arg-type]  # as above
    assert "continues with model (--on-lost continue)" in capsys.readouterr().err


def test_a_rotation_is_told_once_and_changes_nothing() -> None:
    made, said = program(terminate=True, code="pass")
    key = FakeKey("model")
    assert made.run((WantedKey.parse("M=model"),), (key,)) == 0  # type: ignore[arg-type]  # as above
    made.renewed(key)  # type: ignore[arg-type]  # as above
    key.version = 2
    made.renewed(key)  # type: ignore[arg-type]  # as above
    made.renewed(key)  # type: ignore[arg-type]  # as above
    assert said == ["model was rotated: the program has version 1, and 2 is current"]


# -- processes


def driver(folder: Path, *arguments: str) -> list[str]:
    root = tempfile.mkdtemp(dir=folder)
    return [sys.executable, "-m", "tests.session.driver", str(Path(root) / "root"), *arguments]


def environment(served: ServedProcess) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST_", "COV"))}
    return kept | {"PYTHONPATH": str(REPOSITORY), "ATTEST_KMS_URL": url_of(served), "ATTEST_KMS_KEY": served.identity}


def driven(
    served: ServedProcess, folder: Path, *arguments: str, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        driver(folder, *arguments),
        env=environment(served),
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


def _requests(served: ServedProcess) -> int:
    """How many challenges the service has given out, by its own log of requests."""
    folder = Path(f"/proc/{served.process.pid}/fd/2").resolve()
    return folder.read_text(encoding="utf-8").count("POST /v1/challenges")
