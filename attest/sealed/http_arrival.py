"""HTTP connections whose answers are received straight into memory, as far as they have arrived.

urllib3 returns the body only as new ``bytes``. Allocating and copying them takes longer than receiving them. These
connections therefore expose the underlying response of the standard library.
"""

from __future__ import annotations

import io
import socket
from http.client import HTTPResponse
from typing import TYPE_CHECKING

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Arrival", "show_arrivals"]


class _Arriving(io.BufferedReader):
    """Fills memory with the bytes of one receive, so that a sender of single bytes cannot block the reader."""

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self.readinto1(buffer)


class Arrival(HTTPResponse):
    """An answer with ``readinto`` that does not wait for all that is asked for."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp.close()
        self.fp = _Arriving(sock.makefile("rb", buffering=0))


class _Connection(HTTPConnection):
    """Keeps the last answer."""

    arrival: Arrival | None = None

    def response_class(  # type: ignore[override]  # the standard library makes its answers by a call
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None
    ) -> Arrival:
        self.arrival = Arrival(sock, debuglevel, method)
        return self.arrival


class _SecureConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def show_arrivals(pools: urllib3.PoolManager) -> urllib3.PoolManager:
    """Let connections of these pools have an ``arrival``."""
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pools
