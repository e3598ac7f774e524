"""The child process of ``attest run``: its keys as descriptors, its signals and its end."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Literal

from attest.cli.program_secrets import FOLDER_VARIABLE, ProgramSecrets
from attest.errors import ConfigurationError, LeaseLostError
from attest.release.names import KeyReference
from attest.session import SessionKey
from attest.terminal.boundary import report_error
from attest.terminal.signals import handled_signals

VARIABLE_PREFIX: Final = "ATTEST_KEY_FD_"
_SIGNAL_BASE: Final = 128
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TERMINAL_SIGNALS: Final = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to the program as well; a forwarded one would arrive twice."""
_PASSED_ON: Final = (*_TERMINAL_SIGNALS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_MEMFD_NOEXEC_SEAL: Final = 0x0008
"""``MFD_NOEXEC_SEAL`` of Linux 6.3; kernels before refuse it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedKey:
    """One key, ``KEY``, ``TENANT/KEY``, or either with ``@VERSION``, and its upper-case name in the program."""

    name: str
    reference: str

    @staticmethod
    def parse(text: str) -> WantedKey:
        """Read ``NAME=KEY``.

        Raises:
            ConfigurationError: ``run-key-invalid``, or the code for an invalid name of a key.
        """
        name, sign, reference = text.partition("=")
        if not sign or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"--key {text[:80]!r} does not name a key",
                code="run-key-invalid",
                field="--key",
                expected="NAME=KEY, the name of letters, digits and '_', not beginning with a digit",
                hint="such as --key MODEL=llama-70b",
            )
        return WantedKey(name=name.upper(), reference=str(KeyReference.parse(reference)))

    @staticmethod
    def require_different(wanted: tuple[WantedKey, ...]) -> None:
        """Require that no name and no key is repeated.

        Raises:
            ConfigurationError: ``run-key-invalid``.
        """
        for values in ([one.name for one in wanted], [one.reference for one in wanted]):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ConfigurationError(
                    f"--key: {twice[0]} is repeated", code="run-key-invalid", field="--key", got=twice[0]
                )

    @property
    def variable(self) -> str:
        """The variable that holds the number of the descriptor."""
        return f"{VARIABLE_PREFIX}{self.name}"


def descriptor_of(material: memoryview, kind: Literal["memfd", "pipe"]) -> int:
    """Return a descriptor from which a key of at most 64 KiB can be read; the caller closes it.

    It is a sealed file in memory, which is immutable, or a pipe, which can be read once.

    Raises:
        ConfigurationError: ``descriptor-unusable``.
    """
    try:
        return _pipe(material) if kind == "pipe" else _sealed_memory(material)
    except OSError as exc:
        raise ConfigurationError(
            f"the kernel provides no {kind} for a key: {exc.strerror}",
            code="descriptor-unusable",
            field="--as",
            got=exc.strerror,
        ) from exc


def _pipe(material: memoryview) -> int:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if os.write(writing, material) != len(material):
            raise BlockingIOError(0, "it does not fit into a pipe")
        os.set_blocking(reading, True)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def _sealed_memory(material: memoryview) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        descriptor = os.memfd_create("attest-key", flags | _MEMFD_NOEXEC_SEAL)
    except OSError:
        descriptor = os.memfd_create("attest-key", flags)
    try:
        left = material
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@dataclass(slots=True, kw_only=True)
class ChildProgram:
    """A program, looked up in PATH, that runs with keys.

    With ``terminate`` a lost lease ends it, with ``grace`` seconds between SIGTERM and SIGKILL. ``variables`` are added
    to its environment.
    """

    command: tuple[str, ...]
    kind: Literal["memfd", "pipe"]
    terminate: bool
    grace: float
    warn: Callable[[str], None]
    variables: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _secrets: ProgramSecrets | None = field(default=None, init=False)
    _versions: dict[KeyReference, int] = field(default_factory=dict, init=False)
    _in_descriptors: set[KeyReference] = field(default_factory=set, init=False)
    _ended_by: LeaseLostError | None = field(default=None, init=False)
    _early: list[int] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(
        self, wanted: tuple[WantedKey, ...], keys: tuple[SessionKey, ...], secrets: ProgramSecrets | None = None
    ) -> int:
        """Start the program with the wanted keys and secrets, wait for its end, and return the exit code.

        Raises:
            ConfigurationError: ``command-unusable`` or ``descriptor-unusable``; or as ``ProgramSecrets.placed``.
            LeaseLostError: a lease was lost, and the program was ended for it.
        """
        self._secrets = secrets
        placed = nullcontext[Mapping[str, str]]({}) if secrets is None else secrets.placed()
        with handled_signals(self._pass_on, *_PASSED_ON), placed as variables:
            code = self._started(wanted, keys, variables).wait()
        if self._ended_by is not None:
            raise self._ended_by
        return _SIGNAL_BASE - code if code < 0 else code

    def _started(
        self, wanted: tuple[WantedKey, ...], keys: tuple[SessionKey, ...], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        descriptors: dict[str, int] = {}
        try:
            for one, key in zip(wanted, keys, strict=True):
                descriptors[one.variable] = descriptor_of(key.material, self.kind)
                self._versions[key.reference] = key.version
                self._in_descriptors.add(key.reference)
            if self._secrets is not None:
                self._versions |= {key.reference: key.version for key in self._secrets.found.values()}
            process = self._popen(descriptors, variables)
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)
        with self._lock:
            self._process = process
            lost = self._ended_by
        if lost is not None:
            self._end(process)
        while self._early:
            self._send(process, self._early.pop(0))
        return process

    def _popen(self, descriptors: dict[str, int], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        # Variables of an outer 'attest run' name descriptors and files that are not this program's.
        outer = (VARIABLE_PREFIX, FOLDER_VARIABLE)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
        passed = {name: str(number) for name, number in descriptors.items()}
        sys.stdout.flush()
        try:
            return subprocess.Popen(  # noqa: S603  the caller's command
                self.command,
                pass_fds=tuple(descriptors.values()),
                env=inherited | passed | {**self.variables, **variables},
            )
        except (OSError, ValueError) as exc:
            problem = getattr(exc, "strerror", None) or str(exc)
            raise ConfigurationError(
                f"{self.command[0]} cannot be started: {problem}",
                code="command-unusable",
                field="COMMAND",
                got=problem,
                hint="name a program in PATH, or the path of an executable file",
            ) from exc

    def lost(self, key: SessionKey, error: LeaseLostError) -> None:
        """Handle the loss of a lease. Called in the thread that renews."""
        if not self.terminate:
            report_error(f"{error.message}; the program continues with {key.reference} (--on-lost continue)")
            return
        with self._lock:
            self._ended_by = self._ended_by or error
            process = self._process
        if process is not None:
            self._end(process)

    def renewed(self, key: SessionKey) -> None:
        """Handle a new lease: descriptors and variables keep their version, files get the new one."""
        before = self._versions.get(key.reference)
        if before is None or before == key.version:
            return
        self._versions[key.reference] = key.version
        if self._secrets is not None and self._renewed_all(key, self._secrets):
            self.warn(f"{key.reference} was rotated: its files have version {key.version} now")
        else:
            self.warn(f"{key.reference} was rotated: the program has version {before}, and {key.version} is current")

    def _renewed_all(self, key: SessionKey, secrets: ProgramSecrets) -> bool:
        """Renew the files of a secret; return True if it is in files alone."""
        return secrets.renewed(key) and key.reference not in self._in_descriptors

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        del frame
        process = self._process
        if process is None:
            # The child may be running already. An exit here would leave it behind with its keys.
            self._early.append(number)
            return
        self._send(process, number)

    @staticmethod
    def _send(process: subprocess.Popen[bytes], number: int) -> None:
        if number in _TERMINAL_SIGNALS and _on_a_terminal():
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        kill = threading.Timer(self.grace, process.kill)
        kill.daemon = True
        kill.start()


def _on_a_terminal() -> bool:
    """Return True if a terminal sends its signals to this process, and so to the program as well."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(descriptor)
