"""Server of the page on the loopback address, for the local user."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from attest.errors import ConfigurationError
from attest.page.files import PageFile

HOST: Final = "127.0.0.1"
TIMEOUT_SECONDS: Final = 10


def page_server(pages: Mapping[str, PageFile], *, port: int) -> ThreadingHTTPServer:
    """Listen on the loopback address for the files by path; port 0 selects any.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    handler: Callable[..., BaseHTTPRequestHandler] = partial(_Handler, pages)
    try:
        return _Server((HOST, port), handler)
    except OSError as exc:
        taken = exc.errno == errno.EADDRINUSE
        problem = os.strerror(exc.errno) if exc.errno else str(exc)
        raise ConfigurationError(
            f"cannot listen on {HOST} port {port}: {problem}",
            code="address-in-use" if taken else "address-unusable",
            field="--port",
            got=f"{HOST}:{port}",
            hint="another program has it; name another port with --port, or 0 for any",
        ) from exc


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Another program on the same port would get half of the requests.
    allow_reuse_port = False


class _Handler(BaseHTTPRequestHandler):
    """Handler of GET and HEAD for the files only."""

    protocol_version = "HTTP/1.1"
    server_version = "attest"
    sys_version = ""
    timeout = TIMEOUT_SECONDS

    def __init__(self, pages: Mapping[str, PageFile], *rest: object) -> None:
        self._pages = pages
        super().__init__(*rest)  # type: ignore[arg-type]  # request, address and server, as socketserver hands them over

    def do_GET(self) -> None:
        """Send a file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send a file's headers."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        # With another host name for this address, the page would belong to that name's origin.
        port = self.connection.getsockname()[1]
        if self.headers.get_all("host") not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
            self.send_error(421)
            return
        page = self._pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-type", page.media_type)
        self.send_header("content-length", str(len(page.body)))
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Log nothing, for the user's privacy."""
