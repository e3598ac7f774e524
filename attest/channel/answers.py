"""An answer that is sent while it is made."""

from __future__ import annotations

from attest.channel.bhttp import END, section, written_content
from attest.channel.messages import Fields
from attest.channel.padding import GrowingMessage

__all__ = ["AnswerStream"]


class AnswerStream:
    """An answer that is sent while it is made; without its ``end`` the client takes none of it for whole.

    Args:
        nonce: what is sent first.
        growing: seals what comes.
    """

    __slots__ = ("_growing", "_nonce")

    def __init__(self, nonce: bytes, growing: GrowingMessage) -> None:
        """Begin with the nonce."""
        self._nonce = nonce
        self._growing = growing

    @property
    def waiting(self) -> int:
        """How many bytes wait for the next tick."""
        return self._growing.waiting

    def add(self, data: bytes) -> None:
        """Take more of the content."""
        self._growing.add(written_content(data))

    def tick(self, *, fill_event_stream: bool = False) -> bytes:
        """Return what is sent now.

        Args:
            fill_event_stream: whether an event of an event stream has just ended, so that a comment may follow.
        """
        if fill_event_stream:
            self._growing.fill_event_stream()
        nonce, self._nonce = self._nonce, b""
        return nonce + self._growing.tick()

    def end(self, trailers: Fields = ()) -> bytes:
        """Return the last part of what is sent."""
        self._growing.add(END + section(trailers, indeterminate=True))
        nonce, self._nonce = self._nonce, b""
        return nonce + self._growing.end()
