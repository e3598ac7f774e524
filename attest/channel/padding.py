"""What lengths say: whole messages are padded to few sizes, and answers that grow are cut on a clock.

Padding is part of binary HTTP, at its end, inside the encryption. So a whole message can have any of these lengths
and no other; an answer that is sent while it is made cannot be padded in its middle, and is cut into pieces of one
size whose number at each tick is all that is seen.
"""

from __future__ import annotations

from typing import Final

from attest.channel.bhttp import written_content
from attest.channel.chunked import PIECE_BYTES, ChunkSealer

__all__ = ["SMALLEST_BYTES", "STREAM_PIECE_BYTES", "GrowingMessage", "WholeMessage", "padded", "padded_length"]

SMALLEST_BYTES: Final = 256
STREAM_PIECE_BYTES: Final = 512
_SPACE = b" "


def padded_length(length: int, *, smallest: int = SMALLEST_BYTES) -> int:
    """Return the length of the bucket: 256, 512, … 16384, then multiples of 16384."""
    if length > PIECE_BYTES:
        return -(-length // PIECE_BYTES) * PIECE_BYTES
    bucket = smallest
    while bucket < length:
        bucket *= 2
    return bucket


def padded(message: bytes, *, smallest: int = SMALLEST_BYTES) -> bytes:
    """Return a binary HTTP message with zeros to the end of its bucket."""
    return message + bytes(padded_length(len(message), smallest=smallest) - len(message))


class WholeMessage:
    """Seals a message whose chunks say nothing but its bucket; it may arrive in any portions.

    Args:
        sealer: of the message.
        padding: whether to pad; without, the exact length shows.
    """

    __slots__ = ("_buffer", "_length", "_padding", "_sealer")

    def __init__(self, sealer: ChunkSealer, *, padding: bool = True) -> None:
        """Begin with nothing."""
        self._sealer = sealer
        self._padding = padding
        self._buffer = bytearray()
        self._length = 0

    def add(self, data: bytes) -> bytes:
        """Take more of the message, and return the chunks that are full.

        The last piece stays here, even where it is full: an empty final chunk would tell such lengths apart.
        """
        self._buffer += data
        self._length += len(data)
        sealed: list[bytes] = []
        while len(self._buffer) > PIECE_BYTES:
            sealed.append(self._sealer.piece(bytes(self._buffer[:PIECE_BYTES])))
            del self._buffer[:PIECE_BYTES]
        return b"".join(sealed)

    def end(self) -> bytes:
        """Return what is left, padded, as the final chunk."""
        if self._padding:
            self._buffer += bytes(padded_length(self._length) - self._length)
        return self._sealer.final(bytes(self._buffer))


class GrowingMessage:
    """Seals an answer that is sent while it is made: pieces of one size, whenever the clock says so.

    Token by token would tell the lengths of words. What does not fill a piece waits for more; a format with room for
    filler (event streams) can have it filled up at each tick.

    Args:
        sealer: of the message.
        size: of a piece, in bytes.
        padding: whether to keep to that size; without, everything is sent as it comes.
    """

    __slots__ = ("_buffer", "_padding", "_sealer", "_size")

    def __init__(self, sealer: ChunkSealer, *, size: int = STREAM_PIECE_BYTES, padding: bool = True) -> None:
        """Begin with nothing."""
        self._sealer = sealer
        self._size = size
        self._padding = padding
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """How many bytes wait."""
        return len(self._buffer)

    def add(self, data: bytes) -> None:
        """Take more of the message."""
        self._buffer += data

    def tick(self) -> bytes:
        """Return the chunks that are full now."""
        size = self._size if self._padding else 1
        full = len(self._buffer) // size * size
        sealed: list[bytes] = []
        while full:
            step = min(full, PIECE_BYTES // size * size)
            sealed.append(self._sealer.piece(bytes(self._buffer[:step])))
            del self._buffer[:step]
            full -= step
        return b"".join(sealed)

    def fill_event_stream(self) -> None:
        """Fill the waiting piece with a comment, which readers of event streams skip.

        The caller knows that an event has just ended; anywhere else a comment would become part of one.
        """
        missing = -len(self._buffer) % self._size
        if missing:
            self._buffer += _comment(missing if missing >= _SMALLEST_COMMENT else missing + self._size)

    def end(self) -> bytes:
        """Return what is left as the last chunks; zeros fill the last piece."""
        if self._padding:
            self._buffer += bytes(-len(self._buffer) % self._size)
        sealed = self.tick() if len(self._buffer) > PIECE_BYTES else b""
        return sealed + self._sealer.final(bytes(self._buffer))


_SMALLEST_COMMENT = 5
"""Length, colon, two ends of lines: and one byte, for what a longer length takes."""


def _comment(size: int) -> bytes:
    """Return content of binary HTTP, with its length, that is exactly this long and is a comment of an event stream."""
    for inner in (size - 1, size - 2, size - 3):
        found = written_content(b":" + _SPACE * (inner - 3) + b"\n\n")
        if len(found) == size:
            return found
    # No length of a content is written in just so many bytes (65 is one): two comments are.
    return _comment(_SMALLEST_COMMENT) + _comment(size - _SMALLEST_COMMENT)
