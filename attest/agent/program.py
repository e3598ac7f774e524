"""The program that the agent runs while its files are there, restarted or signalled when they change."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attest.agent.files_config import ProgramConfig

FAILED_START: Final = 127
_SIGNAL_BASE: Final = 128
_log = logging.getLogger("attest.agent")


class SupervisedProgram:
    """A program; ``ended`` is called with its exit code when it ends by itself, or cannot be started. Thread-safe."""

    def __init__(self, config: ProgramConfig, *, ended: Callable[[int], None]) -> None:
        self._config = config
        self._ended = ended
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def is_running(self) -> bool:
        """True while it runs."""
        with self._lock:
            return self._process is not None

    def start(self) -> None:
        """Start it unless it runs."""
        with self._lock:
            if self._process is not None or self._closed:
                return
            try:
                process = subprocess.Popen(self._config.command)  # noqa: S603  the configuration's command
            except OSError as exc:
                _log.error("the program cannot be started: %s", exc.strerror)
                self._ended(FAILED_START)
                return
            self._process = process
            threading.Thread(target=self._wait, args=(process,), name="agent-program", daemon=True).start()
        _log.info("the program runs")

    def changed(self) -> None:
        """Restart or signal it after a change of its files; start it if it does not run."""
        with self._lock:
            on_change = self._config.on_change
            if self._process is not None and on_change == "restart":
                self.stop()
            elif self._process is not None and isinstance(on_change, signal.Signals):
                with suppress(ProcessLookupError):
                    self._process.send_signal(on_change)
            self.start()

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL after the configured time."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(self._config.stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _log.info("the program was stopped")

    def close(self) -> None:
        """End it for good."""
        with self._lock:
            self._closed = True
            self.stop()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with self._lock:
            if self._process is not process:
                return  # stopped by this agent
            self._process = None
        _log.warning("the program ended with %d", code)
        self._ended(_SIGNAL_BASE - code if code < 0 else code)


def run_after_change(command: tuple[str, ...], *, seconds: float, what: str) -> None:
    """Run a command for a limited time, and log its failure."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=seconds, check=False)  # noqa: S603  as above
    except subprocess.TimeoutExpired:
        _log.error("%s: the command after a change took longer than %g s", what, seconds)
    except OSError as exc:
        _log.error("%s: the command after a change cannot be started: %s", what, exc.strerror)
    else:
        if done.returncode:
            _log.error("%s: the command after a change ended with %d", what, done.returncode)
