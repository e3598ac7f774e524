"""A child process that answers one request, or is given up on."""

import sys
import time
from pathlib import Path

import pytest

from attest.collect.child import MAX_ANSWER_BYTES, ask_child


def run(
    script: str, *, request: bytes = b"", seconds: float = 20, folder: Path | None = None
) -> tuple[int, bytes, str]:
    command = [sys.executable, "-I", "-c", script]
    answer = ask_child(command, request=request, seconds=seconds, environment={"A": "b"}, folder=folder)
    return answer.code, answer.out, answer.last_words


def test_request_and_answer_go_through(tmp_path: Path) -> None:
    script = "import os, sys; sys.stdout.write(sys.stdin.read().upper() + os.environ['A'] + os.getcwd())"
    assert run(script, request=b"word", folder=tmp_path) == (0, b"WORDb" + str(tmp_path).encode(), "")


def test_exit_code_and_last_line_of_standard_error_are_told() -> None:
    assert run("import sys; sys.stderr.write('one\\ntwo\\n'); sys.exit(3)") == (3, b"", "two")


def test_a_signal_is_told_as_a_negative_code() -> None:
    assert run("import os; os.kill(os.getpid(), 9)")[0] == -9


def test_a_child_that_reads_nothing_does_not_stop_us() -> None:
    assert run("print('done')", request=bytes(1 << 20))[1] == b"done\n"


def test_a_child_that_does_not_end_is_killed_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"within 0\.5 s"):
        run("import time; time.sleep(60)", seconds=0.5)
    assert time.monotonic() - started < 50  # it would take 60


def test_a_child_whose_own_child_keeps_the_pipe_open_is_given_up_on() -> None:
    script = "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(5)"
    with pytest.raises(TimeoutError):
        run(script, seconds=0.5)


def test_an_answer_that_is_too_long_is_none() -> None:
    assert run(f"print('x' * {MAX_ANSWER_BYTES})")[:2] == (0, b"")


def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        ask_child(["/nonexistent/program"], request=b"", seconds=1, environment={})
