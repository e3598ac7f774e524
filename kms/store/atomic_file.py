"""Files that appear under their name whole, or not at all.

What is made is made as a draft beside the file, under a lock, and gets its name when it is whole and on the disk.
Whoever is killed leaves at most the draft, which whoever comes next takes over. A file that is there is never
overwritten.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DRAFT_SUFFIX", "Draft", "drafting", "tidy", "write_new"]

DRAFT_SUFFIX: Final = ".new"
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems answer that give a file one name only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A file in the making.

    Attributes:
        path: what it will be called.
        file: what it is called until then.
        descriptor: the open draft, locked.
    """

    path: Path
    file: Path
    descriptor: int

    def content(self, limit: int) -> bytes:
        """Return at most so many bytes of what is in it: nothing, or what somebody left who was interrupted."""
        return os.pread(self.descriptor, limit, 0)

    def write(self, content: bytes) -> None:
        """Put this into it, and on the disk."""
        os.ftruncate(self.descriptor, 0)
        written = 0
        while written < len(content):
            written += os.pwrite(self.descriptor, content[written:], written)
        os.fsync(self.descriptor)

    def place(self) -> None:
        """Give it its name, on the disk too.

        Raises:
            FileExistsError: somebody else used the name meanwhile.
            OSError: it cannot be.
        """
        try:
            os.link(self.file, self.path)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path)) from exc
            self.file.rename(self.path)
        self.file.unlink(missing_ok=True)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def discard(self) -> None:
        """Take it away."""
        self.file.unlink(missing_ok=True)


@contextmanager
def drafting(path: Path) -> Iterator[Draft]:
    """Begin a file that is not there yet, for its owner alone, or go on with what somebody left of it.

    Leaving the block gives the draft's lock back and nothing else: it is placed or discarded inside.

    Raises:
        FileExistsError: the file is there.
        BlockingIOError: another process is making it.
        OSError: it cannot be made; a draft that others could have written counts as that.
    """
    file = path.with_name(path.name + DRAFT_SUFFIX)
    _require_absent(path)
    descriptor = _locked(file)
    try:
        try:
            _require_absent(path)  # placed by another process, whose lock this one just saw
        except FileExistsError:
            file.unlink(missing_ok=True)
            raise
        yield Draft(path=path, file=file, descriptor=descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, for its owner alone, and flush it and its name to the disk.

    Raises:
        FileExistsError: the file is there.
        OSError: as ``drafting``.
    """
    with drafting(path) as draft:
        draft.write(content)
        draft.place()


def tidy(path: Path) -> None:
    """Take away the first name of a file that was placed by somebody who was interrupted right after that."""
    file = path.with_name(path.name + DRAFT_SUFFIX)
    if os.path.lexists(file) and os.path.lexists(path) and path.lstat().st_ino == file.lstat().st_ino:
        file.unlink(missing_ok=True)


def _require_absent(path: Path) -> None:
    if not os.path.lexists(path):
        return
    tidy(path)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _locked(file: Path) -> int:
    """Open the draft, locked and still of this name."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def _require_ours(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "a draft is there that is not this user's alone", str(file))
