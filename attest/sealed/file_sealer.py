"""Sealing and unsealing of single files, atomically.

Both give the target its name when every byte is on the disk, see ``attest.files``. A process that is killed leaves the
target as it was.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from attest.errors import SealedSourceError
from attest.sealed.atomic_file import whole_file
from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.layout import (
    Segment,
    ciphertext_size,
    segment_count,
    segment_place,
)
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import changed, unreadable
from attest.sealed.worker_threads import SPARE_SLOTS, Scratch, in_order, thread_count


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """Sizes, header and digests of a sealed file.

    Attributes:
        plaintext_size: in bytes.
        ciphertext_size: size of the sealed file in bytes.
        header: its first 40 bytes, unique to the file.
        plaintext_sha256: 32 bytes; None without ``digests``.
        ciphertext_sha256: of the sealed file; None without ``digests``.
    """

    plaintext_size: int
    ciphertext_size: int
    header: bytes
    plaintext_sha256: bytes | None
    ciphertext_sha256: bytes | None


def seal_file(
    source: str | os.PathLike[str] | int,
    target: str | os.PathLike[str],
    *,
    key: bytes,
    associated_data: bytes,
    random: Callable[[int], bytes],
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
    digests: bool = False,
) -> SealedFile:
    """Seal a regular file.

    Args:
        source: its path, or a descriptor of it, which stays open; its position is ignored.
        target: path of the sealed file; an existing one is replaced.
        key: 32 bytes, the data key.
        associated_data: context, any bytes; opening needs the same.
        random: returns so many random bytes, such as ``os.urandom``; for salt, nonce prefix and temporary name.
        threads: for encryption; by default one for each available processor.
        progress: called with the number of sealed plaintext bytes, in the calling thread.
        digests: hash plaintext and sealed file too. Hashing is slower than encryption, with any number of threads.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``, ``sealed-source-not-a-file``; ``sealed-source-changed``:
            modified while it was read; ``sealed-target-unwritable``.
        SealedFileError: ``sealed-size-invalid``: more than 4 PiB.
        ValueError: a key of another length, or no threads.
    """
    # The source is opened first: the number of a descriptor that was closed by mistake must not become our own file's.
    with _opened(source) as opened, whole_file(target, random=random) as out:
        sealing = _Sealing.of(opened, key, associated_data, random)
        return sealing.run(out.write_at, progress, thread_count(threads), digests=digests)


def seal_to(
    source: str | os.PathLike[str] | int,
    write_at: Callable[[int, memoryview], object],
    *,
    key: bytes,
    associated_data: bytes,
    random: Callable[[int], bytes],
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
    digests: bool = False,
) -> SealedFile:
    """Seal a regular file to ``write_at``; errors as ``seal_file``.

    The output is valid only once this returns: the source may still turn out to have changed.

    Args:
        source: its path or descriptor, as for ``seal_file``.
        write_at: called with an offset in the sealed file and a piece, the header or a segment, in any
            order and from several threads; it must not keep the piece.
        key: 32 bytes, the data key.
        associated_data: context, any bytes.
        random: returns so many random bytes; for salt and nonce prefix.
        threads: as ``seal_file``.
        progress: called with the number of sealed plaintext bytes, in the calling thread.
        digests: hash plaintext and sealed file too.
    """
    with _opened(source) as opened:
        sealing = _Sealing.of(opened, key, associated_data, random)
        return sealing.run(write_at, progress, thread_count(threads), digests=digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A source with its identity at opening: see ``_identity``."""

    fd: int
    name: str
    identity: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.identity[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sealing:
    """State of one sealing operation."""

    source: _Opened
    header: FileHeader
    cipher: SegmentCipher

    @staticmethod
    def of(source: _Opened, key: bytes, associated_data: bytes, random: Callable[[int], bytes]) -> _Sealing:
        header = FileHeader.fresh(random)
        return _Sealing(source=source, header=header, cipher=SegmentCipher(key, header, associated_data))

    def run(
        self,
        write_at: Callable[[int, memoryview], object],
        progress: Callable[[int], object] | None,
        workers: int,
        *,
        digests: bool,
    ) -> SealedFile:
        file_size = ciphertext_size(self.source.size)
        count = segment_count(file_size)
        # With digests, segments are hashed in order while others are encrypted.
        slots = min(workers + SPARE_SLOTS if digests else workers, count)
        scratch = Scratch(file_size)
        plain, sealed = ([scratch.take() for _ in range(slots)] for _ in range(2))
        raw_header = bytes(self.header)
        plaintext_hash, ciphertext_hash = hashlib.sha256(), hashlib.sha256(raw_header)

        def produce(index: int, slot: int) -> None:
            segment = segment_place(index, file_size)
            content, ciphertext = plain[slot][: segment.plaintext_size], sealed[slot][: segment.size]
            self._read(segment, content)
            self.cipher.encrypt_into(index, segment.last, content, ciphertext)
            write_at(segment.offset, ciphertext)

        def finish(index: int, slot: int) -> None:
            segment = segment_place(index, file_size)
            if digests:
                plaintext_hash.update(plain[slot][: segment.plaintext_size])
            if progress is not None:
                progress(segment.plaintext_offset + segment.plaintext_size)

        def hash_ciphertext(index: int, slot: int) -> None:
            ciphertext_hash.update(sealed[slot][: segment_place(index, file_size).size])

        try:
            write_at(0, memoryview(raw_header))
            consumers = (finish, hash_ciphertext) if digests else (finish,)
            in_order(count, produce, consumers, slots=slots, threads=workers)
        finally:
            scratch.wipe()
        if _identity(self.source.fd, self.source.name) != self.source.identity:
            raise changed(self.source.name, "the same size and time of change", "others")
        return SealedFile(
            plaintext_size=self.source.size,
            ciphertext_size=file_size,
            header=raw_header,
            plaintext_sha256=plaintext_hash.digest() if digests else None,
            ciphertext_sha256=ciphertext_hash.digest() if digests else None,
        )

    def _read(self, segment: Segment, buffer: memoryview) -> None:
        source, done = self.source, 0
        while done < len(buffer):
            try:
                got = os.preadv(source.fd, [buffer[done:]], segment.plaintext_offset + done)
            except OSError as exc:
                raise unreadable(source.name, exc) from exc
            if got == 0:
                raise changed(source.name, f"{source.size} bytes", f"{segment.plaintext_offset + done} bytes")
            done += got


def unseal_file(
    reader: SealedReader,
    target: str | os.PathLike[str],
    *,
    random: Callable[[int], bytes],
    progress: Callable[[int], object] | None = None,
) -> None:
    """Write the plaintext of a sealed file; only verified bytes reach the new file.

    Only the owner can access the file. In a memory file system (``/dev/shm``) the plaintext reaches no disk,
    except by swapping.

    Args:
        reader: the sealed file; it stays open.
        target: path of the plaintext; an existing one is replaced.
        random: returns so many random bytes, for the temporary name.
        progress: called with the number of written bytes, in the calling thread.

    Raises:
        SealedTamperError: ``sealed-segment-invalid``: a segment is invalid; no file is left behind.
        SealedSourceError: the source is unreadable or changed; ``sealed-target-unwritable``.
        ValueError: the reader is closed.
    """
    with whole_file(target, random=random) as out:
        reader.scatter(out.write_at, progress=progress)


@contextmanager
def _opened(source: str | os.PathLike[str] | int) -> Iterator[_Opened]:
    if isinstance(source, int):
        name = f"descriptor {source}"
        yield _Opened(fd=source, name=name, identity=_identity(source, name))
        return
    name = os.fspath(source)
    try:
        # Non-blocking: opening a pipe without a writer would wait for one.
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise unreadable(name, exc) from exc
    try:
        yield _Opened(fd=fd, name=name, identity=_identity(fd, name))
    finally:
        os.close(fd)


def _identity(fd: int, name: str) -> tuple[int, int, int, int, int]:
    """Return the size, followed by properties that change with every write."""
    try:
        status = os.fstat(fd)
    except OSError as exc:
        raise unreadable(name, exc) from exc
    if not stat.S_ISREG(status.st_mode):
        raise SealedSourceError(f"{name} is no regular file", code="sealed-source-not-a-file", field=name)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev, status.st_ino
