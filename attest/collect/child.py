"""A child process for one request, with a time limit: for native code that may crash or hang."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_ANSWER_BYTES = 1 << 20
"""Maximum size of an answer of a worker: the longest has one report and one certificate chain, about 30 KiB of text."""
GIVE_UP_SECONDS = 1.0
"""After SIGKILL. A process in a hanging driver call does not end before the call."""
MAX_LAST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAnswer:
    """Result of a child process.

    Attributes:
        code: exit code; negative for the number of a signal.
        out: standard output, up to ``MAX_ANSWER_BYTES``, or empty.
        last_words: last line of standard error, shortened.
    """

    code: int
    out: bytes
    last_words: str


def ask_child(
    command: Sequence[str],
    *,
    request: bytes,
    seconds: float,
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> ChildAnswer:
    """Start a program without a shell, send the request to standard input, and return its answer.

    The seconds are for start, work and end together. Nothing is inherited beside the environment and, without a
    folder, the working directory.

    Raises:
        TimeoutError: it did not end in time. It was killed; a process hanging in the kernel may survive.
        OSError: it could not be started.
    """
    # A separate session: an interrupt from the keyboard reaches only this process, which ends the child.
    process = subprocess.Popen(  # noqa: S603  the caller names the program; no shell reads it
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(request, timeout=seconds)
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError(f"no answer within {seconds:g} s") from exc
    finally:
        _end(process)
    if len(out) > MAX_ANSWER_BYTES:
        out = b""
    return ChildAnswer(code=process.returncode, out=out, last_words=_last_line(err))


def library_environment() -> dict[str, str]:
    """Return an environment with the path of driver libraries, which containers have apart, and nothing of Python's."""
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LC_ALL": "C.UTF-8", **({"LD_LIBRARY_PATH": path} if path else {})}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a running child and its children without an unbounded wait, as in subprocess's clean-up."""
    if process.returncode is None:  # not waited for yet, so that its number and its group's are not reused
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GIVE_UP_SECONDS)


def _last_line(err: bytes) -> str:
    lines = err[-4096:].decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:MAX_LAST_WORDS] if lines else ""
