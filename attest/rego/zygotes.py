"""The process of the Rego engine for one policy, from the side that asks.

A process is started by exec at the first question, compiles its policy and forks for each question (``worker.py``).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.rego.worker import EXIT_LATE, EXIT_MEMORY, MAX_ANSWER_BYTES, MAX_POLICY_BYTES

_PACKAGE = Path(__file__).parent
START = """\
import sys, types
for name, folder in zip(("attest", "attest.rego"), sys.argv[-2:]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from attest.rego.worker import main
main()
"""
"""The worker without the packages around it, which would import more than it needs."""
_GRACE_SECONDS = 1.0
"""After the end of a question's time. The zygote kills what is late; this is for a zygote that hangs itself."""
_CODE = struct.Struct("<i")
_TIME, _MEMORY = (
    "the engine wanted more processor time than it may have",
    "the engine wanted more memory than it may have",
)
_ENDS = {
    EXIT_MEMORY: _MEMORY,
    -signal.SIGXCPU: _TIME,
    -signal.SIGKILL: "the engine was killed: it wanted more processor time or memory than it may have",
}


class EngineRefusedError(Exception):
    """The engine gave no answer; the text says why. It never leaves this package."""


class EngineFaultError(EngineRefusedError):
    """The policy does not compile.

    Attributes:
        offset: the place of the fault in the policy, in bytes, if it cannot be parsed.
        function: a function that it may not call.
    """

    def __init__(self, reason: str, offset: int | None = None, function: str | None = None) -> None:
        super().__init__(reason)
        self.offset = offset
        self.function = function


class ZygoteLostError(Exception):
    """The process that should answer questions ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoLimits:
    """The resources that the engine may use.

    Attributes:
        seconds: wall clock, for start, work and end together.
        cpu_seconds: of processor time; the kernel ends the process after that.
        memory: resident bytes, the interpreter's own 30 MiB or so included; looked at every few milliseconds.
    """

    seconds: float = 10.0
    cpu_seconds: int = 5
    memory: int = 256 << 20


@dataclass(frozen=True, kw_only=True)
class CompiledFor:
    """A policy and everything that is compiled with it; each has a process of its own.

    Attributes:
        modules: Rego texts, the policy first.
        rules: of ``data.policy``, those to ask for.
        data: the same for each question.
        names: of the data that comes with each question.
    """

    modules: tuple[str, ...]
    rules: tuple[str, ...]
    data: Mapping[str, JsonValue]
    names: tuple[str, ...]

    @cached_property
    def written(self) -> bytes:
        """JSON that the process reads at its start."""
        document = {"modules": self.modules, "rules": self.rules, "data": dict(self.data), "names": self.names}
        return json.dumps(document, sort_keys=True).encode()

    @cached_property
    def key(self) -> bytes:
        """Digest of what the process reads; that of the texts is kept, as it is the same for many questions."""
        texts = _digest_of((self.modules, self.rules, self.names))
        return sha256(texts + json.dumps(dict(self.data), sort_keys=True).encode()).digest()


@lru_cache(maxsize=16)
def _digest_of(texts: tuple[tuple[str, ...], ...]) -> bytes:
    return sha256(json.dumps(texts).encode()).digest()


class Zygote:
    """One process with a compiled policy. Its methods may be called by several threads at a time.

    Raises:
        EngineRefusedError: it cannot be started, or the policy does not compile.
    """

    def __init__(self, compiled: CompiledFor, limits: RegoLimits, deadline: float) -> None:
        if len(compiled.written) > MAX_POLICY_BYTES:
            raise EngineRefusedError(f"the policy and its data have more than {MAX_POLICY_BYTES} bytes")
        self._packets, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The engine writes the compiled policy there; the worker reads the called functions from it.
        with TemporaryDirectory(prefix="attest-rego-") as folder, theirs:
            try:
                self._process = _start(compiled, limits, Path(folder), theirs)
            except OSError as exc:
                self._packets.close()
                raise EngineRefusedError(f"the engine cannot be started: {exc.strerror}") from exc
            theirs.close()
            try:
                self._await_ready(deadline, limits)
            except EngineRefusedError:
                self.end(kill=True)
                raise

    def _await_ready(self, deadline: float, limits: RegoLimits) -> None:
        self._packets.settimeout(remaining(deadline))
        try:
            packet = self._packets.recv(MAX_ANSWER_BYTES)
        except TimeoutError:
            raise late(limits) from None
        except ConnectionError:
            packet = b""
        if not packet:
            raise _ended(self._process.wait(_GRACE_SECONDS))
        match _read(packet):
            case {"ready": True}:
                return
            case {"error": str(problem), "offset": int(offset)}:
                raise EngineFaultError(problem, offset)
            case {"error": str(problem), "function": str(function)}:
                raise EngineFaultError(problem, function=function)
            case {"error": str(problem), "fault": True}:
                raise EngineFaultError(problem)
            case {"error": str(problem)}:
                raise EngineRefusedError(problem)
        raise EngineRefusedError("the engine's answer is malformed")

    def ask(self, request: bytes, limits: RegoLimits, deadline: float) -> Mapping[str, JsonValue]:
        """Return the values of the rules that are defined.

        Raises:
            EngineRefusedError: no answer, or a malformed one.
            ZygoteLostError: the process ended before it did.
        """
        ours, theirs = socket.socketpair()
        ended, code = os.pipe()
        with ours, os.fdopen(ended, "rb", buffering=0) as codes:
            try:
                self._send(limits, deadline, theirs.fileno(), code)
            finally:
                theirs.close()
                os.close(code)
            out = _exchange(ours, request, deadline + _GRACE_SECONDS)
            if len(out) > MAX_ANSWER_BYTES:
                raise EngineRefusedError("the answer is too long")
            found = _exit_code(codes.fileno(), deadline + _GRACE_SECONDS)
        if found == EXIT_LATE:
            raise late(limits)
        if found:
            raise _ended(found)
        return _results(out)

    def _send(self, limits: RegoLimits, deadline: float, question: int, code: int) -> None:
        packet = f"{limits.memory} {limits.cpu_seconds} {int(remaining(deadline) * 1000)}".encode()
        try:
            if not _is_ready(self._packets.fileno(), select.POLLOUT, deadline):
                raise late(limits)
            socket.send_fds(self._packets, [packet], [question, code])
        except (OSError, ValueError) as exc:  # it ended, or another thread has ended it
            raise ZygoteLostError from exc

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def end(self, *, kill: bool = False) -> None:
        """End the process and all that it forked. Closing the socket is enough for one that works."""
        if kill:
            self._process.kill()
        self._packets.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)

    def forget(self) -> None:
        """Let go of the process in a forked copy of its owner, whose child it is not."""
        self._packets.close()
        self._process.returncode = 0


def _start(compiled: CompiledFor, limits: RegoLimits, folder: Path, packets: socket.socket) -> subprocess.Popen[bytes]:
    numbers = (limits.memory, limits.cpu_seconds, os.getpid(), packets.fileno())
    with TemporaryFile(dir=folder) as policy:
        policy.write(compiled.written)
        policy.seek(0)
        # A separate session: an interrupt from the keyboard reaches only the owner, which ends the process.
        return subprocess.Popen(  # noqa: S603  this interpreter; no shell reads it
            [sys.executable, "-I", "-c", START, *map(str, numbers), str(_PACKAGE.parent), str(_PACKAGE)],
            stdin=policy,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=folder,
            start_new_session=True,
            pass_fds=[packets.fileno()],
        )


def remaining(deadline: float) -> float:
    """Return the seconds until a deadline, never none."""
    return max(deadline - time.monotonic(), 0.001)


def _is_ready(descriptor: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(remaining(deadline) * 1000))


def _exchange(connection: socket.socket, request: bytes, deadline: float) -> bytes:
    """Send a request and return the answer, or its beginning if it is too long; empty if none came."""
    parts: list[bytes] = []
    left = MAX_ANSWER_BYTES + 1
    try:
        connection.settimeout(remaining(deadline))
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while left > 0 and (part := _received(connection, left, deadline)):
            parts.append(part)
            left -= len(part)
    except OSError:  # the exit code says why
        return b""
    return b"".join(parts)


def _received(connection: socket.socket, limit: int, deadline: float) -> bytes:
    connection.settimeout(remaining(deadline))
    return connection.recv(limit)


def _exit_code(pipe: int, deadline: float) -> int:
    """Return the exit code of the process that answered a question.

    Raises:
        ZygoteLostError: its parent ended, or hangs.
    """
    found = os.read(pipe, _CODE.size) if _is_ready(pipe, select.POLLIN, deadline) else b""
    if len(found) != _CODE.size:
        raise ZygoteLostError
    return int(_CODE.unpack(found)[0])


def late(limits: RegoLimits) -> EngineRefusedError:
    """Return the error of a question whose time is over."""
    return EngineRefusedError(f"the engine did not end within {limits.seconds:g} s")


def _ended(code: int) -> EngineRefusedError:
    return EngineRefusedError(_ENDS.get(code, f"the engine crashed: it ended with {code}"))


def _read(answer: bytes) -> JsonValue:
    try:
        return json_value(answer, what="answer of the Rego engine")
    except EvidenceError as exc:
        raise EngineRefusedError("the engine's answer cannot be read") from exc


def _results(answer: bytes) -> Mapping[str, JsonValue]:
    match _read(answer):
        case {"error": str(problem), **rest} if not rest:
            raise EngineRefusedError(problem)
        case {"results": dict(results), **rest} if not rest:
            return results
    raise EngineRefusedError("the engine's answer is malformed")
