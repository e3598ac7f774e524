"""Somebody in between: ends TLS with a certificate of his own, and passes everything on to the service."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.kms.tls import Files


@contextmanager
def relaying(to: int, *, shown: Files, trusting: ssl.SSLContext, passed: list[bytes]) -> Iterator[int]:
    """Listen on a port of 127.0.0.1 until the block ends; what clients send is noted in the clear."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            with suppress(OSError):
                _pass_on(raw, context, to, trusting, passed)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def _pass_on(
    raw: socket.socket, context: ssl.SSLContext, to: int, trusting: ssl.SSLContext, passed: list[bytes]
) -> None:
    """One question and one answer, which is all that a client should get to before it finds out."""
    with (
        raw,
        context.wrap_socket(raw, server_side=True) as client,
        socket.create_connection(("127.0.0.1", to)) as plain,
        trusting.wrap_socket(plain, server_hostname="127.0.0.1") as service,
    ):
        client.settimeout(5)
        service.settimeout(1)
        while asked := client.recv(65536):
            passed.append(asked)
            service.sendall(asked)
            with suppress(TimeoutError):
                while answered := service.recv(65536):
                    client.sendall(answered)
