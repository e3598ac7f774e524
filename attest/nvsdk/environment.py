"""Installation of NVIDIA's Python SDK in a separate environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError
from attest.user_folders import user_folder

PINNED = ("nv-attestation-sdk==2.7.3", "nv-local-gpu-verifier==2.7.3")
"""The versions in ``specs/nvidia-gpu.md``. They pin only part of their dependencies."""
SUPPORTED = ((3, 9), (3, 12))
"""Oldest and newest Python: the packages need 3.9, and their lxml 4.9 has no wheels beyond 3.12."""
VARIABLE = "ATTEST_NVSDK"
"""Variable with the folder of another environment than the default one."""
INSTALL_SECONDS = 900.0
MAX_TOLD = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class NvsdkEnvironment:
    """A virtual environment that holds NVIDIA's packages."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def installation_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that ATTEST_NVSDK names, or ``attest/nvsdk`` in the user's data directory.

    Raises:
        ConfigurationError: ``nvsdk-missing``, none of the variables names an absolute path.
    """
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    base = user_folder("XDG_DATA_HOME", ".local/share", environ)
    if base is not None:
        return base / "attest" / "nvsdk"
    raise ConfigurationError(
        "there is no place for NVIDIA's Python SDK",
        code="nvsdk-missing",
        expected=f"{VARIABLE}, XDG_DATA_HOME or HOME with an absolute path",
        hint=f"name a folder with --dir DIR, or set {VARIABLE}",
    )


def find_environment(folder: Path) -> NvsdkEnvironment:
    """Return the environment in a folder, without a check for NVIDIA's packages.

    Raises:
        ConfigurationError: ``nvsdk-missing``.
    """
    found = NvsdkEnvironment(folder=folder)
    if not found.python.exists():
        raise ConfigurationError(
            f"NVIDIA's Python SDK is not installed in {folder}",
            code="nvsdk-missing",
            expected=str(found.python),
            got="no such file",
            hint=f"install it with 'attest nvsdk install --yes', or name another folder with --dir or {VARIABLE}",
        )
    return found


def install_commands(folder: Path, *, python: str = sys.executable) -> tuple[tuple[str, ...], ...]:
    """Return the commands that install the pinned pair, in order, without running them."""
    pip = (str(NvsdkEnvironment(folder=folder).python), "-m", "pip", "--disable-pip-version-check", "--no-input")
    return ((python, "-m", "venv", str(folder)), (*pip, "install", *PINNED))


def install(
    folder: Path, *, environ: Mapping[str, str], python: str = sys.executable, say: Callable[[str], None]
) -> NvsdkEnvironment:
    """Create the environment and install the pinned pair in it, with pip's configuration of this machine.

    Args:
        folder: new, or an environment to bring to the pinned versions.
        environ: passed on, so that proxies and pip's own settings apply.
        python: interpreter of a supported version.
        say: called with a line for people before each command.

    Raises:
        ConfigurationError: ``nvsdk-python-unsupported``, ``nvsdk-folder-taken`` or ``nvsdk-install-failed``.
    """
    _require_supported(python, environ)
    if folder.exists() and not (folder / "pyvenv.cfg").is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(
            f"{folder} is there and is no virtual environment",
            code="nvsdk-folder-taken",
            hint="name another folder with --dir DIR",
        )
    for command in install_commands(folder, python=python):
        say(" ".join(command))
        _run(command, environ)
    return find_environment(folder)


def _require_supported(python: str, environ: Mapping[str, str]) -> None:
    output = _run((python, "-c", "import sys; print(*sys.version_info[:2])"), environ)
    oldest, newest = SUPPORTED
    parts = output.split()
    version = (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(map(str.isdigit, parts)) else (0, 0)
    if not oldest <= version <= newest:
        raise ConfigurationError(
            f"{python} is Python {'.'.join(parts) or 'of no version'}",
            code="nvsdk-python-unsupported",
            expected=f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}",
            got=".".join(parts),
            hint="name another interpreter with --python FILE",
        )


def _run(command: tuple[str, ...], environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  commands of this module, no shell
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _failed(command, str(exc)) from exc
    if done.returncode:
        raise _failed(command, done.stderr.strip()[-MAX_TOLD:])
    return done.stdout


def _failed(command: tuple[str, ...], output: str) -> ConfigurationError:
    return ConfigurationError(
        f"{' '.join(command[:4])} failed: {' '.join(output.split())}",
        code="nvsdk-install-failed",
        got=output,
        hint="check that pip reaches a package registry from here; the folder can be removed and made again",
    )
