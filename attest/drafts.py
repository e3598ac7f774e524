"""Files in the making that have a name of their own until then: ``<target>.new``, locked.

A library that writes a file by its name needs one, and so does a content that the next process takes up after an
interruption. A process that is killed leaves at most the draft. Any other file is made by ``attest.files``.
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

__all__ = ["DRAFT_SUFFIX", "Draft", "draft_file", "tidy_draft"]

DRAFT_SUFFIX: Final = ".new"
_OTHERS: Final = 0o077


class Draft:
    """A file in the making that has a name of its own until then, ``<target>.new``, and is locked.

    Args:
        path: the name that it gets.
        file: the name that it has until then.
        descriptor: the open draft.
    """

    def __init__(self, path: Path, file: Path, descriptor: int) -> None:
        """Take over an open and locked draft."""
        self.path = path
        self.file = file
        self._descriptor = descriptor

    def content(self, limit: int) -> bytes:
        """Return at most so many bytes of it: nothing, or what an interrupted process left."""
        return os.pread(self._descriptor, limit, 0)

    def write(self, content: bytes) -> None:
        """Replace the content, on the disk too.

        Raises:
            OutputError: ``output-unwritable``.
        """
        with output_errors(str(self.path)):
            os.ftruncate(self._descriptor, 0)
            NewFile(str(self.path), self._descriptor).write_at(0, content)
            os.fsync(self._descriptor)

    def flush(self) -> None:
        """Wait until what another library wrote to it is on the disk.

        Raises:
            OutputError: ``output-unwritable``.
        """
        with output_errors(str(self.path)):
            os.fsync(self._descriptor)

    def place(self) -> None:
        """Give it its name, on the disk too; its content has to be there.

        Raises:
            OutputError: ``output-exists``: a file took the name meanwhile; ``output-unwritable``.
        """
        rename_new(self.file, self.path)

    def discard(self) -> None:
        """Remove it."""
        self.file.unlink(missing_ok=True)


@contextmanager
def draft_file(path: Path) -> Iterator[Draft]:
    """Begin a file that is not there yet, for its owner alone, or go on with what an interrupted process left of it.

    The draft survives the process, so that the next one can use its content. Leaving the block gives the lock back and
    nothing else: the draft is placed or discarded inside.

    Raises:
        OutputError: ``output-exists``, or ``output-unwritable``: another process is making it, others could have
            written the draft, or it cannot be made.
    """
    file = path.with_name(path.name + DRAFT_SUFFIX)
    _require_unplaced(path)
    with output_errors(str(path)):
        descriptor = _locked(file)
    try:
        try:
            _require_unplaced(path)  # placed by another process, whose lock this one just saw
        except OutputError:
            file.unlink(missing_ok=True)
            raise
        yield Draft(path, file, descriptor)
    finally:
        os.close(descriptor)


def tidy_draft(path: Path) -> None:
    """Remove the first name of a file whose maker was interrupted right after it placed the file."""
    file = path.with_name(path.name + DRAFT_SUFFIX)
    if os.path.lexists(file) and os.path.lexists(path) and path.lstat().st_ino == file.lstat().st_ino:
        file.unlink(missing_ok=True)


def _require_unplaced(path: Path) -> None:
    tidy_draft(path)
    require_absent(path)


def _locked(file: Path) -> int:
    """Open the draft, locked and still of this name."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, OWNER_ONLY)
        try:
            _lock(descriptor)
            status = os.fstat(descriptor)
            if status.st_nlink and file.lstat().st_ino == status.st_ino:
                _require_ours(file, status)
                return descriptor
        except FileNotFoundError:
            pass  # placed or discarded by the process that had the lock: begin anew
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
