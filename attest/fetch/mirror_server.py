"""An HTTP server for a mirror of the vendors' services: read-only, with limits of time, number and size."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from email.message import Message
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, TypeAlias

from attest.concurrency import ConcurrencyLimit
from attest.errors import AttestError
from attest.fetch.mirror import MAX_OCSP_REQUEST_BYTES, Mirror
from attest.fetch.mirror_paths import OCSP_REQUEST_TYPE, WireAnswer, read_path
from attest.listening_socket import AddressFields, listen
from attest.paced_listener import PacedListener, reset
from attest.rate_limits import Rate, RateTable, caller_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BACKLOG: Final = 128
CONNECTIONS: Final = 128
"""Open connections, each with a thread."""
CONNECTIONS_EACH: Final = 64
"""Open connections of one address (of IPv6: of one /64)."""
CONNECTION_RATE: Final = Rate(per_second=100.0, burst=200)
"""Connections of one address."""
REQUEST_SECONDS: Final = 10.0
"""Limit for the arrival of one request, from the last answer on."""
ANSWER_SECONDS: Final = 30.0
MAX_TARGET_CHARACTERS: Final = 2048

Said = Callable[[str], None]
_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int]


def mirror_server(mirror: Mirror, *, host: str, port: int, said: Said = lambda _: None) -> ThreadingHTTPServer:
    """Listen for requests to a mirror; port 0 takes any.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    fields = AddressFields(
        host="--bind",
        port="--port",
        other_host="name an address of this machine with --bind",
        other_port="another program has it; name another port with --port, or 0 for any",
    )
    sock = listen(host, port, backlog=BACKLOG, fields=fields)
    paced = PacedListener(sock, rates=RateTable(CONNECTION_RATE), monotonic=time.monotonic)
    return _Server(paced, partial(_Handler, mirror, said))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, sock: socket.socket, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        super().__init__(sock.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()  # made by the base class, for another family perhaps
        self.socket = sock
        self.server_port = sock.getsockname()[1]
        self._places = ConcurrencyLimit(total=CONNECTIONS, each=CONNECTIONS_EACH)

    def process_request(self, request: socket.socket, client_address: _Address) -> None:  # type: ignore[override]
        """Answer a connection in a thread, or reset it if there are too many."""
        caller = caller_of(str(client_address[0]))
        if not self._places.acquire(caller):
            reset(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: _Address) -> None:  # type: ignore[override]
        """Answer a connection, and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release(caller_of(str(client_address[0])))

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a broken connection, which affects its client alone."""


class _TimedReader(io.RawIOBase):
    """Bytes of a connection up to a moment, however slowly they arrive."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.restart()

    def restart(self) -> None:
        """Give the next request its time."""
        self._deadline = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read some bytes.

        Raises:
            TimeoutError: the time is over.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    """Handler of GET, HEAD and OCSP's POST."""

    protocol_version = "HTTP/1.1"
    server_version = "attest"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def __init__(self, mirror: Mirror, said: Said, *rest: object) -> None:
        self._mirror = mirror
        self._said = said
        super().__init__(*rest)  # type: ignore[arg-type]  # request, address and server, as socketserver hands them over

    def setup(self) -> None:
        """Put the time limit under the reader."""
        super().setup()
        self.rfile.close()
        self._timed = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._timed)

    def handle_one_request(self) -> None:
        """Answer one request within its time."""
        self._timed.restart()
        super().handle_one_request()

    def do_GET(self) -> None:
        """Send an answer."""
        self._get()

    def do_HEAD(self) -> None:
        """Send an answer's headers."""
        self._get()

    def do_POST(self) -> None:
        """Send an OCSP answer."""
        length = self.headers.get("content-length", "")
        if self.headers.get("transfer-encoding") is not None or not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif len(length) > 9 or int(length) > MAX_OCSP_REQUEST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._post(self.rfile.read(int(length)))

    def _post(self, body: bytes) -> None:
        if self.path != "/":
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        if _media_type(self.headers) != OCSP_REQUEST_TYPE:
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return
        try:
            found = self._mirror.ocsp_answer(body)
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._answer(WireAnswer(body=found, media_type="application/ocsp-response"))

    def _get(self) -> None:
        path = read_path(self.path) if len(self.path) <= MAX_TARGET_CHARACTERS else None
        if path is None or "content-length" in self.headers or "transfer-encoding" in self.headers:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            found = self._mirror.answer(path)
        except AttestError as exc:
            self._said(f"{exc.code}: {exc.message}")
            self._refuse(HTTPStatus.NOT_FOUND if exc.code.endswith("-not-found") else HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._answer(found)

    def _answer(self, found: WireAnswer) -> None:
        tag = _tag(found)
        fresh = tag in [one.strip().removeprefix("W/") for one in self.headers.get("if-none-match", "").split(",")]
        unchanged = fresh and self.command != "POST"
        self.connection.settimeout(ANSWER_SECONDS)
        self.send_response(HTTPStatus.NOT_MODIFIED if unchanged else HTTPStatus.OK)
        self.send_header("ETag", tag)
        if not unchanged:
            for name, value in found.headers:
                self.send_header(name, value)
            self.send_header("Content-Type", found.media_type)
            self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        if self.command != "HEAD" and not unchanged:
            self.wfile.write(found.body)

    def _refuse(self, status: HTTPStatus) -> None:
        """Refuse a request; its body, if it has one, stays unread, so the connection ends."""
        self.connection.settimeout(ANSWER_SECONDS)
        self.send_error(status)
        self.close_connection = True

    def log_request(self, code: object = "-", size: object = "-") -> None:  # noqa: ARG002  as the base class
        """Report a request."""
        status = code.value if isinstance(code, HTTPStatus) else code
        self._said(f"{self.client_address[0]} {self.requestline} {status}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Report nothing else."""


def _media_type(headers: Message) -> str:
    return str(headers.get("content-type", "")).partition(";")[0].strip().lower()


def _tag(found: WireAnswer) -> str:
    digest = sha256(found.body)
    for name, value in found.headers:
        digest.update(f"\n{name}: {value}".encode())
    return f'"{digest.hexdigest()}"'
