"""Answers under way that hang on a lease: when it is lost, they break off, also one that waits for its reader."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attest.errors import LeaseLostError
from attest.release.names import KeyReference

__all__ = ["Streams"]


class Streams:
    """The connections on which files are sent."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._under_way: dict[socket.socket, KeyReference | None] = {}
        self._reasons: dict[KeyReference, LeaseLostError] = {}

    @contextmanager
    def under_way(self, sock: socket.socket, needs: KeyReference | None) -> Iterator[None]:
        """Count a connection among those that send. The sender has to make sure of the lease after this begins."""
        with self._lock:
            self._under_way[sock] = needs
            if needs is not None:
                self._reasons.pop(needs, None)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.pop(sock, None)

    def lost(self, reference: KeyReference, error: LeaseLostError) -> int:
        """Break off what hangs on a lease; return how many answers that were."""
        with self._lock:
            self._reasons[reference] = error
            found = [sock for sock, needs in self._under_way.items() if needs == reference]
            for sock in found:
                _break_off(sock)
        return len(found)

    def reason(self, reference: KeyReference | None) -> LeaseLostError | None:
        """Return why answers that hang on a lease were broken off, if they were."""
        with self._lock:
            return None if reference is None else self._reasons.get(reference)

    def break_off(self) -> int:
        """Break off everything; return how many answers that were."""
        with self._lock:
            for sock in self._under_way:
                _break_off(sock)
            return len(self._under_way)


def _break_off(sock: socket.socket) -> None:
    with suppress(OSError):  # it ended by itself
        sock.shutdown(socket.SHUT_RDWR)
