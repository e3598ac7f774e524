"""Processes that run `kms` without the second and more that each would need to import it.

One interpreter per test process has imported what `kms serve` always imports and what `kms init` does, and nothing
else: it has one thread and has opened no file, no database and no socket but the one it is asked through. What it
imported is frozen: a garbage collector that looked through it would copy it into each child. For each start it forks;
the child gets standard output and error, the environment, the working directory and the arguments of a process just
started, a session of its own, and runs `kms.cli.main` to its end as one would. Its identifier and its exit code are
the system's.

For tests in which a service has to be a process. Where the start itself is looked at, start one cold.
"""

import atexit
import contextlib
import gc
import json
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

__all__ = ["WarmProcess", "environment", "run_warm"]

REPOSITORY = Path(__file__).resolve().parents[2]
_MAX_REQUEST_BYTES: Final = 128 << 10
_NUMBER: Final = struct.Struct("<q")
"""What the warm interpreter says of a start: first the process, then the exit code, negative for a signal."""


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KMS_", "COVERAGE_", "COV_"))}
    return kept | {"PYTHONPATH": str(REPOSITORY)}


# -- the side of the tests


class _Warm:
    """The warm interpreter of this test process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.kms.warm import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment(),
                cwd=REPOSITORY,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, arguments: tuple[str, ...], env: Mapping[str, str], fds: list[int]) -> None:
        request = json.dumps({"arguments": arguments, "env": dict(env), "folder": str(Path.cwd())}).encode()
        assert len(request) < _MAX_REQUEST_BYTES
        socket.send_fds(self._control, [request], fds)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


_warm: _Warm | None = None
_lock = threading.Lock()


def _the_warm_one() -> _Warm:
    global _warm  # noqa: PLW0603  one for each test process, made when the first test wants it
    with _lock:
        if _warm is None:
            _warm = _Warm()
            atexit.register(_warm.close)
        return _warm


@dataclass
class WarmProcess:
    """A process of `kms`, with as much of `subprocess.Popen` as tests use."""

    args: tuple[str, ...]
    pid: int
    status: int
    """Where its end is told; closed when it was heard."""
    returncode: int | None = None

    @staticmethod
    def start(*arguments: str, stdout: int, stderr: int, env: Mapping[str, str]) -> "WarmProcess":
        """Run `kms` with these arguments; the descriptors stay the caller's to close."""
        reading, writing = os.pipe()
        try:
            _the_warm_one().ask(arguments, env, [stdout, stderr, writing])
        finally:
            os.close(writing)
        said = os.read(reading, _NUMBER.size)
        if not said:
            os.close(reading)
            raise AssertionError("the warm interpreter is gone")
        return WarmProcess(args=arguments, pid=_NUMBER.unpack(said)[0], status=reading)

    def poll(self) -> int | None:
        return self._heard(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._heard(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send it, unless the process is over; that may be so before its end was told."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _heard(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self.status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            said = os.read(self.status, _NUMBER.size)
            os.close(self.status)
            assert said, "the warm interpreter is gone"
            self.returncode = int(_NUMBER.unpack(said)[0])
        return self.returncode


def run_warm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command of `kms` to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = WarmProcess.start(*arguments, stdout=out.fileno(), stderr=err.fileno(), env=environment())
        code = process.wait(120)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["kms", *arguments], code, out.read().decode(), err.read().decode())


# -- the side of the warm interpreter


def serve(control: int) -> NoReturn:
    """Fork for each request, and tell how each child ended, until nobody is left to ask.

    Whoever comes out of the loop is a child, so that it ends as an interpreter does that ran `kms` alone.
    """
    import alembic.command  # noqa: F401  `kms init` makes the schema by it

    import kms.cli.main
    import kms.server

    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    _Forks(control).run()
    kms.cli.main.main()


@dataclass(frozen=True)
class _Child:
    pid: int
    status: int


class _Forks:
    def __init__(self, control: int) -> None:
        self._control = socket.socket(fileno=control)
        self._children: dict[int, _Child] = {}
        """By the descriptor that becomes readable when the child is over; no signal's handling is changed for that."""

    def run(self) -> None:
        """Return in each child; end the process when the other end of the control is closed."""
        selector = selectors.DefaultSelector()
        selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in self._children:
                    selector.unregister(key.fd)
                    self._ended(key.fd)
                    continue
                message, fds, _, _ = socket.recv_fds(self._control, _MAX_REQUEST_BYTES, 3)
                if not message:
                    self._end()
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    self._control.detach()
                    _become(json.loads(message), stdout=fds[0], stderr=fds[1])
                    return
                over = os.pidfd_open(pid)
                self._children[over] = _Child(pid=pid, status=fds[2])
                selector.register(over, selectors.EVENT_READ)
                os.close(fds[0])
                os.close(fds[1])
                os.write(fds[2], _NUMBER.pack(pid))

    def _ended(self, over: int) -> None:
        child = self._children.pop(over)
        _, status = os.waitpid(child.pid, 0)
        with contextlib.suppress(BrokenPipeError):  # perhaps nobody wants to know
            os.write(child.status, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(child.status)
        os.close(over)

    def _end(self) -> NoReturn:
        """Leave no child behind whose test process is gone."""
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
        sys.exit()


def _become(request: dict[str, object], *, stdout: int, stderr: int) -> None:
    """Make this child what a process is that was started with these arguments."""
    os.setsid()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    env, arguments, folder = request["env"], request["arguments"], request["folder"]
    assert isinstance(env, dict)
    assert isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(str(folder))
    sys.argv = ["-c", *arguments]
    random.seed()
