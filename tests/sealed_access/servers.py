"""Servers on the loopback address that keep files: honest ones, and ones that misbehave exactly as told."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from attest.sealed.ranges import RetryPolicy

MODIFIED = "Sat, 21 Nov 2026 00:00:00 GMT"


def hasty(**changes: object) -> RetryPolicy:
    """Patience that waits for nothing and always draws the same."""
    known: dict[str, object] = {"connections": 4, "attempts": 4, "read_seconds": 5.0, "connect_seconds": 5.0}
    return RetryPolicy(random=lambda: 0.5, sleep=lambda _: None, **{**known, **changes})  # type: ignore[arg-type]  # test


class BasicHandler(BaseHTTPRequestHandler):
    """Quiet, and on connections that stay open."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        pass

    def cut(self) -> None:
        """Drop the connection as a broken line would."""
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port; yields the address without a slash at its end."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Shelf:
    """What a range server keeps, and how it misbehaves.

    Attributes:
        files: path with its slash to content.
        etag: of every file; empty for none.
        modified: Last-Modified; empty for none.
        faults: one is taken for each request, first to last; None is an honest answer. A fault gets the handler, the
            content and the range and returns True when it has answered.
        seen: Range headers in the order of arrival.
        clients: where each of them came from.
    """

    files: dict[str, bytes]
    etag: str = '"one"'
    modified: str = MODIFIED
    faults: list[Callable[[BasicHandler, bytes, int, int], bool] | None] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    clients: list[tuple[str, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def handler(self) -> type[BasicHandler]:
        shelf = self

        class Handler(BasicHandler):
            def do_GET(self) -> None:
                with shelf.lock:
                    shelf.seen.append((self.path, dict(self.headers.items())))
                    shelf.clients.append(self.client_address)
                    fault = shelf.faults.pop(0) if shelf.faults else None
                content = shelf.files.get(self.path.partition("?")[0])
                if content is None:
                    answer(self, 404)
                    return
                start, stop = wanted(self, len(content))
                if fault is not None and fault(self, content, start, stop):
                    return
                if_range = self.headers.get("If-Range")
                if self.headers.get("Range") is None or (
                    if_range is not None and if_range not in {shelf.etag, shelf.modified}
                ):
                    answer(self, 200, content)
                elif start >= len(content):
                    answer(self, 416, headers={"Content-Range": f"bytes */{len(content)}"})
                else:
                    honest(self, content, start, stop, shelf=shelf)

        return Handler


def wanted(handler: BasicHandler, size: int) -> tuple[int, int]:
    match = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", handler.headers.get("Range", ""))
    return (int(match[1]), min(size, int(match[2]) + 1)) if match else (0, size)


def validators(shelf: Shelf) -> dict[str, str]:
    named = {"ETag": shelf.etag, "Last-Modified": shelf.modified}
    return {name: value for name, value in named.items() if value}


def honest(handler: BasicHandler, content: bytes, start: int, stop: int, *, shelf: Shelf) -> None:
    stated = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}", **validators(shelf)}
    answer(handler, 206, content[start:stop], headers=stated)


def answer(
    handler: BasicHandler,
    status: int,
    body: bytes = b"",
    *,
    headers: dict[str, str] | None = None,
    length: int | None = None,
    sent: int | None = None,
) -> None:
    """Answer; with ``sent`` only so many bytes of the body go out before the line breaks."""
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body if sent is None else body[:sent])
    if sent is not None and isinstance(handler, BasicHandler):
        handler.cut()
