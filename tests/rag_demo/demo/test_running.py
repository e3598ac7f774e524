"""What the demonstration starts ends with it, however it ends, and leaves nothing behind."""

import asyncio
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from attest.errors import ConfigurationError
from rag_demo.client.cli import main as client
from rag_demo.demo.cli import main
from rag_demo.demo.narrator import Narrator
from rag_demo.demo.parties import PREFIX, Options, staged
from rag_demo.demo.programs import environment, run, start
from rag_demo.demo.recording_relay import RecordingRelay
from tests.rag_demo.answers.serving import DONE, delta, serving

pytestmark = pytest.mark.loopback


def until(holds: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def children(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= {int(one) for one in (task / "children").read_text().split()}
    return found | {below for one in found for below in children(one)}


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def gone(pid: int) -> bool:
    """Say whether a process is over: it may be nobody's to reap in here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def demonstration(folder: Path, *words: str, stdin: int = subprocess.DEVNULL) -> tuple[subprocess.Popen[bytes], Path]:
    said = folder / "said"
    env = dict(os.environ) | {"TMPDIR": str(folder)}
    with said.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_demo", *words], stdin=stdin, stdout=out, stderr=out, env=env
        )
    return process, said


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_it_waits_until_it_is_ended_and_then_everything_is_gone(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    process, said = demonstration(tmp_path, "--gpus", "0", "--json")
    try:
        until(lambda: b"Ctrl-C" in said.read_bytes() or process.poll() is not None)
        told = [json.loads(line) for line in said.read_text().splitlines()]
        assert "SIMULATED" in told[0]["text"]
        (command,) = [one["command"] for one in told if "command" in one]
        words = command.split()[3:]
        until(lambda: client(["check", *words, "--json"]) == 0 and '"ready"' in capsys.readouterr().out)
        assert client(["ask", *words, "Where is it?", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["known"] is False
        started = children(process.pid)
        assert len(started) >= 3
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
        process.send_signal(number)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert all(gone(pid) for pid in started)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
    assert b"Traceback" not in said.read_bytes()


@pytest.mark.timeout(240)
@pytest.mark.apart
def test_a_letter_turns_the_machine_red_and_another_takes_it_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, said = demonstration(tmp_path, "--gpus", "1", "--json", stdin=subprocess.PIPE)
    assert process.stdin is not None
    stdin = process.stdin

    def press(letter: str, says: str) -> None:
        stdin.write(f"{letter}\n".encode())
        stdin.flush()
        until(lambda: says.encode() in said.read_bytes() or process.poll() is not None)

    try:
        until(lambda: b"Ctrl-C" in said.read_bytes() or process.poll() is not None)
        (command,) = [one["command"] for one in map(json.loads, said.read_text().splitlines()) if "command" in one]
        check = ["check", *command.split()[3:], "--json"]
        for letter, failed in (("f", "policy.snp.minimum_tcb"), ("g", "policy.gpu.architectures")):
            until(lambda: client(check) == 0)
            press(letter, "the machine has changed")
            capsys.readouterr()
            assert client(check) == 1
            assert failed in capsys.readouterr().err
            press("b", "everything is as it was")
        press("x", "is no command")
        press("k", "the key is disabled")
        press("b", "gets its keys again")
        until(lambda: client(check) == 0)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        stdin.close()
    assert b"Traceback" not in said.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_when_one_of_its_programs_ends_it_says_so_and_ends_the_others(tmp_path: Path) -> None:
    process, said = demonstration(tmp_path, "--gpus", "0")
    try:
        until(lambda: b"Ctrl-C" in said.read_bytes() or process.poll() is not None)
        started = children(process.pid)
        (enclave,) = [pid for pid in started if b"rag_demo.enclave" in command_of(pid)]
        os.kill(enclave, signal.SIGKILL)
        assert process.wait(60) == 2
    finally:
        process.kill()
        process.wait()
    assert "error: enclave failed" in said.read_text()
    assert all(gone(pid) for pid in started)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


@pytest.mark.timeout(240)
def test_when_it_is_killed_its_programs_end_and_the_next_one_removes_the_folder(tmp_path: Path) -> None:
    process, _ = demonstration(tmp_path, "--gpus", "0")
    started: set[int] = set()
    try:
        until(lambda: len(children(process.pid)) >= 2 or process.poll() is not None)
        until(lambda: any(b"owner" in command_of(pid) for pid in children(process.pid)))
        started = children(process.pid)
        process.kill()
        process.wait()
        until(lambda: all(gone(pid) for pid in started))
    finally:
        process.kill()
        process.wait()
    (left,) = tmp_path.glob(f"{PREFIX}*")
    process, said = demonstration(tmp_path, "--machine", "tdx", "--gpus", "0", "--lease-seconds", "5")
    try:
        until(lambda: not left.exists())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130, said.read_text()  # nothing had begun yet
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_a_folder_that_is_in_use_or_somebody_elses_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / f"{PREFIX}without-a-lock"
    other.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(other)
    with pytest.raises(ConfigurationError), staged(Options(machine="no such machine")):
        pass
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"{PREFIX}link", f"{PREFIX}without-a-lock"]


def test_a_folder_that_is_kept_is_not_removed_by_the_next_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("rag_demo.demo.programs._TIED", "/nonexistent")  # none of its programs starts
    for keep in (True, False):
        with pytest.raises(ConfigurationError), staged(Options(keep=keep)):
            pass
    (kept,) = tmp_path.iterdir()
    assert (kept / "model-owner" / "owner.log").is_file()


def test_where_no_folder_can_be_made_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nothing")
    with pytest.raises(ConfigurationError) as refused, staged(Options()):
        pass
    assert refused.value.code == "demo-folder-unusable"


@pytest.mark.parametrize(
    "words", [["--machine", "sgx"], ["--gpus", "9"], ["--lease-seconds", "1"], ["more"], ["--scrip"]]
)
def test_wrong_use_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_help_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "python -m rag_demo --script" in capsys.readouterr().out


# -- programs


def test_a_program_that_fails_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        run("it", ("-c", "import sys; sys.exit('no such luck')"), folder=tmp_path, env=environment())
    assert refused.value.code == "demo-program-failed"
    assert "no such luck" in refused.value.message
    program = start("it", ("-c", "print('x: 1')"), folder=tmp_path, env=environment())
    assert program.facts("x") == {"x": "1"}
    with pytest.raises(ConfigurationError):
        program.facts("y")
    assert program.stop() == 0


def test_a_program_that_does_not_want_to_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_demo.demo.programs.STOP_SECONDS", 0.2)
    code = (
        "import signal, time",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "print('on: yes', flush=True)",
        "time.sleep(60)",
    )
    program = start("it", ("-c", "; ".join(code)), folder=tmp_path, env=environment())
    program.facts("on")
    assert program.stop() == -signal.SIGKILL


def test_a_program_that_was_killed_is_told_by_the_signals_name(tmp_path: Path) -> None:
    program = start("it", ("-c", "import time; print('on: yes', flush=True); time.sleep(60)"), folder=tmp_path, env={})
    program.facts("on")
    program.require_running()
    program.process.kill()
    program.process.wait()
    with pytest.raises(ConfigurationError, match="it was ended by SIGKILL"):
        program.require_running()


def test_programs_are_given_no_settings_of_somebodys_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KMS_CONFIG", "ATTEST_CONFIG", "ATTEST_KMS_URL", "SECRET", "HTTP_PROXY"):
        monkeypatch.setenv(name, "mine")
    code = "import os; print(sorted(os.environ))"
    said = run("it", ("-c", code), folder=tmp_path, env=environment(TMPDIR=str(tmp_path)))
    assert "mine" not in said
    assert not re.search("KMS|ATTEST|SECRET|PROXY", said)


# -- the operator's view


def _holds(file: Path, data: bytes) -> bool:
    return file.read_bytes() == data


def test_a_tap_relays_and_keeps_every_byte(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, RecordingRelay("x", port=0, folder=tmp_path) as tap:
        with pytest.raises((httpx.HTTPError, OSError)):
            httpx.get(tap.url, trust_env=False)
        tap.to(server.getsockname()[1])

        def echo() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    while data := connection.recv(65536):
                        connection.sendall(data[::-1])

        thread = threading.Thread(target=echo)
        thread.start()
        for number, data in enumerate((b"abc", os.urandom(300_000)), start=1):
            with socket.create_connection(("127.0.0.1", tap.port)) as mine:
                mine.sendall(data)
                mine.shutdown(socket.SHUT_WR)
                back = b""
                while piece := mine.recv(65536):
                    back += piece
            assert len(back) == len(data)
            until(partial(_holds, tmp_path / f"x-{number:04}.up", data))
            until(partial(_holds, tmp_path / f"x-{number:04}.down", back))
        thread.join()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", tap.port))


# -- the story's voice


def test_one_step_that_comes_out_otherwise_makes_the_whole_a_failure() -> None:
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.title("a step", proves="something")
    narrator.expect("good", holds=True)
    assert narrator.end() == 0
    narrator.expect("bad \x1b[2J", holds=False, got="what was \x07found")
    assert narrator.end() == 1
    assert "1 did NOT have the expected result" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_for_programs_each_line_is_a_document() -> None:
    out = io.StringIO()
    narrator = Narrator(out, as_json=True)
    narrator.title("a step", proves="something")
    narrator.bad("no")
    assert narrator.end() == 1
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["kind"] for one in lines] == ["step", "check", "end"]
    assert {one["schema"] for one in lines} == {"rag.demo/1"}
    assert lines[-1]["outcome"] == "fail"


def test_a_reader_who_goes_away_is_no_step_that_came_out_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        assert main(["--script"]) == 141
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
    assert capsys.readouterr().err == ""


def test_a_language_model_on_another_computer_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["--llm", "http://192.0.2.1/v1"]) == 2
    assert "not on this machine" in capsys.readouterr().err
    assert main(["--model", "small"]) == 2
    assert "--model needs --llm" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("lies", [False, True])
def test_the_story_is_told_with_a_language_model_too(tmp_path: Path, lies: bool) -> None:
    text = "The moon is cheese [9]." if lies else "Behind the barometer [1]."

    async def told() -> tuple[int, list[dict[str, object]], int]:
        async with serving(delta(text), delta(None, "stop"), DONE) as asked:
            words = ("-m", "rag_demo", "--script", "--json", "--llm", asked.url, "--model", "small")
            env = dict(os.environ) | {"TMPDIR": str(tmp_path)}
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=env
            )
            out, _ = await process.communicate()
            return process.returncode or 0, [json.loads(line) for line in out.splitlines()], len(asked.bodies)

    code, lines, requests = asyncio.run(told())
    said = " ".join(str(line.get("text")) for line in lines)
    # Only the one question with an answer reaches the model; an answer without a valid citation is no success.
    assert (code, requests) == (1 if lies else 0, 1)
    assert "written by the language model small, in this machine, at 127.0.0.1:" in said
    assert ("were removed" in said) is lies
