"""Streamed answers."""

from __future__ import annotations

from attest.channel.bhttp import END, section, written_content
from attest.channel.messages import Fields
from attest.channel.padding import GrowingMessage


class AnswerStream:
    """An answer sent while it is made; a client treats it as truncated until ``end``.

    Args:
        nonce: sent first.
        growing: seals the content.
    """

    __slots__ = ("_growing", "_nonce")

    def __init__(self, nonce: bytes, growing: GrowingMessage) -> None:
        self._nonce = nonce
        self._growing = growing

    @property
    def waiting(self) -> int:
        """Number of bytes waiting for the next tick."""
        return self._growing.waiting

    def add(self, data: bytes) -> None:
        """Add content."""
        self._growing.add(written_content(data))

    def tick(self, *, fill_event_stream: bool = False) -> bytes:
        """Return the bytes to send now.

        Args:
            fill_event_stream: an event of an event stream has just ended, so that a comment may follow.
        """
        if fill_event_stream:
            self._growing.fill_event_stream()
        nonce, self._nonce = self._nonce, b""
        return nonce + self._growing.tick()

    def end(self, trailers: Fields = ()) -> bytes:
        """Return the last bytes to send."""
        self._growing.add(END + section(trailers, indeterminate=True))
        nonce, self._nonce = self._nonce, b""
        return nonce + self._growing.end()
