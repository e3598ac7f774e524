"""Layout of a sealed file: pure arithmetic over sizes and offsets, in bytes.

::

    file    = header (40) ‖ segment 0 ‖ segment 1 ‖ … ‖ segment k-1
    segment = ciphertext ‖ tag (16)

Segment *i* begins at file offset *i* · 1 MiB, segment 0 after the header, and ends at the next multiple of 1 MiB or
with the file. All but the last are full, and the last has at least one byte unless the file is empty: plaintext and
file sizes therefore correspond one to one.

Spec: Tink, Streaming AEAD, AES-GCM-HKDF streaming, parameter set AES256_GCM_HKDF_1MB.
"""

from __future__ import annotations

from dataclasses import dataclass

from attest.errors import SealedFileError

SEGMENT_BYTES = 1 << 20
"""Of the file, header and tag included."""
HEADER_BYTES = 40
TAG_BYTES = 16
PLAINTEXT_BYTES = SEGMENT_BYTES - TAG_BYTES
"""Of a full segment."""
FIRST_PLAINTEXT_BYTES = PLAINTEXT_BYTES - HEADER_BYTES
"""Of a full segment 0, which shares its MiB with the header."""
MIN_CIPHERTEXT_BYTES = HEADER_BYTES + TAG_BYTES
"""The empty file, sealed."""
MAX_SEGMENTS = 1 << 32
"""The index in the nonce has 32 bits."""
MAX_CIPHERTEXT_BYTES = MAX_SEGMENTS * SEGMENT_BYTES
MAX_PLAINTEXT_BYTES = MAX_CIPHERTEXT_BYTES - HEADER_BYTES - MAX_SEGMENTS * TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Position of one segment in the file and of its content in the plaintext.

    Attributes:
        index: from 0.
        last: the file's last segment, as its nonce states too.
        offset: of its ciphertext in the file.
        size: of its ciphertext with the tag.
        plaintext_offset: of its content in the plaintext.
    """

    index: int
    last: bool
    offset: int
    size: int
    plaintext_offset: int

    @property
    def plaintext_size(self) -> int:
        """Bytes of content."""
        return self.size - TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """Contribution of one segment to a range of the plaintext: bytes [begin, end) of the segment's content.

    Attributes:
        at: offset of ``begin`` in the range.
    """

    segment: Segment
    begin: int
    end: int
    at: int

    @property
    def whole(self) -> bool:
        """True if the range contains the whole segment."""
        return self.begin == 0 and self.end == self.segment.plaintext_size


def ciphertext_size(plaintext: int) -> int:
    """Return the size of the sealed file for a plaintext size.

    Raises:
        SealedFileError: ``sealed-size-invalid``: more than 2³² segments.
        ValueError: a negative size.
    """
    if plaintext < 0:
        raise ValueError(f"a size is not negative: {plaintext}")
    if plaintext > MAX_PLAINTEXT_BYTES:
        raise SealedFileError(
            f"{plaintext} bytes are too many for a sealed file: at most {MAX_PLAINTEXT_BYTES}",
            code="sealed-size-invalid",
            expected=f"at most {MAX_PLAINTEXT_BYTES} bytes",
            got=str(plaintext),
            hint="split the file",
        )
    beyond = max(0, plaintext - FIRST_PLAINTEXT_BYTES)
    return plaintext + HEADER_BYTES + TAG_BYTES * (1 + -(-beyond // PLAINTEXT_BYTES))


def plaintext_size(ciphertext: int) -> int:
    """Return the plaintext size of a sealed file of this size.

    Raises:
        SealedFileError: ``sealed-size-invalid``: not the size of a sealed file.
    """
    return ciphertext - HEADER_BYTES - TAG_BYTES * segment_count(ciphertext)


def segment_count(ciphertext: int) -> int:
    """Return the number of segments in a sealed file of this size; at least one.

    Raises:
        SealedFileError: ``sealed-size-invalid``: not the size of a sealed file: shorter than the empty one (56
            bytes), longer than 4 PiB, or with a last segment without plaintext.
    """
    # A last segment of only a tag would be a second form of the same plaintext; writers never make it.
    fits = ciphertext <= SEGMENT_BYTES or (ciphertext - 1) % SEGMENT_BYTES >= TAG_BYTES
    if not (MIN_CIPHERTEXT_BYTES <= ciphertext <= MAX_CIPHERTEXT_BYTES and fits):
        raise SealedFileError(
            f"no sealed file has {ciphertext} bytes: it was cut or extended, or it is something else",
            code="sealed-size-invalid",
            expected=f"{MIN_CIPHERTEXT_BYTES} to {MAX_CIPHERTEXT_BYTES} bytes, and no last segment without content",
            got=str(ciphertext),
            clause="Tink, AES-GCM-HKDF streaming, AES256_GCM_HKDF_1MB",
            hint="fetch the file again",
        )
    return -(-ciphertext // SEGMENT_BYTES)


def segment_place(index: int, ciphertext: int) -> Segment:
    """Return the position of a segment in a sealed file of this size.

    Raises:
        SealedFileError: ``sealed-size-invalid``: not the size of a sealed file.
        ValueError: no such segment.
    """
    count = segment_count(ciphertext)
    if not 0 <= index < count:
        raise ValueError(f"segment {index} of a file of {count}")
    return _place(index, count, ciphertext)


class Split:
    """A range of the plaintext as parts of segments, in order.

    Parts are computed lazily, so a range of a terabyte takes no more memory than one of a byte.

    Args:
        offset: first byte of the range.
        length: of the range; an empty range has no parts.
        ciphertext: size of the sealed file.

    Raises:
        SealedFileError: ``sealed-size-invalid``: not the size of a sealed file.
        ValueError: the range exceeds the plaintext.
    """

    __slots__ = ("_ciphertext", "_count", "_end", "_first", "_number", "_offset")

    def __init__(self, offset: int, length: int, ciphertext: int) -> None:
        self._count = segment_count(ciphertext)
        size = plaintext_size(ciphertext)
        if offset < 0 or length < 0 or offset + length > size:
            raise ValueError(f"bytes {offset} to {offset + length} of a file of {size}")
        self._ciphertext = ciphertext
        self._offset = offset
        self._end = offset + length
        self._first = segment_index(offset)
        self._number = segment_index(self._end - 1) - self._first + 1 if length else 0

    def __len__(self) -> int:
        return self._number

    @property
    def indexes(self) -> range:
        """The indexes of its segments."""
        return range(self._first, self._first + self._number)

    def __getitem__(self, number: int) -> SegmentPart:
        if not 0 <= number < self._number:
            raise IndexError(number)
        segment = _place(self._first + number, self._count, self._ciphertext)
        begin = max(self._offset, segment.plaintext_offset)
        end = min(self._end, segment.plaintext_offset + segment.plaintext_size)
        return SegmentPart(
            segment=segment,
            begin=begin - segment.plaintext_offset,
            end=end - segment.plaintext_offset,
            at=begin - self._offset,
        )


def segment_index(offset: int) -> int:
    """Return the index of the segment with this byte of the plaintext."""
    return 0 if offset < FIRST_PLAINTEXT_BYTES else 1 + (offset - FIRST_PLAINTEXT_BYTES) // PLAINTEXT_BYTES


def _place(index: int, count: int, ciphertext: int) -> Segment:
    begin = index * SEGMENT_BYTES if index else HEADER_BYTES
    end = min((index + 1) * SEGMENT_BYTES, ciphertext)
    content = FIRST_PLAINTEXT_BYTES + (index - 1) * PLAINTEXT_BYTES if index else 0
    return Segment(index=index, last=index == count - 1, offset=begin, size=end - begin, plaintext_offset=content)
