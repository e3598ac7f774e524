"""What the commands make of the simulator: bundles, old firmware, and services on the loopback address."""

from __future__ import annotations

import sys
from base64 import encodebytes
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from attest.cli.clock import now
from attest.cli.signals import stopped_by_signals
from attest.endorsements.bundle import BundleEntry, build_bundle
from attest.errors import ConfigurationError
from attest.simulator import SimulatedChip, SimulatedKds, simulated_crl
from attest.simulator.intel import SimulatedPcs, SimulatedPlatform

__all__ = ["kds_of_today", "out_of_date", "serve_kds", "serve_pcs", "simulated_bundle"]

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


def out_of_date(platform: SimulatedPlatform, *, at: datetime) -> SimulatedPlatform:
    """Return the same platform with the firmware of the second TDX level that Intel lists, which is OutOfDate."""
    level = platform.tcb_info("tdx", at=at).levels[1]
    svns = tuple(component.svn for component in level.sgx)
    loader_and_rest = bytes(component.svn for component in level.tdx or ())[2:]  # the first two are the module's
    return replace(
        platform,
        sgx=replace(platform.sgx, components=svns, cpu_svn=bytes(svns), pce_svn=level.pce_svn),
        tee_tcb_svn=platform.tee_tcb_svn[:2] + loader_and_rest,
    )


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + encodebytes(der) + b"-----END CERTIFICATE-----\n"


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def serve_kds(port: int) -> int:
    """Serve a simulated AMD until interrupted; print its address when it is ready.

    Raises:
        ConfigurationError: ``address-in-use``.
    """

    def answer(path: str, query: str) -> _Answer:
        found = kds_of_today().answer(path, query)
        return _Answer(found.status, {"Content-Type": found.content_type}, found.body)

    return _serve(port, answer)


def serve_pcs(port: int, *, platform: str) -> int:
    """Serve a simulated Intel, as the PCCS of a data centre does, until interrupted; print its address when ready.

    Raises:
        ConfigurationError: ``address-in-use``.
    """

    def answer(path: str, query: str) -> _Answer:
        service = SimulatedPcs.of(SimulatedPlatform.of(platform), at=now(), pccs=True)
        return _Answer(*service.answer(path, query))

    return _serve(port, answer)


def _serve(port: int, answer: Callable[[str, str], _Answer]) -> int:
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(answer))
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


def _handler(answers: Callable[[str, str], _Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Passes path and query on, and sends back what comes out."""

        def do_GET(self) -> None:
            """Answer."""
            url = urlsplit(self.path)
            answer = answers(url.path, url.query)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    return Handler


def kds_of_today() -> SimulatedKds:
    """Return the service with revocation lists of this calendar year."""
    year = now().year
    return SimulatedKds(this_update=datetime(year, 1, 1, tzinfo=UTC), next_update=datetime(year + 1, 1, 1, tzinfo=UTC))
