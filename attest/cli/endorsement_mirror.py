"""``attest endorsements serve``: a mirror of the vendors' services, from bundles and the cache."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import click

from attest.cli.documents import print_document
from attest.cli.endorsement_fetch import service_key
from attest.cli.files import read_inputs
from attest.cli.options import Network
from attest.clock import this_second
from attest.encoding import rfc3339_text
from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES, BundleEntry
from attest.endorsements.requests import (
    AmdChainRequest,
    AmdCrlRequest,
    AmdVcekRequest,
    EndorsementRequest,
    NvidiaRimRequest,
)
from attest.errors import EndorsementError
from attest.fetch import EndorsementCache, FetchClocks, default_cache_directory
from attest.fetch.answers import CheckedAnswer
from attest.fetch.devices import VendorServices, vendor_services
from attest.fetch.fetch_session import EndorsementSource, FetchSession
from attest.fetch.mirror import Mirror, Obtain
from attest.fetch.mirror_server import mirror_server
from attest.terminal.display import Display
from attest.terminal.signals import stopped_by_signals
from attest.terminal.visible_text import visible


def serve_mirror(
    bundles: tuple[str, ...], *, bind: str, port: int, fetch: bool, network: Network, display: Display
) -> None:
    """Serve what bundles and the cache have, until the user stops it."""
    directory = Path(network.cache) if network.cache is not None else default_cache_directory(os.environ)
    cache = EndorsementCache(directory)
    with ExitStack() as stack:
        obtain = obtainer(stack.enter_context(_services(network)), cache) if fetch else None
        mirror = Mirror([*_entries(bundles, display), *cache.entries()], obtain=obtain)
        if mirror.unusable:
            display.warn(f"{mirror.unusable} entries are not what their kind says, and are not served")
        if not len(mirror) and not fetch:
            display.warn("there is nothing to serve: name a bundle, or fill the cache with 'attest endorsements fetch'")
        server = stack.enter_context(mirror_server(mirror, host=bind, port=port, said=_said(display)))
        _print_ready(display, mirror, host=bind, port=server.server_port, fetch=fetch)
        try:
            with stopped_by_signals():
                server.serve_forever()
        except KeyboardInterrupt:
            if not display.quiet:
                click.echo("ended", err=True)


def _entries(bundles: tuple[str, ...], display: Display) -> Iterator[BundleEntry]:
    for name, data in read_inputs(bundles, limit=MAX_BUNDLE_BYTES) if bundles else ():
        bundle = parse_bundle(data)
        if bundle.expires <= this_second():
            display.warn(f"{name} expired at {rfc3339_text(bundle.expires)}; it is served all the same")
        yield from bundle.entries


def _services(network: Network) -> AbstractContextManager[VendorServices]:
    return vendor_services(
        FetchClocks(now=this_second),
        random=secrets.token_bytes,
        kds=network.kds or None,
        pcs=network.pcs or None,
        pcs_update=network.pcs_update,
        rims=network.rim_url or None,
        ocsp=network.ocsp_url or None,
        service_key=service_key(network),
    )


def obtainer(services: VendorServices, cache: EndorsementCache) -> Obtain:
    """Return a function that fetches what is missing or not current, and keeps it in the cache."""

    def obtain(request: EndorsementRequest, found: CheckedAnswer | None) -> CheckedAnswer | None:
        at = this_second()
        if found is not None and found.is_current(at):
            return None
        session = FetchSession(source=_source(services, request), at=at, cache=cache)
        try:
            session.fetch(request)
        except EndorsementError:
            if found is None:
                raise
            return None  # an old answer is better than none: its dates say what it is
        return session.answered(request)

    return obtain


def _source(services: VendorServices, request: EndorsementRequest) -> EndorsementSource:
    if isinstance(request, AmdVcekRequest | AmdChainRequest | AmdCrlRequest):
        return services.amd
    return services.rims if isinstance(request, NvidiaRimRequest) else services.intel


def _said(display: Display) -> Callable[[str], None]:
    if not display.verbose:
        return lambda _: None
    return lambda line: click.echo(visible(line), err=True)


def _print_ready(display: Display, mirror: Mirror, *, host: str, port: int, fetch: bool) -> None:
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if display.json:
        print_document({"schema": "attest.mirror/1", "address": address, "answers": len(mirror), "fetch": fetch})
    else:
        more = ", and fetches what is missing" if fetch else ""
        click.echo(f"{address} serves {len(mirror)} endorsements{more}")
    sys.stdout.flush()
