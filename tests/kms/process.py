"""A real `kms serve` in a process of its own, and a small HTTP client."""

import http.client
import io
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attest.encoding import JsonValue
from attest.release import Challenge
from tests.kms.warm import REPOSITORY, WarmProcess, environment

__all__ = ["REPOSITORY", "START_SECONDS", "ServedProcess", "command", "connections_of", "environment"]

START_SECONDS = 120
"""Longest wait for something that takes a second or two on a machine that has nothing else to do."""


def command(*arguments: str) -> list[str]:
    """Return a command line of the program, which gives a busy machine's workers a minute to end."""
    patient = "from kms.running import workers; workers.KILL_MARGIN_SECONDS = 60.0"
    return [sys.executable, "-c", f"{patient}; from kms.cli.main import main; main()", *arguments]


@dataclass
class ServedProcess:
    """One life of a service."""

    process: subprocess.Popen[bytes] | WarmProcess
    output: io.FileIO
    """Where its standard output is read."""
    port: int
    identity: str
    admin_port: int
    """Where administrators are served; without them, where keys are released."""

    @staticmethod
    def start(
        config: Path, *more: str, cold: bool = False, before: Callable[[], None] | None = None
    ) -> "ServedProcess":
        """Serve, and wait until it answers.

        Args:
            config: where the service's settings are; its standard error goes into `serve.log` beside them.
            more: further arguments of `kms serve`.
            cold: start an interpreter of its own, where the start itself is looked at.
            before: called in the process to be, which is cold then.
        """
        arguments = ("serve", "--config", str(config), "--port", "0", *more)
        reading, theirs = os.pipe()
        output = io.FileIO(reading)
        process: subprocess.Popen[bytes] | WarmProcess
        with (config.parent / "serve.log").open("ab") as log:
            if cold or before is not None:
                process = subprocess.Popen(
                    command(*arguments),
                    stdout=theirs,
                    stderr=log,
                    env=environment(),
                    preexec_fn=before,  # noqa: PLW1509  one thread, and one system call
                )
            else:
                process = WarmProcess.start(*arguments, stdout=theirs, stderr=log.fileno(), env=environment())
        os.close(theirs)
        lines = _lines(output, 3 if "--admin-port" in more else 2)
        if len(lines) < 2:
            process.kill()
            process.wait()
            output.close()
            raise AssertionError((config.parent / "serve.log").read_text(encoding="utf-8"))
        identity, listening, *admin = (line.partition(": ")[2] for line in lines)
        ports = [int(address.rpartition(":")[2]) for address in (listening, *admin)]
        return ServedProcess(process=process, output=output, port=ports[0], identity=identity, admin_port=ports[-1])

    def post(self, path: str, document: JsonValue) -> tuple[int, dict[str, JsonValue]] | None:
        """Return status and body of a whole answer, or None when there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            body = json.dumps(document)
            connection.request("POST", path, body=body, headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content)
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def challenge(self) -> Challenge:
        answer = self.post("/v1/challenges", {})
        assert answer is not None
        assert answer[0] == 200, answer
        return Challenge.from_json(answer[1])

    @property
    def workers(self) -> list[int]:
        """The processes that serve, when there is one more that watches them."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    def wait_for_workers(self, count: int, *, other_than: Sequence[int] = ()) -> list[int]:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            found = [pid for pid in self.workers if pid not in other_than and connections_of(pid) is not None]
            if len(found) == count:
                return found
            time.sleep(0.02)
        raise AssertionError((count, other_than, self.workers))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        code = self.process.wait(START_SECONDS)
        self.output.close()
        return code


def connections_of(pid: int) -> int | None:
    """How many sockets a process that lives has open."""
    try:
        links = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return None
    return sum(link.startswith("socket:") for link in links)


def _lines(output: io.FileIO, count: int) -> list[str]:
    read = b""
    end = time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while read.count(b"\n") < count and time.monotonic() < end:
            if selector.select(timeout=1):
                piece = output.read(4096)
                if not piece:
                    break
                read += piece
    return read.decode().splitlines()
