"""Sources of sealed bytes: the protocol, and local files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from attest.context_managers import ClosedOnExit
from attest.errors import SealedSourceError, SealedTamperError


class Readable(Protocol):
    """Bytes with random access: a source, or the verified plaintext of a file, such as ``SealedReader``."""

    @property
    def name(self) -> str:
        """Its name in messages, without secrets such as the query of a signed URL."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes at opening; it never changes."""
        ...

    def read_into(self, offset: int, buffer: memoryview, /) -> None:
        """Fill the buffer from this offset."""
        ...

    def close(self) -> None:
        """Release files and connections; repeated calls are harmless."""
        ...


@runtime_checkable
class Source(Readable, Protocol):
    """Random access to untrusted bytes; thread-safe. Any object with these members implements it."""

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


class ByteStream(Protocol):
    """Bytes in order, for one thread."""

    def read_into(self, view: memoryview, /) -> None:
        """Fill the view with the next bytes; errors as ``Source.read_into``."""
        ...


@runtime_checkable
class StreamedSource(Source, Protocol):
    """A source whose requests take time, such as a web server: readers ask it for long ranges at once."""

    @property
    def connections(self) -> int:
        """Number of requests at the same time."""
        ...

    def stream(self, offset: int, size: int) -> AbstractContextManager[ByteStream]:
        """Open the stream of a range, in one request; errors as ``Source.read_into``."""
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


def require_size(name: str, got: int, expected: int) -> None:
    """Require the sealed size of a file.

    Raises:
        SealedTamperError: ``sealed-size-mismatch``.
    """
    if got != expected:
        raise SealedTamperError(
            f"{name} has another size than was sealed: expected {expected} bytes, got {got}",
            code="sealed-size-mismatch",
            field=name,
            expected=f"{expected} bytes",
            got=f"{got} bytes",
            hint="get the file again; it was cut, or exchanged",
        )


def open_descriptor(path: str | os.PathLike[str], *, flags: int = 0) -> int:
    """Open a file for reading; links are followed unless the flags forbid it.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``.
    """
    try:
        # Non-blocking: opening a pipe without a writer would wait for one.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    except OSError as exc:
        raise unreadable(os.fspath(path), exc) from exc


def regular_status(fd: int, name: str) -> os.stat_result:
    """Return the status of a descriptor, which must be that of a regular file.

    Raises:
        SealedSourceError: ``sealed-source-unreadable`` or ``sealed-source-not-a-file``.
    """
    try:
        status = os.fstat(fd)
    except OSError as exc:
        raise unreadable(name, exc) from exc
    if not stat.S_ISREG(status.st_mode):
        raise SealedSourceError(f"{name} is not a regular file", code="sealed-source-not-a-file", field=name)
    return status


def file_identity(status: os.stat_result) -> str:
    """Return properties of a file that every write changes.

    A writer can restore the modification time, but not the time of the inode's change.
    """
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def read_descriptor(fd: int, offset: int, buffer: memoryview, *, name: str) -> int:
    """Fill the buffer from this offset; return the number of bytes, fewer only at the end of the file.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``.
    """
    done = 0
    while done < len(buffer):
        try:
            count = os.preadv(fd, [buffer[done:] if done else buffer], offset + done)
        except OSError as exc:
            raise unreadable(name, exc) from exc
        if count == 0:
            break
        done += count
    return done


def read_at_most(source: Readable, limit: int) -> bytes:
    """Return the content of a source, or limit + 1 bytes of a larger one."""
    buffer = bytearray(min(source.size, limit + 1))
    source.read_into(0, memoryview(buffer))
    return bytes(buffer)


class FileSource(ClosedOnExit):
    """A local file, read by ``preadv`` into the caller's memory.

    It is never mapped: bytes that others can change must be copied before verification, and truncation of a mapped
    file kills the process.

    Args:
        path: of a regular file; links are followed.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``, or ``sealed-source-not-a-file``: a folder, device, socket or
            pipe.
    """

    __slots__ = ("_fd", "name", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = -1
        self.name = os.fspath(path)
        fd = open_descriptor(path)
        try:
            self.size = regular_status(fd, self.name).st_size
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer; see ``Source``.

        Raises:
            SealedSourceError: ``sealed-source-unreadable``, or ``sealed-source-changed``: it became shorter or
                longer.
            ValueError: the range exceeds the file, or the file is closed.
        """
        if self._fd < 0:
            raise ValueError(f"{self.name} is closed")
        if offset < 0 or offset + len(buffer) > self.size:
            raise ValueError(f"bytes {offset} to {offset + len(buffer)} of a file of {self.size}")
        done = read_descriptor(self._fd, offset, buffer, name=self.name)
        # Also after growth: the last segment was verified for another size.
        now = os.fstat(self._fd).st_size
        if done < len(buffer) or now != self.size:
            raise changed(self.name, f"{self.size} bytes", f"{now} bytes")

    def close(self) -> None:
        """Close the file; no read may be in progress."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
