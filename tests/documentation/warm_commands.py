"""`attest` and `kms` for a page's shell without the second that each would need to import what it uses.

One interpreter has imported both. For each command it forks; the child gets the descriptors, folder and environment of
the shell, and runs the entry point. The shell calls `client.py` with the words of the command.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

CLIENT = Path(__file__).with_name("warm_client.py")
_IMPORTED = (
    "attest.cli.main",
    "attest.sealed",
    "attest_simulator.machines",
    "kms.cli.main",
    "kms.server",
    "alembic.command",
)
_MAX_REQUEST_BYTES = 256 << 10


@contextmanager
def warm_commands(path: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Start the interpreter, and yield the path of its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(16)
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.documentation.warm_commands import serve; serve({listener.fileno()})"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def serve(descriptor: int) -> NoReturn:
    """Fork for each connection."""
    for name in _IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()  # or a collection in a child would copy all of it

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(fileno=descriptor)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(_run(connection))
        connection.close()


def _run(connection: socket.socket) -> int:
    """Run the command of a connection, and send its exit code."""
    message, fds, _, _ = socket.recv_fds(connection, _MAX_REQUEST_BYTES, 3)
    for number, descriptor in enumerate(fds):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))
    asked = json.loads(message)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["folder"])
    sys.argv = asked["words"]
    code = _called(asked["words"][0])
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(bytes([code & 0xFF]))
    return 0


def _called(name: str) -> int:
    from attest_kms import commands

    try:
        return int(getattr(commands, name)() or 0)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001  as an interpreter does
        traceback.print_exc()
        return 1
