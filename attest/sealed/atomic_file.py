"""New files that are whole or not there.

The bytes go to a file without a name in the target's folder (``O_TMPFILE``), which vanishes with the process; where the
file system has no such files, to ``.<target>.<16 hex digits>.part``. Either is its owner's alone. When every byte is on
the disk it gets the target's name in one step.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attest.errors import SealedSourceError

__all__ = ["PART_SUFFIX", "whole_file", "write_all"]

PART_SUFFIX = ".part"
"""Ends the name of a file that is not whole yet."""
_NAME_BYTES = 8
_MAX_NAME_BYTES = 200
"""Of the target's name in that of the part, so that both fit into 255."""
_OWNER_ONLY = 0o600
_NO_NAMELESS_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
"""EISDIR from kernels that do not know the flag; a folder that is missing says ENOENT again under a name."""
_OWN_DESCRIPTORS = "/proc/self/fd"


def _unwritable(name: str, exc: OSError) -> SealedSourceError:
    """Say that something cannot be written, in the words of the system."""
    return SealedSourceError(
        f"{name} cannot be written: {exc.strerror or exc}",
        code="sealed-target-unwritable",
        field=name,
        got=errno.errorcode.get(exc.errno or 0),
    )


@contextmanager
def whole_file(
    target: str | os.PathLike[str], *, random: Callable[[int], bytes], nameless: bool = True
) -> Iterator[int]:
    """Give the descriptor of a new file that becomes the target when the block ends without an exception.

    Args:
        target: replaced when there is one; a link at its place is replaced and not followed.
        random: returns so many random bytes; makes the temporary name.
        nameless: False never tries a file without a name.

    Raises:
        SealedSourceError: ``sealed-target-unwritable``.
    """
    final = Path(target)
    short = os.fsencode(final.name)[:_MAX_NAME_BYTES].decode(errors="ignore")
    part = final.with_name(f".{short}.{random(_NAME_BYTES).hex()}{PART_SUFFIX}")
    try:
        fd, named = _open(final.parent, part, nameless=nameless)
    except OSError as exc:
        raise _unwritable(os.fspath(target), exc) from exc
    try:
        try:
            yield fd
            _finish(fd, part, final, named=named)
        finally:
            os.close(fd)
    except BaseException:
        with suppress(OSError):  # Often there is none, and what went wrong is the better message.
            part.unlink()
        raise


def _open(folder: Path, part: Path, *, nameless: bool) -> tuple[int, bool]:
    # Only /proc can give such a file a name without further rights.
    if nameless and os.access(_OWN_DESCRIPTORS, os.X_OK):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY), False
        except OSError as exc:
            if exc.errno not in _NO_NAMELESS_FILES:
                raise
    return os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _OWNER_ONLY), True


def _finish(fd: int, part: Path, final: Path, *, named: bool) -> None:
    try:
        os.fsync(fd)
        folder = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not named:
                # A link never replaces, so the name comes in two steps; between them the part is whole.
                os.link(f"{_OWN_DESCRIPTORS}/{fd}", part.name, dst_dir_fd=folder, follow_symlinks=True)
            os.rename(part.name, final.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as exc:
        raise _unwritable(os.fspath(final), exc) from exc


def write_all(fd: int, name: str, data: memoryview, offset: int) -> None:
    """Write all of it at this offset.

    Raises:
        SealedSourceError: ``sealed-target-unwritable``; ``name`` says what.
    """
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(fd, data[done:], offset + done)
    except OSError as exc:
        raise _unwritable(name, exc) from exc
