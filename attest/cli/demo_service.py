"""A real ``kms serve`` for the demonstration: started as a program, stopped whatever happens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError

__all__ = ["Service", "run_kms", "running_service"]

START_SECONDS = 30.0
STOP_SECONDS = 10.0
COMMAND_SECONDS = 30.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where the service listens, and the verifier key by which workloads know it."""

    url: str
    identity: str


def run_kms(arguments: Sequence[str]) -> str:
    """Run a ``kms`` command to its end and return what it printed.

    Raises:
        ConfigurationError: ``kms-missing``, or ``kms-failed`` with what it said.
    """
    try:
        done = subprocess.run(  # noqa: S603  this project's own program
            [_program(), *arguments],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _failed(f"kms {arguments[0]}", str(exc)) from exc
    if done.returncode:
        raise _failed(f"kms {' '.join(arguments[:2])}", done.stderr)
    return done.stdout


@contextmanager
def running_service(config: Path, *, endorsements: Path, folder: Path) -> Iterator[Service]:
    """Run ``kms serve`` on a free port of 127.0.0.1 until the block ends, however it ends.

    Raises:
        ConfigurationError: ``kms-missing``, or ``kms-failed`` with what it said.
    """
    said, log = folder / "kms.out", folder / "kms.log"
    command = [
        _program(),
        "serve",
        *("--config", str(config)),
        *("--port", "0"),
        *("--endorsements", str(endorsements)),
    ]
    with said.open("wb") as out, log.open("wb") as err:
        try:
            # A session of its own: an interrupt from the keyboard is for us, and we end it.
            process = subprocess.Popen(  # noqa: S603  this project's own program
                command, env=_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as exc:
            raise _failed("kms serve", str(exc)) from exc
        try:
            yield _wait_until_ready(process, said, log)
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], said: Path, log: Path) -> Service:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        lines = said.read_text(errors="replace").splitlines(keepends=True)
        facts = dict(line.rstrip("\n").split(": ", 1) for line in lines if line.endswith("\n") and ": " in line)
        if "listening" in facts and "identity" in facts:
            return Service(url=facts["listening"], identity=facts["identity"])
        if process.poll() is not None:
            raise _failed("kms serve", log.read_text(errors="replace"))
        time.sleep(POLL_SECONDS)
    raise _failed("kms serve", f"not ready after {START_SECONDS:.0f} s\n{log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the service gently, then by force; return when it is gone."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    except BaseException:  # interrupted again while waiting: it must not survive us
        process.kill()
        process.wait()
        raise


def _program() -> str:
    """Find ``kms`` beside this Python, where one installation puts both, or else on the path."""
    beside = Path(sys.executable).with_name("kms")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("kms")
    if found is None:
        raise ConfigurationError(
            "the program 'kms' is not installed, and the demonstration needs it",
            code="kms-missing",
            hint="install it with: pip install 'attest-kms[kms]'",
        )
    return found


def _environment() -> dict[str, str]:
    """Our environment without settings of somebody's own service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KMS_")}


def _failed(what: str, said: str) -> ConfigurationError:
    last = " | ".join(line for line in said.strip().splitlines()[-4:])
    return ConfigurationError(f"{what} failed: {last or 'it said nothing'}", code="kms-failed")
