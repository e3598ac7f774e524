"""What a connection tells of its requests: whose certificate it has, and when a head has to be there."""

import ast
import asyncio
import gc
import json
import select
import socket
import ssl
import threading
import time
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from attest import http_protocol
from attest.http_protocol import EmbeddedServer, PatientLoop, WaitingConnections, expecting_heads
from attest.paced_listener import PacedListener
from attest.rate_limits import Rate, RateTable
from kms.admin_api.listener import with_certificate
from kms.running.process import Listener, connection_rate
from tests.conftest import REPOSITORY
from tests.kms.pki import Issued, authority, server_context
from tests.kms.support import settings_for

pytestmark = pytest.mark.loopback
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CA = authority("clients")


async def whose(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the digest of the client's certificate, after others had their turn."""
    await asyncio.sleep(0.01)
    certificate = scope["extensions"]["tls"]["client_certificate"]
    body = b"nobody" if certificate is None else sha256(certificate).hexdigest().encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(tls: ssl.SSLContext | None, app: ASGIApp = whose, *, sock: socket.socket | None = None) -> Iterator[int]:
    with sock or socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        config = uvicorn.Config(
            expecting_heads(with_certificate(app)),
            log_config=None,
            http="h11",
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )
        server = EmbeddedServer(config)

        def run() -> None:
            with asyncio.Runner(loop_factory=PatientLoop) as runner:
                runner.run(server.serve([listener]))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(10)


def client(folder: Path, issued: Issued | None, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority().write(folder))
    if issued is not None:
        context.load_cert_chain(*issued.write(folder, name))
    return context


def listening(folder: Path) -> ssl.SSLContext:
    context = server_context(folder)
    context.load_verify_locations(CA.write(folder, "clients"))
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def answers(connection: socket.socket, count: int) -> list[str]:
    """Read until so many whole answers are there, or the end."""
    read = b""
    while len(bodies(read)) < count and (piece := connection.recv(4096)):
        read += piece
    return bodies(read)


def bodies(read: bytes) -> list[str]:
    """Return the bodies that are whole."""
    found = []
    for part in read.split(b"HTTP/1.1 200")[1:]:
        head, _, body = part.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().splitlines() if b"content-length" in line), -1)
        if len(body) == length:
            found.append(body.decode())
    return found


def digest(issued: Issued) -> str:
    return sha256(issued.der).hexdigest()


def test_each_request_has_the_certificate_of_its_own_connection(tmp_path: Path) -> None:
    """Requests of three clients at once, two of them sent together, on connections that stay open."""
    alice, bob = CA.issue("alice"), CA.issue("bob")
    wanted = [digest(alice), digest(bob), "nobody"]
    with served(listening(tmp_path)) as port:
        connections = [
            client(tmp_path, issued, name).wrap_socket(
                socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="localhost"
            )
            for name, issued in (("alice", alice), ("bob", bob), ("nobody", None))
        ]
        try:
            for together in (1, 2, 1):
                for connection in connections:
                    connection.sendall(REQUEST * together)
                assert [answers(connection, together) for connection in connections] == [
                    [one] * together for one in wanted
                ]
        finally:
            for connection in connections:
                connection.close()


def test_without_tls_no_request_has_a_certificate() -> None:
    with served(None) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Client-Certificate: alice\r\n\r\n")
        assert answers(connection, 1) == ["nobody"]


def test_an_application_outside_of_such_a_connection_has_no_certificate() -> None:
    assert http_protocol.client_certificate() is None


def test_a_head_that_begins_while_a_request_is_answered_is_not_waited_for_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.5)
    with served(None) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(REQUEST)
        assert answers(connection, 1) == ["nobody"]
        begun = time.monotonic()
        connection.sendall(REQUEST[:10])
        assert connection.recv(4096) == b""
        assert time.monotonic() - begun < 10


def closed(connection: socket.socket) -> None:
    """Wait until the server has closed a connection, without reading what it sent."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    assert poll.poll(30_000), "the server keeps the connection"


def test_connections_that_never_finish_a_handshake_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of them is closed for each that is too many; the handshake of an honest client completes."""
    monkeypatch.setattr(http_protocol, "WaitingConnections", partial(WaitingConnections, total=8, each=8))
    with served(listening(tmp_path)) as port, ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(24)]
        honest = stack.enter_context(
            client(tmp_path, None, "nobody").wrap_socket(
                socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="localhost"
            )
        )
        honest.sendall(REQUEST)
        assert answers(honest, 1) == ["nobody"]
        for one in held[:16]:
            closed(one)


def test_an_unfinished_handshake_leaves_no_buffers_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's TLS has buffers of 256 KiB for each connection; they do not wait for the garbage collector."""
    monkeypatch.setattr(http_protocol, "WaitingConnections", partial(WaitingConnections, total=4, each=4))
    gc.collect()
    gc.disable()
    try:
        with served(listening(tmp_path)) as port, ExitStack() as stack:
            held = []
            for _ in range(24):
                held.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)))
                held[-1].sendall(b"\x16\x03\x01\x02\x00")
                if len(held) > 4:
                    closed(held[-5])
            until(lambda: _secured() == 4)
    finally:
        gc.enable()


def _secured() -> int:
    return sum(isinstance(one, sslproto.SSLProtocol) for one in gc.get_objects())


