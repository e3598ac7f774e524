"""Reading a sealed file: anywhere, in parallel, in constant memory, and never a byte that is not verified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from attest.errors import SealedTamperError
from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.layout import (
    HEADER_BYTES,
    Segment,
    SegmentPart,
    Split,
    ciphertext_size,
    plaintext_size,
    segment_count,
    segment_place,
)
from attest.sealed.sources import Source
from attest.sealed.worker_threads import SPARE_SLOTS, Scratch, in_order, spread, thread_count, wipe

__all__ = ["SealedReader"]

_SEGMENTS_A_THREAD = 4
"""Fewer are read before a thread has started."""


class SealedReader:
    """The plaintext of a sealed file, for any number of threads at once.

    The last segment is verified when it is opened, and with it the file's size: the nonce of the last segment says that
    it is the last. Every other one is verified when it is read, before any of it is given out.

    Args:
        source: where the file comes from; closed with the reader, and when opening fails.
        key: 32 bytes, the data key.
        associated_data: what the file was sealed for, any bytes.
        expected_size: size of the plaintext by a signed manifest; None where there is none.
        expected_header: 40 bytes that the file begins with, by a signed manifest; None where there is none.
        threads: how many decrypt a long range; by default one for each processor that this process may use.

    Raises:
        SealedFileError: ``sealed-size-invalid`` or ``sealed-header-invalid``: it is no sealed file.
        SealedTamperError: ``sealed-segment-invalid``: the last segment does not verify under this key and associated
            data; ``sealed-size-mismatch`` or ``sealed-header-mismatch``: it is another file than was expected.
        SealedSourceError: the source cannot be read.
        ValueError: a key of another length, or fewer threads than one.
    """

    def __init__(
        self,
        source: Source,
        *,
        key: bytes,
        associated_data: bytes,
        expected_size: int | None = None,
        expected_header: bytes | None = None,
        threads: int | None = None,
    ) -> None:
        """Open it and verify its last segment."""
        self._source = source
        self._scratch = Scratch(source.size)
        self._lock = threading.Lock()
        self._cached: tuple[int, memoryview] | None = None
        self._closed = False
        try:
            self._threads = thread_count(threads)
            self._file_size = source.size
            self._size = plaintext_size(self._file_size)
            self._require_size(expected_size)
            self._count = segment_count(self._file_size)
            header = bytearray(HEADER_BYTES)
            source.read_into(0, memoryview(header))
            self._require_header(bytes(header), expected_header)
            self._cipher = SegmentCipher(key, FileHeader.parse(bytes(header)), associated_data)
            self._keep(self._count - 1, self._decrypted(self._place(self._count - 1)))
        except BaseException:
            self.close()
            raise

    def _require_size(self, expected: int | None) -> None:
        if expected is None or expected == self._size:
            return
        raise SealedTamperError(
            f"{self._source.name} has another size than was sealed: expected {ciphertext_size(expected)} bytes, "
            f"got {self._file_size}",
            code="sealed-size-mismatch",
            field=self._source.name,
            expected=f"{ciphertext_size(expected)} bytes",
            got=f"{self._file_size} bytes",
            hint="fetch the file again",
        )

    def _require_header(self, header: bytes, expected: bytes | None) -> None:
        if expected is None or header == expected:
            return
        raise SealedTamperError(
            f"{self._source.name} is another encryption than was signed: it does not begin with the signed header",
            code="sealed-header-mismatch",
            field=self._source.name,
            expected=expected.hex(),
            got=header.hex(),
            hint="fetch the file again",
        )

    @property
    def size(self) -> int:
        """Size of the plaintext in bytes."""
        return self._size

    @property
    def name(self) -> str:
        """What the source is called in messages."""
        return self._source.name

    def read_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill a buffer with the plaintext from this offset.

        Whole segments are decrypted straight into the buffer: until this returns it may hold bytes that are not
        verified. When it raises, the whole buffer is zeros.

        Args:
            offset: in the plaintext.
            buffer: contiguous and writable; ``offset`` plus its length in bytes is at most ``size``.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment of the range does not verify.
            SealedSourceError: the source cannot be read, or changed.
            ValueError: the range does not lie within the plaintext, or the reader is closed.
            TypeError: the buffer is read-only or not contiguous.
        """
        view = memoryview(buffer)
        if view.readonly or not view.c_contiguous:
            msg = "the buffer must be writable and contiguous"
            raise TypeError(msg)
        self._require_open()
        out = view.cast("B")
        parts = Split(offset, len(out), self._file_size)
        threads = max(1, min(self._threads, len(parts) // _SEGMENTS_A_THREAD))
        try:
            spread(len(parts), lambda n: self._fill(parts[n], out), threads=threads)
        except BaseException:
            wipe(out)
            raise

    def read(self, offset: int, length: int) -> bytearray:
        """Return so many bytes of the plaintext from this offset; the errors are those of ``read_into``."""
        if offset < 0 or length < 0 or offset + length > self._size:
            msg = f"bytes {offset} to {offset + length} of a file of {self._size}"
            raise ValueError(msg)
        buffer = bytearray(length)
        self.read_into(offset, buffer)
        return buffer

    def stream(self, write: Callable[[memoryview], object]) -> None:
        """Give the whole plaintext to ``write``, a segment at a time and in order, in constant memory.

        What is given is verified, and that the file ends where it was sealed was verified when it was opened. But a
        later segment can still fail: take nothing that was written for the whole file before this returns.

        Args:
            write: gets each piece in the calling thread and must be done with its memory when it returns. It has to
                take all of it; a count that it returns is ignored, so give it the method of a buffered file.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment does not verify.
            SealedSourceError: the source cannot be read, or changed.
            ValueError: the reader is closed.
        """
        self._segments(None, lambda _, piece: write(piece))

    def scatter(
        self, write_at: Callable[[int, memoryview], object], *, progress: Callable[[int], object] | None = None
    ) -> None:
        """Give the whole plaintext to ``write_at``, a segment at a time, in any order and from several threads at once.

        What is given is verified, and as for ``stream`` another segment can still fail.

        Args:
            write_at: gets the offset in the plaintext and the piece, and must be done with its memory when it returns.
            progress: called in the calling thread with how many bytes from the start were given out.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment does not verify.
            SealedSourceError: the source cannot be read, or changed.
            ValueError: the reader is closed.
        """

        def tell(offset: int, piece: memoryview) -> None:
            if progress is not None:
                progress(offset + len(piece))

        self._segments(write_at, tell)

    def _segments(
        self, anyhow: Callable[[int, memoryview], object] | None, ordered: Callable[[int, memoryview], object]
    ) -> None:
        """Decrypt all segments; give each to ``anyhow`` where it was decrypted, and in order to ``ordered``."""
        self._require_open()
        places = [self._scratch.take() for _ in range(min(self._count, self._threads + SPARE_SLOTS))]

        def produce(index: int, slot: int) -> None:
            segment = self._place(index)
            piece = self._decrypt_in_place(segment, places[slot])
            if anyhow is not None:
                anyhow(segment.plaintext_offset, piece)

        def consume(index: int, slot: int) -> None:
            segment = self._place(index)
            ordered(segment.plaintext_offset, places[slot][: segment.plaintext_size])

        try:
            in_order(self._count, produce, (consume,), slots=len(places), threads=self._threads)
        finally:
            for place in places:
                self._scratch.give(place)

    def close(self) -> None:
        """Overwrite every buffer that held plaintext and close the source; nothing may be reading. Twice is allowed."""
        if self._closed:
            return
        self._closed = True
        self._cached = None
        self._scratch.wipe()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            msg = f"{self._source.name} is closed"
            raise ValueError(msg)

    def _place(self, index: int) -> Segment:
        return segment_place(index, self._file_size)

    def _fill(self, part: SegmentPart, out: memoryview) -> None:
        wanted = out[part.at : part.at + part.end - part.begin]
        if self._from_cache(part, wanted):
            return
        if not part.whole:
            content = self._decrypted(part.segment)
            wanted[:] = content[part.begin : part.end]
            self._keep(part.segment.index, content)
            return
        scratch = self._scratch.take()
        try:
            self._decrypt(part.segment, scratch, wanted)
        finally:
            self._scratch.give(scratch)

    def _decrypt(self, segment: Segment, scratch: memoryview, out: memoryview) -> None:
        ciphertext = scratch[: segment.size]
        self._source.read_into(segment.offset, ciphertext)
        self._cipher.decrypt_into(segment.index, segment.last, ciphertext, out)

    def _decrypt_in_place(self, segment: Segment, scratch: memoryview) -> memoryview:
        content = scratch[: segment.plaintext_size]
        self._decrypt(segment, scratch, content)
        return content

    def _decrypted(self, segment: Segment) -> memoryview:
        scratch = self._scratch.take()
        try:
            self._decrypt_in_place(segment, scratch)
        except BaseException:
            self._scratch.give(scratch)
            raise
        return scratch

    def _from_cache(self, part: SegmentPart, wanted: memoryview) -> bool:
        with self._lock:
            if self._cached is None or self._cached[0] != part.segment.index:
                return False
            wanted[:] = self._cached[1][part.begin : part.end]
            return True

    def _keep(self, index: int, content: memoryview) -> None:
        """Remember the content of one segment: small reads in a row decrypt each segment once."""
        with self._lock:
            before, self._cached = self._cached, (index, content)
        if before is not None:
            self._scratch.give(before[1])
