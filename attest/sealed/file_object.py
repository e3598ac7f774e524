"""Sealed files as file objects.

::

    from attest import sealed

    with sealed.open("weights.bin.sealed", key=key, associated_data=b"weights.bin") as file:
        file.seek(-4, 2); file.read()
    with sealed.open_file(model, "config.json") as file:           # a file of a sealed model
        json.load(file)
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Final, NoReturn

from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, PLAINTEXT_BYTES
from attest.sealed.locations import connections_of, source_of
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import Readable, Source
from attest.sealed.tensor_set import ModelFiles

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LOCAL_BUFFER_BYTES: Final = 1 << 20
"""For local files: one segment."""
REMOTE_BUFFER_BYTES: Final = 32 << 20
"""For remote files: sequential reading keeps several connections busy."""


class _Raw(io.RawIOBase):
    """A position in a reader; ``BufferedReader`` makes it thread-safe."""

    def __init__(self, reader: Readable) -> None:
        self.reader = reader
        self.name = reader.name
        self.mode = "rb"
        self._position = 0

    def readable(self) -> bool:
        self._require_open()
        return True

    def seekable(self) -> bool:
        self._require_open()
        return True

    def tell(self) -> int:
        self._require_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._require_open()
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.reader.size}
        if whence not in bases:
            raise ValueError(f"invalid whence: {whence}")
        if bases[whence] + offset < 0:
            raise ValueError(f"position {bases[whence] + offset} is before the beginning")
        self._position = bases[whence] + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._require_open()
        view = memoryview(buffer).cast("B")
        wanted = view[: _up_to_boundary(self._position, view.nbytes, self.reader.size)]
        if wanted.nbytes:
            self.reader.read_into(self._position, wanted)
        self._position += wanted.nbytes
        return wanted.nbytes

    def readall(self) -> bytes:
        self._require_open()
        rest = bytearray(max(0, self.reader.size - self._position))
        if rest:
            self.reader.read_into(self._position, memoryview(rest))
        self._position += len(rest)
        return bytes(rest)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.reader.close()

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def _up_to_boundary(position: int, wanted: int, size: int) -> int:
    """Return the number of bytes to read, ending at a segment boundary if possible.

    Reading ahead into the next segment would decrypt all of it, again at the next read; and a failure there must not
    affect the requested bytes.
    """
    end = min(size, position + wanted)
    if end <= position:
        return 0
    boundary = FIRST_PLAINTEXT_BYTES + (end - FIRST_PLAINTEXT_BYTES) // PLAINTEXT_BYTES * PLAINTEXT_BYTES
    return (boundary if position < boundary <= end < size else end) - position


class SealedFileObject(io.BufferedReader):
    """The plaintext of a sealed file as a binary file: read-only, seekable, buffered, thread-safe.

    All returned bytes are verified. A range that fails verification raises and returns nothing.

    Args:
        reader: of the plaintext; closed with this object.
    """

    def __init__(self, reader: Readable, *, buffer_size: int = LOCAL_BUFFER_BYTES) -> None:
        self.reader = reader
        super().__init__(_Raw(reader), max(1, min(buffer_size, reader.size)))

    @property
    def size(self) -> int:
        """Size of the plaintext in bytes."""
        return self.reader.size

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open sealed file does not leave its process")


def open(  # noqa: A001  the counterpart of open: attest.sealed.open
    place: Source | str | os.PathLike[str],
    *,
    key: bytes,
    associated_data: bytes,
    expected_size: int | None = None,
    threads: int | None = None,
    buffer_size: int | None = None,
) -> SealedFileObject:
    """Open a sealed file for reading, like ``open(path, "rb")``.

    Args:
        place: a path, an address as for ``source_of``, or a source, which is closed with the file.
        key: 32 bytes, the data key.
        associated_data: context that the file was sealed with.
        expected_size: of the plaintext, from a signed manifest; None without one.
        threads: for long ranges; by default one for each processor, or for each connection.
        buffer_size: bytes to read ahead; by default 1 MiB for local files and 32 MiB for remote ones.

    Raises:
        SealedFileError: not a sealed file.
        SealedTamperError: invalid under this key and associated data, or of another size.
        SealedSourceError: unreadable.
        ConfigurationError: as ``source_of``.
        ValueError: a key of another length.
    """
    source = source_of(place) if isinstance(place, (str, os.PathLike)) else place
    connections = connections_of(source)
    reader = SealedReader(
        source,
        key=key,
        associated_data=associated_data,
        expected_size=expected_size,
        threads=connections if threads is None else threads,
    )
    return as_file(reader, buffer_size=buffer_size, remote=connections is not None)


def open_file(model: ModelFiles, path: str, *, buffer_size: int | None = None) -> SealedFileObject:
    """Open a file of a model from ``open_directory`` for reading; by default it reads 1 MiB ahead.

    Raises:
        AttestError: as ``SealedDirectory.open``.
    """
    return as_file(model.open(path), buffer_size=buffer_size, remote=False)


def as_file(reader: Readable, *, buffer_size: int | None, remote: bool) -> SealedFileObject:
    """Return a file object over a reader, which is closed with it; remote files have a larger default buffer."""
    default = REMOTE_BUFFER_BYTES if remote else LOCAL_BUFFER_BYTES
    return SealedFileObject(reader, buffer_size=default if buffer_size is None else buffer_size)
