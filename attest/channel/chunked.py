"""Chunked messages (draft-ietf-ohai-chunked-ohttp-08): uploads and answers sealed incrementally.

::

    body     prefix ‖ { v(len(c)) ‖ c }* ‖ 00 ‖ f
    c        Seal(aad "", piece)            not empty; the length counts ciphertext
    f        Seal(aad "final", piece)       may be empty; runs to the end

The counter of the nonces protects the order, the AAD of the last chunk the end. The lengths are not authenticated:
another length means another chunk, which does not open.
"""

from __future__ import annotations

from typing import Final

from attest.channel.bhttp import varint
from attest.channel.hpke import TAG_BYTES, CountedAead
from attest.errors import ChannelError, ChannelTamperError

PIECE_BYTES: Final = 16384
"""Largest piece that every receiver accepts (section 5)."""
MAX_CHUNK_BYTES: Final = PIECE_BYTES + TAG_BYTES
MAX_CHUNKS: Final = 65536
MAX_MESSAGE_BYTES: Final = MAX_CHUNKS * PIECE_BYTES
"""1 GiB under one key: the analysis quoted by the draft gives an advantage of 2^-50 for it."""
_FINAL = b"final"
_CLAUSE = "draft-ietf-ohai-chunked-ohttp-08"


class ChunkSealer:
    """Sealer of pieces as chunks. No other object may use its cipher, that of the request or the answer."""

    __slots__ = ("_chunks", "_cipher", "_max_chunks", "_over")

    def __init__(self, cipher: CountedAead, *, max_chunks: int = MAX_CHUNKS) -> None:
        self._max_chunks = max_chunks
        self._cipher = cipher
        self._chunks = 0
        self._over = False

    def piece(self, data: bytes) -> bytes:
        """Seal a piece other than the last, 1 to 16,384 bytes.

        Raises:
            ChannelError: ``channel-messages-exhausted``.
            ValueError: another length, or the final piece was sealed.
        """
        if self._over or not 0 < len(data) <= PIECE_BYTES:
            raise ValueError(f"expected 1 to {PIECE_BYTES} bytes before the final piece, got {len(data)}")
        self._count()
        sealed = self._cipher.seal(data)
        return varint(len(sealed)) + sealed

    def final(self, data: bytes = b"") -> bytes:
        """Seal the last piece, at most 16,384 bytes.

        Raises:
            ChannelError: ``channel-messages-exhausted``.
            ValueError: more bytes, or the final piece was sealed.
        """
        if self._over or len(data) > PIECE_BYTES:
            raise ValueError(f"expected at most {PIECE_BYTES} bytes in one final piece, got {len(data)}")
        self._count()
        self._over = True
        return b"\x00" + self._cipher.seal(data, aad=_FINAL)

    def _count(self) -> None:
        self._chunks += 1
        if self._chunks > self._max_chunks:
            raise ChannelError(
                f"the message has more than {self._max_chunks} chunks",
                code="channel-messages-exhausted",
                clause=_CLAUSE,
            )


class ChunkOpener:
    """Opener of chunks as they arrive. After a refusal every further call refuses.

    Args:
        cipher: of the request or the answer; used by this object alone.
    """

    def __init__(
        self, cipher: CountedAead, *, max_bytes: int = MAX_MESSAGE_BYTES, max_chunks: int = MAX_CHUNKS
    ) -> None:
        self._cipher = cipher
        self._max_bytes = max_bytes
        self._max_chunks = max_chunks
        self._buffer = bytearray()
        self._length: int | None = None
        self._chunks = 0
        self._opened = 0
        self._over = False
        self.authentic = False
        """True if any chunk opened, even if a later one did not."""

    def feed(self, data: bytes) -> tuple[bytes, ...]:
        """Add bytes, and return the pieces that they complete.

        Raises:
            ChannelTamperError: ``channel-not-opened``.
            ChannelError: ``channel-chunk-invalid``: an impossible length; ``channel-too-long``.
        """
        self._require_going_on()
        self._over = True  # cleared on a normal return
        self._buffer += data
        pieces: list[bytes] = []
        while (piece := self._next()) is not None:
            pieces.append(piece)
        self._over = False
        return tuple(pieces)

    def finish(self) -> bytes:
        """Mark the end of the content, and return the last piece. Its absence means a truncated message.

        Raises:
            ChannelTamperError: ``channel-truncated``, ``channel-not-opened``.
            ChannelError: ``channel-too-long``.
        """
        self._require_going_on()
        self._over = True
        if self._length != 0 or len(self._buffer) < TAG_BYTES:
            raise ChannelTamperError(
                "the message was cut: it ended before its final chunk",
                code="channel-truncated",
                clause=_CLAUSE,
                hint="the received bytes are a part of it, of unknown extent",
            )
        return self._open(bytes(self._buffer), aad=_FINAL)

    def _next(self) -> bytes | None:
        """Return the next piece other than the last, or None while bytes are missing."""
        if self._length is None:
            self._length = self._read_length()
        if self._length == 0 and len(self._buffer) > MAX_CHUNK_BYTES:
            raise _invalid_length(len(self._buffer))
        if not self._length or len(self._buffer) < self._length:
            return None
        with memoryview(self._buffer) as view, view[: self._length] as sealed:
            piece = self._open(sealed)
        del self._buffer[: self._length]
        self._length = None
        return piece

    def _read_length(self) -> int | None:
        """Read a length: 0 announces the final chunk, and no other chunk is empty (section 3)."""
        if not self._buffer or len(self._buffer) < (size := 1 << (self._buffer[0] >> 6)):
            return None
        length = int.from_bytes(self._buffer[:size], "big") & (1 << 8 * size - 2) - 1
        if length and not TAG_BYTES < length <= MAX_CHUNK_BYTES:
            raise _invalid_length(length)
        del self._buffer[:size]
        return length

    def _open(self, sealed: bytes | memoryview, *, aad: bytes = b"") -> bytes:
        self._chunks += 1
        self._opened += len(sealed) - TAG_BYTES
        if self._chunks > self._max_chunks:
            raise _too_long("chunks", self._max_chunks, self._chunks)
        if self._opened > self._max_bytes:
            raise _too_long("bytes", self._max_bytes, self._opened)
        piece = self._cipher.open(sealed, aad=aad)
        self.authentic = True
        return piece

    def _require_going_on(self) -> None:
        if self._over:
            raise ChannelTamperError("the message was refused or is over already", code="channel-not-opened")


def _too_long(what: str, limit: int, got: int) -> ChannelError:
    return ChannelError(
        f"the message has more than {limit} {what}",
        code="channel-too-long",
        field=what,
        expected=f"at most {limit}",
        got=f"at least {got}",
    )


def _invalid_length(got: int) -> ChannelError:
    return ChannelError(
        "a chunk has a length that none has",
        code="channel-chunk-invalid",
        expected=f"{TAG_BYTES + 1} to {MAX_CHUNK_BYTES} bytes",
        got=f"{got} bytes",
        clause=_CLAUSE,
    )
