"""Programs in the place of the interpreter that runs the Rego engine, which misbehave in one way each."""

import sys
from pathlib import Path

import pytest

from attest.rego.zygote_pool import POOL

_PYTHON = sys.executable
_ZYGOTE = """#!{python} -S
import os, socket, struct, sys, time
packets = socket.socket(fileno=int(sys.argv[7]))
packets.send({ready!r})
while True:
    packet, fds, _, _ = socket.recv_fds(packets, 64, 2)
    if not packet:
        break
    {question}
    os.close(fds[0])
    os.close(fds[1])
"""


def put(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Put a program in the place of the interpreter, for processes that are started from now on."""
    POOL.close()
    program = folder / "python"
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def put_zygote(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, ready: bytes = b'{"ready": true}', question: str = "pass"
) -> None:
    """Put a process that does something of its own with each question.

    ``fds[0]`` is the question's socket, ``fds[1]`` the pipe for the exit code.
    """
    put(monkeypatch, folder, _ZYGOTE.format(python=_PYTHON, ready=ready, question=question))


def answering(answer: bytes, code: int = 0) -> str:
    """Return what a fake does with a question to give this answer and this exit code."""
    read = "list(iter(lambda: os.read(fds[0], 65536), b''))"
    return f"{read}; os.write(fds[0], {answer!r}); os.write(fds[1], struct.pack('<i', {code}))"
