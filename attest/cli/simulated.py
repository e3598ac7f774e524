"""What the commands make of the simulator: bundles, and a service on the loopback address."""

from __future__ import annotations

import sys
from base64 import encodebytes
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import click

from attest.cli.clock import now
from attest.cli.signals import stopped_by_signals
from attest.endorsements.bundle import BundleEntry, build_bundle
from attest.errors import ConfigurationError
from attest.simulator import SimulatedChip, SimulatedKds, simulated_crl

__all__ = ["kds_of_today", "serve_kds", "simulated_bundle"]

SOURCE = "SIMULATED"


def simulated_bundle(chip: SimulatedChip, *, at: datetime, days: int) -> bytes:
    """Return an endorsement bundle with everything about a chip, to be used from ``at`` for so many days."""
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


def serve_kds(port: int) -> int:
    """Serve the simulated service until interrupted; print its address when it is ready.

    Raises:
        ConfigurationError: ``address-in-use``.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler())
    except OSError as exc:
        raise ConfigurationError(
            f"cannot listen on 127.0.0.1 port {port}: {exc.strerror}",
            code="address-in-use",
            hint="take another port, or --port 0 for any",
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


def _handler() -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Passes path and query on, and sends back what comes out."""

        def do_GET(self) -> None:
            """Answer."""
            url = urlsplit(self.path)
            answer = kds_of_today().answer(url.path, url.query)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    return Handler


def kds_of_today() -> SimulatedKds:
    """Return the service with revocation lists of this calendar year."""
    year = now().year
    return SimulatedKds(this_update=datetime(year, 1, 1, tzinfo=UTC), next_update=datetime(year + 1, 1, 1, tzinfo=UTC))
