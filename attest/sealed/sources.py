"""Sources of sealed bytes: the protocol, and local files."""

from __future__ import annotations

import errno
import os
import stat
from typing import Protocol, runtime_checkable

from attest.errors import SealedSourceError


@runtime_checkable
class Source(Protocol):
    """Random access to untrusted bytes; thread-safe.

    ``FileSource`` and any object with these members implement it.
    """

    @property
    def name(self) -> str:
        """Its name in messages, without secrets such as the query of a signed URL."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes at opening; it never changes."""
        ...

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the whole buffer from this offset, or raise and leave it undefined.

        Args:
            offset: in bytes; ``offset + len(buffer)`` is at most ``size``.
            buffer: of bytes (format ``B``), contiguous and writable, not kept after the call.

        Raises:
            SealedSourceError: unreadable, or changed since opening.
            ValueError: the range exceeds the source, or the source is closed.
        """
        ...

    def close(self) -> None:
        """Release files and connections; repeated calls are harmless."""
        ...


def unreadable(name: str, exc: OSError) -> SealedSourceError:
    """Return the error for an unreadable file, with the system's reason."""
    return SealedSourceError(
        f"{name} cannot be read: {exc.strerror or exc}",
        code="sealed-source-unreadable",
        field=name,
        got=errno.errorcode.get(exc.errno or 0),
        hint="check the path" if isinstance(exc, FileNotFoundError | NotADirectoryError) else None,
    )


def changed(name: str, expected: str, got: str) -> SealedSourceError:
    """Return the error for a file that changed since opening."""
    return SealedSourceError(
        f"{name} changed while it was read: expected {expected}, got {got}",
        code="sealed-source-changed",
        field=name,
        expected=expected,
        got=got,
        hint="try again when no process writes to it",
    )


class FileSource:
    """A local file, read by ``preadv`` into the caller's memory.

    It is never mapped: bytes that others can change must be copied before verification, and truncation of a mapped
    file kills the process.

    Args:
        path: of a regular file; links are followed.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``, or ``sealed-source-not-a-file``: a folder, device, socket or
            pipe.
    """

    __slots__ = ("_fd", "_name", "_size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = -1
        self._name = os.fspath(path)
        try:
            # Non-blocking: opening a pipe without a writer would wait for one.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as exc:
            raise unreadable(self._name, exc) from exc
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise SealedSourceError(
                f"{self._name} is no regular file", code="sealed-source-not-a-file", field=self._name
            )
        self._fd = fd
        self._size = status.st_size

    @property
    def name(self) -> str:
        """The given path."""
        return self._name

    @property
    def size(self) -> int:
        """Size in bytes when it was opened."""
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer; see ``Source``.

        Raises:
            SealedSourceError: ``sealed-source-unreadable``, or ``sealed-source-changed``: it became shorter or
                longer.
            ValueError: the range exceeds the file, or the file is closed.
        """
        if self._fd < 0:
            msg = f"{self._name} is closed"
            raise ValueError(msg)
        if offset < 0 or offset + len(buffer) > self._size:
            msg = f"bytes {offset} to {offset + len(buffer)} of a file of {self._size}"
            raise ValueError(msg)
        done, wanted = 0, len(buffer)
        while done < wanted:
            try:
                count = os.preadv(self._fd, [buffer[done:] if done else buffer], offset + done)
            except OSError as exc:
                raise unreadable(self._name, exc) from exc
            if count == 0:
                break
            done += count
        # Also after growth: the last segment was verified for another size.
        now = os.fstat(self._fd).st_size
        if done < wanted or now != self._size:
            raise changed(self._name, f"{self._size} bytes", f"{now} bytes")

    def close(self) -> None:
        """Close the file; no read may be in progress."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
