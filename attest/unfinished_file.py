"""Unfinished files under a temporary name, ``<target>.new``, locked.

They are for libraries that write a file by its name, and for content that the next process continues after an
interruption. A process that is killed leaves at most the unfinished file. ``attest.files`` makes all other files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attest.errors import OutputError
from attest.files import OWNER_ONLY, NewFile, output_errors, rename_new, require_absent

UNFINISHED_SUFFIX: Final = ".new"
_OTHERS: Final = 0o077


class UnfinishedFile:
    """An unfinished file under the temporary name ``<target>.new``, locked."""

    def __init__(self, path: Path, file: Path, descriptor: int) -> None:
        self.path = path
        self.file = file
        self._descriptor = descriptor

    def content(self, limit: int) -> bytes:
        """Return at most `limit` bytes; an interrupted process may have left some."""
        return os.pread(self._descriptor, limit, 0)

    def write(self, content: bytes) -> None:
        """Replace the content and sync it to the disk.

        Raises:
            OutputError: ``output-unwritable``.
        """
        with output_errors(str(self.path)):
            os.ftruncate(self._descriptor, 0)
            NewFile(str(self.path), self._descriptor).write_at(0, content)
            os.fsync(self._descriptor)

    def flush(self) -> None:
        """Sync what another library wrote to the disk.

        Raises:
            OutputError: ``output-unwritable``.
        """
        with output_errors(str(self.path)):
            os.fsync(self._descriptor)

    def place(self) -> None:
        """Rename it to its final name and sync the folder; the content must be synced already.

        Raises:
            OutputError: ``output-exists``: the name was taken meanwhile; ``output-unwritable``.
        """
        rename_new(self.file, self.path)

    def discard(self) -> None:
        """Remove it."""
        self.file.unlink(missing_ok=True)


@contextmanager
def unfinished_file(path: Path) -> Iterator[UnfinishedFile]:
    """Start a file that does not exist yet, readable by its owner alone, or continue an interrupted one.

    It survives the process. Leaving the block only releases the lock; place or discard the file inside it.

    Raises:
        OutputError: ``output-exists``, or ``output-unwritable``, also for a file of another process or user.
    """
    file = path.with_name(path.name + UNFINISHED_SUFFIX)
    _require_unplaced(path)
    with output_errors(str(path)):
        descriptor = _locked(file)
    try:
        try:
            _require_unplaced(path)  # placed by another process, whose lock this one just saw
        except OutputError:
            file.unlink(missing_ok=True)
            raise
        yield UnfinishedFile(path, file, descriptor)
    finally:
        os.close(descriptor)


def tidy_unfinished(path: Path) -> None:
    """Remove the temporary name that an interruption right after placing the file left behind."""
    file = path.with_name(path.name + UNFINISHED_SUFFIX)
    if os.path.lexists(file) and os.path.lexists(path) and path.lstat().st_ino == file.lstat().st_ino:
        file.unlink(missing_ok=True)


def _require_unplaced(path: Path) -> None:
    tidy_unfinished(path)
    require_absent(path)


def _locked(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, OWNER_ONLY)
        try:
            _lock(descriptor)
            status = os.fstat(descriptor)
            if status.st_nlink and file.lstat().st_ino == status.st_ino:
                _require_ours(file, status)
                return descriptor
        except FileNotFoundError:
            pass  # placed or discarded by the process that had the lock: begin again
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise BlockingIOError(exc.errno, "another process is making it") from exc


def _require_ours(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        raise PermissionError(errno.EPERM, "a draft is there that is not this user's alone", str(file))
