"""Services of the commands: bundles, old firmware, and servers on the loopback address."""

from __future__ import annotations

import sys
from base64 import encodebytes
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from attest.clock import this_second
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.errors import ConfigurationError
from attest.terminal.signals import stopped_by_signals
from attest_simulator import SimulatedChip, SimulatedKds, simulated_crl
from attest_simulator.intel import SimulatedPcs, SimulatedPlatform

SOURCE = "SIMULATED"
MAX_BODY_BYTES = 1_000_000
"""An OCSP request has some hundred bytes."""


def simulated_bundle(chip: SimulatedChip, *, at: datetime, days: int) -> bytes:
    """Return a bundle with all endorsements of a chip, valid from ``at`` for a number of days."""
    leaf, *issuers = chip.certificates()
    chain = b"".join(map(_pem, issuers))
    last = at + timedelta(days=days)
    crls = dict.fromkeys(simulated_crl(chip.product, at=moment) for moment in (at, last))  # a list covers one year
    entries = (
        BundleEntry(kind="amd-vcek", source=SOURCE, data=leaf),
        BundleEntry(kind="amd-chain", source=SOURCE, data=chain),
        *(BundleEntry(kind="amd-crl", source=SOURCE, data=crl) for crl in crls),
    )
    return build_bundle(entries, created=at, expires=last).to_bytes()


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + encodebytes(der) + b"-----END CERTIFICATE-----\n"


class Answer(NamedTuple):
    """Answer of a service."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def serve_kds(port: int) -> int:
    """Serve a simulated AMD until interrupted; print its address first.

    Raises:
        ConfigurationError: ``address-in-use``.
    """

    def answer(path: str, query: str) -> Answer:
        found = kds_of_today().answer(path, query)
        return Answer(found.status, {"Content-Type": found.content_type}, found.body)

    return serve(port, answer)


def serve_pcs(port: int, *, platform: str) -> int:
    """Serve a simulated Intel in the form of a PCCS until interrupted; print its address first.

    Raises:
        ConfigurationError: ``address-in-use``.
    """

    def answer(path: str, query: str) -> Answer:
        service = SimulatedPcs.of(SimulatedPlatform.of(platform), at=this_second(), pccs=True)
        return Answer(*service.answer(path, query))

    return serve(port, answer)


def serve(port: int, get: Callable[[str, str], Answer], post: Callable[[str, bytes], Answer] | None = None) -> int:
    """Serve on 127.0.0.1 until interrupted; print the address first.

    Args:
        port: 0 selects any.
        get: answers GET requests by path and query.
        post: answers POST requests by path and body; None refuses them.

    Raises:
        ConfigurationError: ``address-in-use``.
    """
    return serve_handler(port, _handler(get) if post is None else _posting(_handler(get), post))


def serve_handler(port: int, handler: type[BaseHTTPRequestHandler]) -> int:
    """Serve on 127.0.0.1 with a given handler until interrupted; print the address first.

    Raises:
        ConfigurationError: ``address-in-use``.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as exc:
        raise ConfigurationError(
            f"cannot listen on 127.0.0.1 port {port}: {exc.strerror}",
            code="address-in-use",
            hint="choose another port, or --port 0 for any",
        ) from exc
    with server:
        click.echo(f"http://127.0.0.1:{server.server_port}")
        sys.stdout.flush()
        try:
            with stopped_by_signals():
                server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
    return 0


def _handler(answers: Callable[[str, str], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Handler of GET requests by path and query."""

        def do_GET(self) -> None:
            """Answer."""
            url = urlsplit(self.path)
            _send(self, answers(url.path, url.query))

    return Handler


def _posting(
    base: type[BaseHTTPRequestHandler], answers: Callable[[str, bytes], Answer]
) -> type[BaseHTTPRequestHandler]:
    class Handler(base):  # type: ignore[valid-type,misc]  # the class is an argument
        """Handler that also answers POST requests."""

        def do_POST(self) -> None:  # noqa: N802  http.server's own name
            """Answer; a body without a length, or a longer one than any request has, is refused."""
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() and len(length) < len(str(MAX_BODY_BYTES)) else 0
            _send(self, answers(urlsplit(self.path).path, self.rfile.read(size)))

    return Handler


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    handler.send_response(answer.status)
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(answer.body)))
    handler.end_headers()
    handler.wfile.write(answer.body)


def kds_of_today() -> SimulatedKds:
    """Return the service with revocation lists of this calendar year."""
    year = this_second().year
    return SimulatedKds(this_update=datetime(year, 1, 1, tzinfo=UTC), next_update=datetime(year + 1, 1, 1, tzinfo=UTC))
