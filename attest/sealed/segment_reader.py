"""Reader of sealed files: random access, parallel, in constant memory, and returning verified bytes only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain
from typing import TypeAlias

from attest.context_managers import ClosedOnExit
from attest.errors import SealedTamperError
from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.layout import (
    HEADER_BYTES,
    Segment,
    Split,
    ciphertext_size,
    plaintext_size,
    segment_count,
    segment_place,
)
from attest.sealed.read_plan import ReadPlan, Target, neighbours
from attest.sealed.sources import Source, StreamedSource, require_size
from attest.sealed.worker_threads import SPARE_SLOTS, Scratch, in_order, spread, thread_count, wipe

_SEGMENTS_PER_THREAD = 4
"""Reading fewer segments takes less time than starting a thread."""
_LEAST_TOGETHER = 8
_MOST_TOGETHER = 64
"""Segments in one request to a remote source, of a MiB each."""
_MOST_IN_ORDER = 32
_THREADS_IN_ORDER = 4
"""Of a remote source: bounds of the memory for segments that wait for their turn, 192 MiB."""

_Read: TypeAlias = Callable[[memoryview], object]
"""Reads the ciphertext of one segment into a buffer of its size."""


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
        threads: for long ranges; by default one for each available processor, or for each connection of the source.
        decrypted: called with the index of each segment that was verified; from several threads.

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
        decrypted: Callable[[int], object] | None = None,
    ) -> None:
        self._source = source
        self._report = decrypted
        self.name = source.name
        self._scratch = Scratch(source.size)
        self._lock = threading.Lock()
        self._cached: tuple[int, memoryview] | None = None
        self._closed = False
        try:
            connections = source.connections if isinstance(source, StreamedSource) else None
            self._threads = thread_count(connections if threads is None else threads)
            self._file_size = source.size
            self.size = plaintext_size(self._file_size)
            """Size of the plaintext in bytes."""
            if expected_size is not None:
                require_size(source.name, self._file_size, ciphertext_size(expected_size))
            self._count = segment_count(self._file_size)
            last = self._place(self._count - 1)
            header, scratch = self._read_ends(last)
            self._require_header(header, expected_header)
            self._cipher = SegmentCipher(key, FileHeader.parse(header), associated_data)
            self._cipher.decrypt_into(last.index, last.last, scratch[: last.size], scratch[: last.plaintext_size])
            self._reported(last)
            self._keep(last.index, scratch)
        except BaseException:
            self.close()
            raise

    def _read_ends(self, last: Segment) -> tuple[bytes, memoryview]:
        """Read the header and the last segment, at once where each takes a round trip."""
        header, scratch = bytearray(HEADER_BYTES), self._scratch.take()
        places = ((0, memoryview(header)), (last.offset, scratch[: last.size]))
        threads = len(places) if isinstance(self._source, StreamedSource) else 1
        spread(len(places), lambda number: self._source.read_into(*places[number]), threads=threads)
        return bytes(header), scratch

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
        """Fill a buffer with the plaintext from this offset; see ``read_parts``."""
        self.read_parts(((offset, buffer),))

    def read_parts(
        self,
        parts: Sequence[tuple[int, memoryview | bytearray]],
        *,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        """Fill several buffers, each with the plaintext from its offset; neighbours share segments and requests.

        Whole segments are decrypted directly into a buffer: it may hold unverified bytes until this returns.
        After an error all buffers are zeros.

        Args:
            parts: offsets in the plaintext, with buffers that are contiguous and writable; an offset plus the length
                of its buffer in bytes is at most ``size``.
            progress: called in the calling thread with the number of bytes read so far.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment of a range is invalid.
            SealedSourceError: the source is unreadable, or changed.
            ValueError: a range exceeds the plaintext, or the reader is closed.
            TypeError: a buffer is read-only or not contiguous.
        """
        self._require_open()
        memories = [(offset, _writable(buffer)) for offset, buffer in parts]
        plan = ReadPlan(memories, self._file_size)
        tally = _Tally(progress)

        def fill(numbers: range) -> None:
            # Segments in the cache are copied first: what remains is read in one request for each run.
            missing = [target for target in plan.parts(numbers) if not self._from_cache(target, tally)]
            for run in neighbours(missing):
                self._fill_run(run, tally)

        groups = plan.groups(self._group_segments(plan.segments))
        try:
            spread(len(groups), lambda n: fill(groups[n]), threads=self._threads_for(plan.segments, len(groups)))
        except BaseException:
            for _, memory in memories:
                wipe(memory)
            raise
        tally.finish()

    def read(self, offset: int, length: int) -> bytearray:
        """Return ``length`` bytes of the plaintext from this offset; errors as ``read_into``."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError(f"bytes {offset} to {offset + length} of a file of {self.size}")
        buffer = bytearray(length)
        self.read_into(offset, buffer)
        return buffer

    def stream(self, write: Callable[[memoryview], object], *, offset: int = 0, length: int | None = None) -> None:
        """Pass the plaintext, or a range of it, to ``write``, a segment at a time and in order, in constant memory.

        Each piece is verified, and opening has verified the end of the file. A later segment can still fail: the
        output is complete only once this returns.

        Args:
            write: called with each piece in the calling thread; it must not keep the piece. It has to
                accept all of it; its return value is ignored, so use the method of a buffered file.
            offset: in the plaintext.
            length: None means to the end.

        Raises:
            SealedTamperError: ``sealed-segment-invalid``: a segment is invalid.
            SealedSourceError: the source is unreadable, or changed.
            ValueError: the range exceeds the plaintext, or the reader is closed.
        """
        self._require_open()
        split = Split(offset, self.size - offset if length is None else length, self._file_size)
        groups = _cut(split.indexes, min(self._group_segments(len(split)), _MOST_IN_ORDER))
        most = _THREADS_IN_ORDER if isinstance(self._source, StreamedSource) else self._threads
        threads = max(1, min(most, self._threads, len(groups)))
        slots = [[self._scratch.take() for _ in groups[0]] for _ in range(min(len(groups), threads + SPARE_SLOTS))]

        def produce(number: int, slot: int) -> None:
            with closing(self._opened(groups[number])) as opened:
                # The segments first: their request has to end, and the last group may be shorter than its slot.
                for (segment, read), place in zip(opened, slots[slot], strict=False):
                    self._decrypt_in_place(segment, place, read)

        def consume(number: int, slot: int) -> None:
            for index, place in zip(groups[number], slots[slot], strict=False):
                part = split[index - split.indexes.start]
                write(place[part.begin : part.end])

        try:
            in_order(len(groups), produce, (consume,), slots=len(slots), threads=threads)
        finally:
            for place in chain.from_iterable(slots):
                self._scratch.give(place)

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
        self._require_open()
        tally = _Tally(progress)
        groups = _cut(range(self._count), self._group_segments(self._count))

        def pass_on(indexes: range) -> None:
            with self._scratch_piece() as scratch, closing(self._opened(indexes)) as opened:
                for segment, read in opened:
                    piece = self._decrypt_in_place(segment, scratch, read)
                    write_at(segment.plaintext_offset, piece)
                    tally.add(len(piece))

        spread(len(groups), lambda n: pass_on(groups[n]), threads=self._threads_for(self._count, len(groups)))
        tally.finish()

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

    # -- groups of segments

    def _group_segments(self, count: int) -> int:
        """Return how many of so many segments one thread reads in one request.

        A local file is read a segment at a time, which spreads best. A request takes a round trip: four for each
        connection hide it, and leave little to wait for at the end.
        """
        if not isinstance(self._source, StreamedSource):
            return 1
        return min(_MOST_TOGETHER, max(_LEAST_TOGETHER, -(-count // (4 * self._threads))))

    def _threads_for(self, segments: int, groups: int) -> int:
        if isinstance(self._source, StreamedSource):
            return max(1, min(self._threads, groups))
        return max(1, min(self._threads, segments // _SEGMENTS_PER_THREAD))

    def _opened(self, indexes: range) -> Generator[tuple[Segment, _Read], None, None]:
        """Yield neighbouring segments, each with the function that reads its ciphertext, to be called once.

        The caller closes the generator: a failure must end the request and free its connection.
        """
        first, last = self._place(indexes[0]), self._place(indexes[-1])
        with ExitStack() as opened:
            source, read = self._source, None
            if isinstance(source, StreamedSource) and len(indexes) > 1:
                stream = source.stream(first.offset, last.offset + last.size - first.offset)
                read = opened.enter_context(stream).read_into
            for index in indexes:
                segment = self._place(index)
                yield segment, read or partial(source.read_into, segment.offset)

    def _fill_run(self, run: Sequence[Target], tally: _Tally) -> None:
        """Fill the memory of parts whose segments follow each other; the last one that was no whole is cached."""
        parts = iter(run)
        target = next(parts, None)
        with closing(self._opened(range(run[0].part.segment.index, run[-1].part.segment.index + 1))) as opened:
            for segment, read in opened:
                mine = []
                while target is not None and target.part.segment.index == segment.index:
                    mine.append(target)
                    target = next(parts, None)
                self._fill_segment(segment, mine, read)
                tally.add(sum(len(one.memory) for one in mine))

    def _fill_segment(self, segment: Segment, targets: Sequence[Target], read: _Read) -> None:
        if len(targets) == 1 and targets[0].part.whole:
            with self._scratch_piece() as scratch:
                self._decrypt(segment, scratch, targets[0].memory, read)
            return
        content = self._decrypted(segment, read)
        for part, memory in targets:
            memory[:] = content[part.begin : part.end]
        self._keep(segment.index, content)

    # -- one segment

    @contextmanager
    def _scratch_piece(self) -> Iterator[memoryview]:
        scratch = self._scratch.take()
        try:
            yield scratch
        finally:
            self._scratch.give(scratch)

    def _decrypt(self, segment: Segment, scratch: memoryview, out: memoryview, read: _Read) -> None:
        ciphertext = scratch[: segment.size]
        read(ciphertext)
        self._cipher.decrypt_into(segment.index, segment.last, ciphertext, out)
        self._reported(segment)

    def _reported(self, segment: Segment) -> None:
        if self._report is not None:
            self._report(segment.index)

    def _decrypt_in_place(self, segment: Segment, scratch: memoryview, read: _Read) -> memoryview:
        content = scratch[: segment.plaintext_size]
        self._decrypt(segment, scratch, content, read)
        return content

    def _decrypted(self, segment: Segment, read: _Read) -> memoryview:
        scratch = self._scratch.take()
        try:
            self._decrypt_in_place(segment, scratch, read)
        except BaseException:
            self._scratch.give(scratch)
            raise
        return scratch

    def _from_cache(self, target: Target, tally: _Tally) -> bool:
        part, memory = target
        with self._lock:
            if self._cached is None or self._cached[0] != part.segment.index:
                return False
            memory[:] = self._cached[1][part.begin : part.end]
        tally.add(len(memory))
        return True

    def _keep(self, index: int, content: memoryview) -> None:
        """Cache the content of one segment: small sequential reads decrypt each segment once."""
        with self._lock:
            before, self._cached = self._cached, (index, content)
        if before is not None:
            self._scratch.give(before[1])


class _Tally:
    """Bytes done by all threads of a read; ``progress`` is called in the thread that made the tally."""

    def __init__(self, progress: Callable[[int], object] | None) -> None:
        self._progress = progress
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._done = 0

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            done = self._done
        if self._progress is not None and threading.get_ident() == self._thread:
            self._progress(done)

    def finish(self) -> None:
        """Report the end, which another thread may have reached."""
        if self._progress is not None:
            self._progress(self._done)


def _cut(indexes: range, size: int) -> list[range]:
    return [indexes[begin : begin + size] for begin in range(0, len(indexes), size)]


def _writable(buffer: memoryview | bytearray) -> memoryview:
    view = memoryview(buffer)
    if view.readonly or not view.c_contiguous:
        raise TypeError("the buffer must be writable and contiguous")
    return view.cast("B")
