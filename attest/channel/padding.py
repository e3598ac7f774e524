"""Hiding of lengths: whole messages are padded to few sizes, and streamed answers are cut on a clock.

Padding is part of binary HTTP, at its end, inside the encryption. A whole message therefore has one of these lengths.
A streamed answer cannot be padded in its middle; it is cut into pieces of one size, and an observer sees only their
number at each tick.
"""

from __future__ import annotations

from typing import Final

from attest.channel.bhttp import END, section, written_content
from attest.channel.chunked import PIECE_BYTES, ChunkSealer
from attest.channel.messages import Fields

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
    """Sealer of a message whose chunks reveal only its bucket; without padding its exact length shows."""

    __slots__ = ("_buffer", "_length", "_padding", "_sealer")

    def __init__(self, sealer: ChunkSealer, *, padding: bool = True) -> None:
        self._sealer = sealer
        self._padding = padding
        self._buffer = bytearray()
        self._length = 0

    def add(self, data: bytes) -> bytes:
        """Add bytes, and return the chunks that are full.

        The last piece is held back even if it is full: an empty final chunk would reveal such lengths.
        """
        self._buffer += data
        self._length += len(data)
        sealed: list[bytes] = []
        while len(self._buffer) > PIECE_BYTES:
            sealed.append(self._sealer.piece(bytes(self._buffer[:PIECE_BYTES])))
            del self._buffer[:PIECE_BYTES]
        return b"".join(sealed)

    def end(self) -> bytes:
        """Return the remainder, padded, as the final chunk."""
        if self._padding:
            self._buffer += bytes(padded_length(self._length) - self._length)
        return self._sealer.final(bytes(self._buffer))


class AnswerStream:
    """Sealer of an answer while it is made: pieces of one size, sent on a clock; truncated without ``end``.

    Sending token by token would reveal the lengths of words. A partial piece waits for more; formats with room for
    filler (event streams) allow padding it at each tick.

    Args:
        nonce: of the answer, sent before the first chunk.
        head: encoded part of the message before its content.
        size: of a piece, in bytes.
        padding: keep to that size; otherwise bytes are sent as they arrive.
    """

    __slots__ = ("_buffer", "_nonce", "_padding", "_sealer", "_size")

    def __init__(
        self, sealer: ChunkSealer, *, nonce: bytes, head: bytes, size: int = STREAM_PIECE_BYTES, padding: bool = True
    ) -> None:
        self._sealer = sealer
        self._nonce = nonce
        self._size = size
        self._padding = padding
        self._buffer = bytearray(head)

    @property
    def waiting(self) -> int:
        """Number of bytes waiting for the next tick."""
        return len(self._buffer)

    def add(self, data: bytes) -> None:
        """Add content."""
        self._buffer += written_content(data)

    def tick(self, *, fill_event_stream: bool = False) -> bytes:
        """Return the bytes to send now.

        ``fill_event_stream`` fills the waiting piece with a comment, which readers of event streams ignore. It is valid
        only after the end of an event; elsewhere a comment would become part of one.
        """
        missing = -len(self._buffer) % self._size
        if fill_event_stream and missing:
            self._buffer += _comment(missing if missing >= _SMALLEST_COMMENT else missing + self._size)
        return self._begun(self._full())

    def end(self, trailers: Fields = ()) -> bytes:
        """Return the last bytes to send; zeros fill the last piece."""
        self._buffer += END + section(trailers, indeterminate=True)
        if self._padding:
            self._buffer += bytes(-len(self._buffer) % self._size)
        sealed = self._full() if len(self._buffer) > PIECE_BYTES else b""
        return self._begun(sealed + self._sealer.final(bytes(self._buffer)))

    def _full(self) -> bytes:
        """Seal the pieces that are full."""
        size = self._size if self._padding else 1
        full = len(self._buffer) // size * size
        sealed: list[bytes] = []
        while full:
            step = min(full, PIECE_BYTES // size * size)
            sealed.append(self._sealer.piece(bytes(self._buffer[:step])))
            del self._buffer[:step]
            full -= step
        return b"".join(sealed)

    def _begun(self, sealed: bytes) -> bytes:
        nonce, self._nonce = self._nonce, b""
        return nonce + sealed


_SMALLEST_COMMENT = 5
"""Length, colon, two line ends, and one byte for a longer length prefix."""


def _comment(size: int) -> bytes:
    """Return binary HTTP content of exactly this length, length prefix included, that is an event stream comment."""
    for inner in (size - 1, size - 2, size - 3):
        found = written_content(b":" + _SPACE * (inner - 3) + b"\n\n")
        if len(found) == size:
            return found
    # Some sizes (65 is one) match no single comment: two are used.
    return _comment(_SMALLEST_COMMENT) + _comment(size - _SMALLEST_COMMENT)
