"""A relay that keeps a copy of every byte: the operator's view of a connection."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from attest.context_managers import ClosedOnExit

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""Limit for one direction of one connection; bytes beyond it are relayed, not recorded."""
_PIECE: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0


class RecordingRelay(ClosedOnExit):
    """Listens on a free port of 127.0.0.1 and relays to another one.

    Args:
        port: target; 0 refuses until ``to`` is called.
        folder: for the recorded bytes, one file for each connection and direction.
    """

    def __init__(self, name: str, *, port: int, folder: Path) -> None:
        self._name = name
        self._target = port
        self._folder = folder
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._count = 0
        self._over = False
        self._thread = threading.Thread(target=self._accept, name=f"tap-{name}", daemon=True)

    def to(self, port: int) -> None:
        """Relay to this port from now on."""
        self._target = port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Close the listening socket and all connections."""
        with self._lock:
            self._over = True
            sockets = [self._server, *self._open]
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        if self._thread.is_alive():
            self._thread.join(_CONNECT_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:  # closed
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=_CONNECT_SECONDS)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._relay(near, far)

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        with self._lock:
            if self._over:
                near.close()
                far.close()
                return
            self._open |= {near, far}
            self._count += 1
            stem = f"{self._name}-{self._count:04}"
        ends = threading.Semaphore(0)
        for way, source, target in (("up", near, far), ("down", far, near)):
            file = self._folder / f"{stem}.{way}"
            threading.Thread(target=self._copy, args=(source, target, file, ends), daemon=True).start()
        threading.Thread(target=self._forget, args=(near, far, ends), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, file: Path, ends: threading.Semaphore) -> None:
        kept = 0
        with suppress(OSError), file.open("wb", buffering=0) as record:
            while data := source.recv(_PIECE):
                record.write(data[: max(0, MAX_FILE_BYTES - kept)])
                kept += len(data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        ends.release()

    def _forget(self, near: socket.socket, far: socket.socket, ends: threading.Semaphore) -> None:
        ends.acquire()
        ends.acquire()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()
