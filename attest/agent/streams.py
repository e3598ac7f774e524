"""Answers under way that depend on a lease: its loss breaks them off, also while they wait for the reader."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attest.errors import LeaseLostError
from attest.release.names import KeyReference


class Streams:
    """Registry of the connections that send files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[socket.socket, KeyReference | None] = {}
        self._reasons: dict[KeyReference, LeaseLostError] = {}

    @contextmanager
    def under_way(self, sock: socket.socket, needs: KeyReference | None) -> Iterator[None]:
        """Register a connection that sends. The sender must check the lease after this begins."""
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
        """Break off the answers that depend on a lease; return their number."""
        with self._lock:
            self._reasons[reference] = error
            found = [sock for sock, needs in self._under_way.items() if needs == reference]
            for sock in found:
                _break_off(sock)
        return len(found)

    def reason(self, reference: KeyReference | None) -> LeaseLostError | None:
        """Return the reason for breaking off a lease's answers, if there is one."""
        with self._lock:
            return None if reference is None else self._reasons.get(reference)

    def break_off(self) -> int:
        """Break off all answers; return their number."""
        with self._lock:
            for sock in self._under_way:
                _break_off(sock)
            return len(self._under_way)


def _break_off(sock: socket.socket) -> None:
    with suppress(OSError):  # ended already
        sock.shutdown(socket.SHUT_RDWR)
