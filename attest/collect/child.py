"""A child process that answers one request, or is given up on: for native code that may crash or never return."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MAX_ANSWER_BYTES", "ChildAnswer", "ask_child"]

MAX_ANSWER_BYTES = 1 << 20
"""Of our own workers' answers: the longest holds one report and one certificate chain, about 30 KiB of text."""
GIVE_UP_SECONDS = 1.0
"""After SIGKILL. A process inside a stuck driver call does not die before the call returns, which may be never."""
MAX_LAST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAnswer:
    """How a child ended.

    Attributes:
        code: exit code; below zero the number of the signal that ended it, negated.
        out: what it wrote to standard output; ``MAX_ANSWER_BYTES`` at most, or empty.
        last_words: the last line of its standard error, shortened.
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
    """Start a program without a shell, hand it the request on standard input, and take its answer.

    Args:
        command: program and arguments.
        request: all of its standard input.
        seconds: for start, work and end together.
        environment: all of its environment; nothing is inherited.
        folder: its working directory; None is ours.

    Raises:
        TimeoutError: it did not end in time. It has been killed; one that hangs in the kernel may live on.
        OSError: it could not be started.
    """
    # A session of its own, so that an interrupt from the keyboard is for us, and we end it.
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a child that still runs, and its own children, without waiting for ever: subprocess's clean-up would."""
    if process.returncode is None:  # not waited for yet, so that its number, and its group's, is still its own
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
