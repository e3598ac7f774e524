"""Sealing and unsealing of single files, atomically.

Both give the target its name when every byte is on the disk, see ``attest.files``. A process that is killed leaves the
target as it was.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from attest.sealed.atomic_file import whole_file
from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.layout import (
    Segment,
    ciphertext_size,
    segment_count,
    segment_place,
)
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import changed, file_identity, open_descriptor, read_descriptor, regular_status
from attest.sealed.worker_threads import SPARE_SLOTS, Scratch, in_order, thread_count


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """Sizes, header and digests of a sealed file.

    Attributes:
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
        return _Sealing(opened, key, associated_data, random).run(out.write_at, progress, threads, digests=digests)


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

    Other arguments as ``seal_file``. ``write_at`` is called with an offset in the sealed file and a piece, the header
    or a segment, in any order and from several threads; it must not keep the piece. The output is valid only once this
    returns: the source may still turn out to have changed.
    """
    with _opened(source) as opened:
        return _Sealing(opened, key, associated_data, random).run(write_at, progress, threads, digests=digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A source with its status at opening."""

    fd: int
    name: str
    status: os.stat_result

    @property
    def size(self) -> int:
        return self.status.st_size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        done = read_descriptor(self.fd, offset, buffer, name=self.name)
        if done < len(buffer):
            raise changed(self.name, f"{self.size} bytes", f"{offset + done} bytes")

    def require_same(self) -> None:
        if file_identity(regular_status(self.fd, self.name)) != file_identity(self.status):
            raise changed(self.name, "the same size and time of change", "others")


class _Sealing:
    """State of one sealing operation."""

    def __init__(self, source: _Opened, key: bytes, associated_data: bytes, random: Callable[[int], bytes]) -> None:
        header = FileHeader.fresh(random)
        self._source = source
        self._header = bytes(header)
        self._cipher = SegmentCipher(key, header, associated_data)
        self._size = ciphertext_size(source.size)
        self._count = segment_count(self._size)

    def run(
        self,
        write_at: Callable[[int, memoryview], object],
        progress: Callable[[int], object] | None,
        threads: int | None,
        *,
        digests: bool,
    ) -> SealedFile:
        workers = thread_count(threads)
        # With digests, segments are hashed in order while others are encrypted.
        slots = min(workers + SPARE_SLOTS if digests else workers, self._count)
        scratch = Scratch(self._size)
        plain, sealed = ([scratch.take() for _ in range(slots)] for _ in range(2))
        plaintext_hash, ciphertext_hash = hashlib.sha256(), hashlib.sha256(self._header)

        def produce(index: int, slot: int) -> None:
            segment = self._place(index)
            content, ciphertext = plain[slot][: segment.plaintext_size], sealed[slot][: segment.size]
            self._source.read_into(segment.plaintext_offset, content)
            self._cipher.encrypt_into(index, segment.last, content, ciphertext)
            write_at(segment.offset, ciphertext)

        def report(index: int, _slot: int) -> None:
            segment = self._place(index)
            if progress is not None:
                progress(segment.plaintext_offset + segment.plaintext_size)

        def hash_plaintext(index: int, slot: int) -> None:
            plaintext_hash.update(plain[slot][: self._place(index).plaintext_size])
            report(index, slot)

        def hash_ciphertext(index: int, slot: int) -> None:
            ciphertext_hash.update(sealed[slot][: self._place(index).size])

        consumers = (hash_plaintext, hash_ciphertext) if digests else (report,)
        try:
            write_at(0, memoryview(self._header))
            in_order(self._count, produce, consumers, slots=slots, threads=workers)
        finally:
            scratch.wipe()
        self._source.require_same()
        return SealedFile(
            plaintext_size=self._source.size,
            ciphertext_size=self._size,
            header=self._header,
            plaintext_sha256=plaintext_hash.digest() if digests else None,
            ciphertext_sha256=ciphertext_hash.digest() if digests else None,
        )

    def _place(self, index: int) -> Segment:
        return segment_place(index, self._size)


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

    The reader stays open; an existing target is replaced. ``progress`` is called with the number of written bytes, in
    the calling thread.

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
        yield _Opened(fd=source, name=name, status=regular_status(source, name))
        return
    name, fd = os.fspath(source), open_descriptor(source)
    try:
        yield _Opened(fd=fd, name=name, status=regular_status(fd, name))
    finally:
        os.close(fd)
