"""Processes of the demonstration: started with an environment of their own, and ended with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError

KMS: Final = ("-m", "kms")
"""The key-release service and its command line, as arguments of Python."""
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
RUN_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.03
_KEPT: Final = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ")
_TIED: Final = Path(__file__).with_name("bound_process.py")


@dataclass(slots=True, kw_only=True)
class Program:
    """A running process, and the files of its standard output and error."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def facts(self, *names: str) -> dict[str, str]:
        """Wait until the program has printed these names as ``name: value``, and return all such lines.

        Raises:
            ConfigurationError: ``demo-program-failed``: the program ended, or printed too little in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            lines = self.out.read_text(errors="replace").splitlines(keepends=True)
            found = dict(line.rstrip("\n").split(": ", 1) for line in lines if line.endswith("\n") and ": " in line)
            if all(name in found for name in names):
                return found
            if self.process.poll() is not None:
                raise _failed(self.name, self.err.read_text(errors="replace"))
            time.sleep(_POLL_SECONDS)
        raise _failed(self.name, f"not ready after {START_SECONDS:.0f} s\n{self.err.read_text(errors='replace')}")

    def require_running(self) -> None:
        """Require that the program has not ended by itself.

        Raises:
            ConfigurationError: ``demo-program-failed``, with its last words.
        """
        if self.process.poll() is not None:
            errors = self.err.read_text(errors="replace")
            raise _failed(self.name, f"{errors}\n{_ended(self.process.returncode)}")

    def stop(self) -> int:
        """Terminate the process, and kill it after a delay; return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        except BaseException:  # interrupted again while waiting: the program must not outlive this process
            self._kill()
            raise
        return self.process.returncode

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()


def environment(**more: str) -> dict[str, str]:
    """Return an environment without the settings of the user's own services."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | more


def start(name: str, arguments: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> Program:
    """Start Python with these arguments, from the main thread: the program ends with that thread.

    Its output goes to files of its name in the folder.

    Raises:
        ConfigurationError: ``demo-program-failed``.
    """
    out, err = folder / f"{name}.out", folder / f"{name}.log"
    command = [sys.executable, "-S", "-E", str(_TIED), str(os.getpid()), sys.executable, *arguments]
    with out.open("wb") as output, err.open("wb") as errors:
        try:
            # A session of its own: an interrupt from the keyboard reaches this process alone, which stops the program.
            process = subprocess.Popen(  # noqa: S603  this project's own programs
                command,
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as exc:
            raise _failed(name, str(exc)) from exc
    return Program(name=name, process=process, out=out, err=err)


def run(name: str, arguments: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> str:
    """Run a program of this project to its end, and return what it printed; errors as ``start``."""
    program = start(name, arguments, folder=folder, env=env)
    return finish(program)


def finish(program: Program) -> str:
    """Wait until a program has ended by itself, and return what it printed; errors as ``start``."""
    try:
        code = program.process.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired as exc:
        program.stop()
        raise _failed(program.name, f"not done after {RUN_SECONDS:.0f} s") from exc
    except BaseException:
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        raise
    if code:
        raise _failed(program.name, program.err.read_text(errors="replace"))
    return program.out.read_text(errors="replace")


def _ended(code: int) -> str:
    """Return a description of how a process ended."""
    if code >= 0:
        return f"it ended with {code}"
    known = {one.value: one.name for one in signal.Signals}
    return f"it was ended by {known.get(-code, f'signal {-code}')}"


def _failed(what: str, output: str) -> ConfigurationError:
    last = " | ".join(output.strip().splitlines()[-4:])
    return ConfigurationError(f"{what} failed: {last or 'it printed nothing'}", code="demo-program-failed")
