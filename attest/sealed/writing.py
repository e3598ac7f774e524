"""Sealing a file and unsealing one, so that no half of either is ever taken for the whole.

Both give the target its name when every byte is on the disk, see ``whole``. A process that is killed leaves the target
as it was.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from attest.errors import SealedSourceError
from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.crew import Scratch, in_order, thread_count
from attest.sealed.layout import (
    Segment,
    ciphertext_size,
    segment_count,
    segment_place,
)
from attest.sealed.reading import SealedReader
from attest.sealed.sources import changed, unreadable
from attest.sealed.whole import unwritable, whole_file

__all__ = ["SealedFile", "seal_file", "unseal_file"]

_STEP_BYTES = 256 << 20
"""Between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """What was written.

    Attributes:
        plaintext_size: in bytes.
        ciphertext_size: in bytes; of the sealed file.
        plaintext_sha256: 32 bytes; None unless digests were asked for.
        ciphertext_sha256: likewise, of the sealed file.
    """

    plaintext_size: int
    ciphertext_size: int
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
        source: its path, or a descriptor of it; that one stays open, and its position does not count.
        target: where the sealed file shall be; replaced when there is one.
        key: 32 bytes, the data key.
        associated_data: what it is sealed for, any bytes; opening it needs the same.
        random: returns so many random bytes, ``os.urandom`` say; makes salt, nonce prefix and the temporary name.
        threads: how many encrypt; by default one for each processor that this process may use.
        progress: called with the number of bytes of plaintext sealed so far, in the calling thread.
        digests: hash plaintext and sealed file too. Hashing is slower than encrypting, whatever the number of threads.

    Raises:
        SealedSourceError: ``sealed-source-unreadable``, ``sealed-source-not-a-file``; ``sealed-source-changed``: it was
            written to while it was read; ``sealed-target-unwritable``.
        SealedFileError: ``sealed-size-invalid``: more than 4 PiB.
        ValueError: a key of another length, or fewer threads than one.
    """
    workers = thread_count(threads)
    with _opened(source) as (fd, name):
        before = _identity(fd, name)
        sealing = _Sealing(
            fd,
            name,
            size=before[2],
            key=key,
            associated_data=associated_data,
            random=random,
            progress=progress,
        )
        with whole_file(target, random=random) as out:
            result = sealing.run(out, os.fspath(target), workers, digests=digests)
            after = _identity(fd, name)
            if after != before:
                raise changed(name, "the same size and time of change", "others")
    return result


class _Sealing:
    """One file on its way: the buffers, and where each segment comes from and goes to."""

    def __init__(
        self,
        fd: int,
        name: str,
        *,
        size: int,
        key: bytes,
        associated_data: bytes,
        random: Callable[[int], bytes],
        progress: Callable[[int], object] | None,
    ) -> None:
        self._fd = fd
        self._name = name
        self._size = size
        self._file_size = ciphertext_size(size)
        self._header = FileHeader.fresh(random)
        self._cipher = SegmentCipher(key, self._header, associated_data)
        self._progress = progress
        self._scratch = Scratch()

    def run(self, out: int, name: str, workers: int, *, digests: bool) -> SealedFile:
        """Write the whole sealed file to a descriptor."""
        count = segment_count(self._file_size)
        slots = workers * 2 if digests else workers
        slots = min(slots, count)
        plain = [self._scratch.take() for _ in range(slots)]
        sealed = [self._scratch.take() for _ in range(slots)]
        hashes = (hashlib.sha256(), hashlib.sha256(bytes(self._header)))

        def produce(index: int, slot: int) -> None:
            segment = segment_place(index, self._file_size)
            content, ciphertext = plain[slot][: segment.plaintext_size], sealed[slot][: segment.size]
            self._read(segment, content)
            self._cipher.encrypt_into(index, segment.last, content, ciphertext)
            _write_all(out, name, ciphertext, segment.offset)

        def tell(index: int, _: int) -> None:
            if self._progress is not None:
                segment = segment_place(index, self._file_size)
                self._progress(segment.plaintext_offset + segment.plaintext_size)

        def hash_plaintext(index: int, slot: int) -> None:
            hashes[0].update(plain[slot][: segment_place(index, self._file_size).plaintext_size])
            tell(index, slot)

        def hash_sealed(index: int, slot: int) -> None:
            hashes[1].update(sealed[slot][: segment_place(index, self._file_size).size])

        consumers = (hash_plaintext, hash_sealed) if digests else (tell,)
        try:
            _write_all(out, name, memoryview(bytes(self._header)), 0)
            in_order(count, produce, consumers, slots=slots, threads=workers)
        finally:
            self._scratch.wipe()
        return SealedFile(
            plaintext_size=self._size,
            ciphertext_size=self._file_size,
            plaintext_sha256=hashes[0].digest() if digests else None,
            ciphertext_sha256=hashes[1].digest() if digests else None,
        )

    def _read(self, segment: Segment, buffer: memoryview) -> None:
        done = 0
        while done < len(buffer):
            try:
                got = os.preadv(self._fd, [buffer[done:]], segment.plaintext_offset + done)
            except OSError as exc:
                raise unreadable(self._name, exc) from exc
            if got == 0:
                raise changed(self._name, f"{self._size} bytes", f"{segment.plaintext_offset + done}")
            done += got


def unseal_file(
    reader: SealedReader,
    target: str | os.PathLike[str],
    *,
    random: Callable[[int], bytes],
    progress: Callable[[int], object] | None = None,
) -> None:
    """Write the plaintext of a sealed file, decrypted straight into the pages of the new file.

    The file is the owner's alone to read and write. In a memory file system (``/dev/shm``) the plaintext never comes
    near a disk, unless memory is swapped.

    Args:
        reader: the sealed file; it stays open.
        target: where the plaintext shall be; replaced when there is one.
        random: returns so many random bytes; makes the temporary name.
        progress: called with the number of bytes written so far, in the calling thread.

    Raises:
        SealedTamperError: ``sealed-segment-invalid``: a segment does not verify; nothing is left behind.
        SealedSourceError: the source cannot be read or changed; ``sealed-target-unwritable``.
        ValueError: the reader is closed.
    """
    with whole_file(target, random=random) as out:
        if reader.size == 0:
            return
        try:
            # Reserved before it is mapped: writing to a mapped page for which there is no room kills the process.
            os.posix_fallocate(out, 0, reader.size)
            mapped = mmap.mmap(out, reader.size)
        except OSError as exc:
            raise unwritable(os.fspath(target), exc) from exc
        with mapped, memoryview(mapped) as view:
            step = _STEP_BYTES
            for begin in range(0, reader.size, step):
                end = min(begin + step, reader.size)
                with view[begin:end] as piece:
                    reader.read_into(begin, piece)
                if progress is not None:
                    progress(end)


@contextmanager
def _opened(source: str | os.PathLike[str] | int) -> Iterator[tuple[int, str]]:
    if isinstance(source, int):
        yield source, f"descriptor {source}"
        return
    name = os.fspath(source)
    try:
        # Not blocking: opening a pipe without a writer would wait for one.
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise unreadable(name, exc) from exc
    try:
        yield fd, name
    finally:
        os.close(fd)


def _identity(fd: int, name: str) -> tuple[int, int, int, int, int]:
    try:
        status = os.fstat(fd)
    except OSError as exc:
        raise unreadable(name, exc) from exc
    if not stat.S_ISREG(status.st_mode):
        raise SealedSourceError(f"{name} is no regular file", code="sealed-source-not-a-file", field=name)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _write_all(fd: int, name: str, data: memoryview, offset: int) -> None:
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(fd, data[done:], offset + done)
    except OSError as exc:
        raise unwritable(name, exc) from exc
