"""A listening socket that limits how often one address may open a connection.

A connection above the limit is reset when it is accepted. No transport, task or TLS buffer is made for it: an address
that opens connections as fast as it can costs the process three system calls for each.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from attest.rate_limits import RateTable, caller_of

RESETS_AT_ONCE: Final = 64
"""Connections that are reset before the event loop does other work, a millisecond or two."""
_NOW: Final = struct.pack("ii", 1, 0)


class PacedListener(socket.socket):
    """A listening socket that takes over another one, and resets connections above the rate of their address.

    Args:
        sock: listening, on IPv4 or IPv6; it is detached.
        rates: the allowance of each address (of IPv6: of one /64).
        monotonic: a clock in seconds that never goes back.
        refused: called for each connection that is reset.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        rates: RateTable,
        monotonic: Callable[[], float],
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        timeout = sock.gettimeout()
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self.settimeout(timeout)
        self._rates = rates
        self._monotonic = monotonic
        self._refused = refused

    def accept(self) -> tuple[socket.socket, Any]:  # Any: the address, as of any socket
        """Accept the next connection that is within the rate of its address.

        Raises:
            BlockingIOError: none waits, or ``RESETS_AT_ONCE`` were reset and others may wait.
        """
        for _ in range(RESETS_AT_ONCE):
            connection, address = super().accept()
            if self._rates.wait_of(caller_of(str(address[0])), at=self._monotonic()) <= 0:
                return connection, address
            reset(connection)
            self._refused()
        raise BlockingIOError


def reset(connection: socket.socket) -> None:
    """Close a connection at once, and drop what its peer has not read."""
    reset_on_close(connection)
    connection.close()


def reset_on_close(connection: socket.socket) -> None:
    """Let the close of a connection drop what its peer has not read.

    Raises:
        OSError: the connection has ended.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