def until(true: Callable[[], bool]) -> None:
    """Wait for another thread's work."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_connections_above_the_rate_of_their_address_cost_no_handshake(tmp_path: Path) -> None:
    sock, refused = socket.create_server(("127.0.0.1", 0)), list[None]()
    paced = PacedListener(
        sock,
        rates=RateTable(Rate(per_second=0.001, burst=2)),
        monotonic=time.monotonic,
        refused=lambda: refused.append(None),
    )
    with served(listening(tmp_path), sock=paced) as port, ExitStack() as stack:
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        honest = stack.enter_context(
            client(tmp_path, None, "nobody").wrap_socket(
                socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="localhost"
            )
        )
        honest.sendall(REQUEST)
        assert answers(honest, 1) == ["nobody"]
        for _ in range(20):
            with (
                suppress(ConnectionResetError),
                socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
            ):
                assert connection.recv(1) == b""
        until(lambda: len(refused) == 20)
        honest.sendall(REQUEST)
        assert answers(honest, 1) == ["nobody"], "a connection that is open stays open"


@pytest.mark.parametrize(
    ("requests", "connections", "rate"),
    [(100, 50, Rate(per_second=50, burst=200)), (0, 50, None), (100, 0, None)],
)
def test_a_listener_is_paced_unless_a_proxy_limits(
    tmp_path: Path, requests: int, connections: int, rate: Rate | None
) -> None:
    changes = {"client_requests_per_second": requests, "client_connections_per_second": connections}
    assert connection_rate(settings_for(tmp_path, **changes)) == rate
    sock = socket.create_server(("127.0.0.1", 0))
    with Listener(app=whose, sock=sock, connections=1, rate=rate).paced() as paced:
        assert isinstance(paced, PacedListener) is (rate is not None)
        assert paced.getsockname()[1] > 0


def test_a_handshake_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HANDSHAKE_SECONDS", 0.3)
    with (
        served(listening(tmp_path)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(b"\x16\x03\x01\x02\x00")  # the first bytes of a ClientHello
        closed(connection)


def test_bytes_that_are_no_handshake_end_the_connection(tmp_path: Path) -> None:
    with (
        served(listening(tmp_path)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(REQUEST)
        with suppress(ConnectionResetError):
            while connection.recv(4096):
                pass


def test_of_each_address_only_so_many_connections_wait_and_the_oldest_goes_first() -> None:
    waiting = WaitingConnections(total=4, each=2)
    ended: list[str] = []

    class Named(http_protocol.PatientProtocol):
        def __init__(self, name: str) -> None:
            super().__init__(asyncio.Protocol(), waiting=waiting)
            self.name = name

        def abort(self) -> None:
            ended.append(self.name)

    made = [Named(name) for name in "abcdefg"]
    for one, address in zip(made, ("x", "x", "x", "y", "z", "z", "y"), strict=True):
        waiting.add(one, address)
    assert ended == ["a", "b", "c"], "a: too many of x; b and c: too many in all, the oldest first"
    assert len(waiting) == 4
    for one in made:
        waiting.remove(one)
        waiting.remove(one)
    assert len(waiting) == 0


@pytest.mark.parametrize("secure", [False, True])
def test_an_answer_that_its_client_does_not_read_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, secure: bool
) -> None:
    """Requests sent together, whose answers fill every buffer: the server waits, but not for ever."""
    monkeypatch.setattr(http_protocol, "ANSWER_SECONDS", 0.3)
    with served(listening(tmp_path) if secure else None, app=large) as port:
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        with (
            client(tmp_path, None, "nobody").wrap_socket(plain, server_hostname="localhost") if secure else plain
        ) as connection:
            connection.sendall(REQUEST * 8)
            closed(connection)


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with 8 MiB, more than the buffers of both systems hold."""
    body = bytes(8 << 20)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def test_a_client_that_reads_slowly_but_reads_gets_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "ANSWER_SECONDS", 20.0)
    with served(None, app=large) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(REQUEST * 2)
        wanted = 2 * (8 << 20)
        read = 0
        while read < wanted:
            piece = connection.recv(1 << 16)
            assert piece, f"cut after {read} bytes"
            read += len(piece)


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_request_whose_end_is_ambiguous_is_refused_and_its_connection_closed(head: bytes) -> None:
    """RFC 9112, section 6.1: what follows may be a second request to one reader, and a body to another."""
    with served(None) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head + b"0\r\n\r\n" + REQUEST)
        read = b""
        while piece := connection.recv(4096):
            read += piece
        assert read.startswith(b"HTTP/1.1 400"), read[:80]
        assert b"HTTP/1.1 200" not in read, "the rest is no second request"
        assert json.loads(read.partition(b"\r\n\r\n")[2])["code"] == "request-malformed"


def test_of_uvicorn_nothing_is_used_but_its_configuration_and_its_server() -> None:
    used = set()
    for package in ("attest", "kms", "rag_demo"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "uvicorn":
                    used.add(f"{path}: from {node.module}")
                if isinstance(node, ast.Import):
                    used |= {one.name for one in node.names if one.name.startswith("uvicorn.")}
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "uvicorn":
                    used.add(node.attr)
    assert used == {"Config", "Server"}
