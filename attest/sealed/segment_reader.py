"""Reader of sealed files: random access, parallel, in constant memory, and returning verified bytes only."""

from __future__ import annotations

import threading
from collections.abc import Callable

from attest.context_managers import ClosedOnExit
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
from attest.sealed.sources import Source, require_size
from attest.sealed.worker_threads import SPARE_SLOTS, Scratch, in_order, spread, thread_count, wipe

_SEGMENTS_PER_THREAD = 4
"""Reading fewer segments takes less time than starting a thread."""


class SealedReader(ClosedOnExit):
    """The plaintext of a sealed file; thread-safe.

    Opening verifies the last segment, and with it the file's size: the nonce of the last segment marks it as the
    last. Every other segment is verified when it is read, before any of it is returned.

    Args:
        source: of the file; closed with the reader, and when opening fails.
        key: 32 bytes, the data key.
        associated_data: context of the file, any bytes.
        expected_size: size of the plaintext from a signed manifest; None without one.
        expected_header: first 40 bytes of the file from a signed manifest; None without one.
        threads: for long ranges; by default one for each available processor.

    Raises:
        SealedFileError: ``sealed-size-invalid`` or ``sealed-header-invalid``: not a sealed file.
        SealedTamperError: ``sealed-segment-invalid``: the last segment is invalid under this key and associated
            data; ``sealed-size-mismatch`` or ``sealed-header-mismatch``: not the expected file.
        SealedSourceError: the source is unreadable.
        ValueError: a key of another length, or no threads.
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
        self._source = source
        self.name = source.name
        self._scratch = Scratch(source.size)
        self._lock = threading.Lock()
        self._cached: tuple[int, memoryview] | None = None
        self._closed = False
        try:
            self._threads = thread_count(threads)
            self._file_size = source.size
            self.size = plaintext_size(self._file_size)
            """Size of the plaintext in bytes."""
            if expected_size is not None:
                require_size(source.name, self._file_size, ciphertext_size(expected_size))
            self._count = segment_count(self._file_size)
            header = bytearray(HEADER_BYTES)
            source.read_into(0, memoryview(header))
            self._require_header(bytes(header), expected_header)
            self._cipher = SegmentCipher(key, FileHeader.parse(bytes(header)), associated_data)
            self._keep(self._count - 1, self._decrypted(self._place(self._count - 1)))
        except BaseException:
            self.close()
            raise

    def _require_header(self, header: bytes, expected: bytes | None) -> None:
        if expected is None or header == expected:
            return
        raise SealedTamperError(
            f"{self.name} is another encryption than was signed: it does not begin with the signed header",
            code="sealed-header-mismatch",
            field=self.name,
            expected=expected.hex(),
            got=header.hex(),
            hint="fetch the file again",
        )

    def read_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill a buffer with the plaintext from this offset.

        Whole segments are decrypted directly into the buffer: it may hold unverified bytes until this returns.
        After an error the whole buffer is zeros.

        Args:
            offset: in the plaintext.
            buffer: contiguous and writable; ``offset`` plus its length in bytes is at most ``size``.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment of the range is invalid.
            SealedSourceError: the source is unreadable, or changed.
            ValueError: the range exceeds the plaintext, or the reader is closed.
            TypeError: the buffer is read-only or not contiguous.
        """
        view = memoryview(buffer)
        if view.readonly or not view.c_contiguous:
            raise TypeError("the buffer must be writable and contiguous")
        self._require_open()
        out = view.cast("B")
        parts = Split(offset, len(out), self._file_size)
        threads = max(1, min(self._threads, len(parts) // _SEGMENTS_PER_THREAD))
        try:
            spread(len(parts), lambda n: self._fill(parts[n], out), threads=threads)
        except BaseException:
            wipe(out)
            raise

    def read(self, offset: int, length: int) -> bytearray:
        """Return ``length`` bytes of the plaintext from this offset; errors as ``read_into``."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError(f"bytes {offset} to {offset + length} of a file of {self.size}")
        buffer = bytearray(length)
        self.read_into(offset, buffer)
        return buffer

    def stream(self, write: Callable[[memoryview], object]) -> None:
        """Pass the whole plaintext to ``write``, a segment at a time and in order, in constant memory.

        Each piece is verified, and opening has verified the end of the file. A later segment can still fail: the
        output is complete only once this returns.

        Args:
            write: called with each piece in the calling thread; it must not keep the piece. It has to
                accept all of it; its return value is ignored, so use the method of a buffered file.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment is invalid.
            SealedSourceError: the source is unreadable, or changed.
            ValueError: the reader is closed.
        """
        self._segments(None, lambda _, piece: write(piece))

    def scatter(
        self, write_at: Callable[[int, memoryview], object], *, progress: Callable[[int], object] | None = None
    ) -> None:
        """Pass the whole plaintext to ``write_at``, a segment at a time, in any order and from several threads.

        Each piece is verified; as for ``stream``, another segment can still fail.

        Args:
            write_at: called with an offset in the plaintext and a piece, which it must not keep.
            progress: called in the calling thread with the number of bytes passed.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment is invalid.
            SealedSourceError: the source is unreadable, or changed.
            ValueError: the reader is closed.
        """

        def report(offset: int, piece: memoryview) -> None:
            if progress is not None:
                progress(offset + len(piece))

        self._segments(write_at, report)

    def _segments(
        self, unordered: Callable[[int, memoryview], object] | None, ordered: Callable[[int, memoryview], object]
    ) -> None:
        """Decrypt all segments; pass each to ``unordered`` in its thread, and in order to ``ordered``."""
        self._require_open()
        places = [self._scratch.take() for _ in range(min(self._count, self._threads + SPARE_SLOTS))]

        def produce(index: int, slot: int) -> None:
            segment = self._place(index)
            piece = self._decrypt_in_place(segment, places[slot])
            if unordered is not None:
                unordered(segment.plaintext_offset, piece)

        def consume(index: int, slot: int) -> None:
            segment = self._place(index)
            ordered(segment.plaintext_offset, places[slot][: segment.plaintext_size])

        try:
            in_order(self._count, produce, (consume,), slots=len(places), threads=self._threads)
        finally:
            for place in places:
                self._scratch.give(place)

    def close(self) -> None:
        """Overwrite all plaintext buffers and close the source, without a read in progress; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        self._cached = None
        self._scratch.wipe()
        self._source.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.name} is closed")

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
        """Cache the content of one segment: small sequential reads decrypt each segment once."""
        with self._lock:
            before, self._cached = self._cached, (index, content)
        if before is not None:
            self._scratch.give(before[1])
