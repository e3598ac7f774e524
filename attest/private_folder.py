"""Private folder of a process, in memory and for its user alone, for secrets of programs that read files.

The folder is removed when it is closed. A killed process leaves it behind: its lock is free then, and the next process
of the same user that makes such a folder removes it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.file_systems import is_in_memory
from attest.files import Content, write_file

PREFIX: Final = "attest-run-"
OWNER_READS: Final = 0o400
_OWNER_ONLY: Final = 0o700
_RUNTIME_VARIABLE: Final = "XDG_RUNTIME_DIR"
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  the folder in it is made for one user
_RANDOM_BYTES: Final = 12


class PrivateFolder(ClosedOnExit):
    """A new folder with files of mode 0400; thread-safe.

    ``base`` is the folder on tmpfs or ramfs in which it is made; None takes ``$XDG_RUNTIME_DIR`` or ``/dev/shm``.

    Raises:
        ConfigurationError: ``memory-folder-missing``: there is no such base that this user can write.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self.base = _base() if base is None else base
        remove_abandoned(self.base)
        try:
            self.path, self._descriptor = _made(self.base)
        except OSError as exc:
            raise _no_memory(f"{self.base}: {exc.strerror}") from exc

    def put(self, name: str, content: Content) -> None:
        """Write a file, or replace it in one step; after ``close`` do nothing.

        Raises:
            OutputError: ``output-unwritable``.
        """
        with self._lock:
            if not self._closed:
                write_file(self.path / name, content, mode=OWNER_READS, replace=True)

    def close(self) -> None:
        """Remove the files and the folder. Repeated calls are harmless."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)


def remove_abandoned(base: Path) -> None:
    """Remove the folders of this user's processes that were killed."""
    for folder in _folders(base):
        with suppress(OSError):
            descriptor = _opened(folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(descriptor)


def _folders(base: Path) -> Iterator[Path]:
    with suppress(OSError):
        for entry in base.glob(f"{PREFIX}*"):
            status = entry.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                yield entry


def _made(base: Path) -> tuple[Path, int]:
    """Make a folder and lock it; make another one if a process that removes abandoned ones came in between."""
    while True:
        folder = base / f"{PREFIX}{secrets.token_hex(_RANDOM_BYTES)}"
        folder.mkdir(mode=_OWNER_ONLY)
        try:
            descriptor = _opened(folder)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return folder, descriptor
        os.close(descriptor)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _base() -> Path:
    named = os.environ.get(_RUNTIME_VARIABLE)
    candidates: tuple[Path, ...] = (Path(named), _SHARED_MEMORY) if named else (_SHARED_MEMORY,)
    for base in candidates:
        with suppress(OSError):
            if base.is_absolute() and is_in_memory(base.stat().st_dev) and os.access(base, os.W_OK | os.X_OK):
                return base
    raise _no_memory("neither $XDG_RUNTIME_DIR nor /dev/shm is a tmpfs that this user can write")


def _no_memory(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no file system in memory for the files of secrets: {problem}",
        code="memory-folder-missing",
        field="--file",
        expected="a tmpfs at $XDG_RUNTIME_DIR or /dev/shm",
        hint="mount one, such as an emptyDir with medium: Memory, and set XDG_RUNTIME_DIR to it",
    )
