"""A server of pages on the loopback address, until the user stops it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from attest.terminal.signals import stopped_by_signals

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


def serve_until_stopped(
    server: ThreadingHTTPServer, *, what: str, no_browser: bool, lines: tuple[str, ...] = ()
) -> None:
    """Print the address and more lines, open the browser, and serve."""
    from attest.page.server import HOST

    try:
        here = f"http://{HOST}:{server.server_port}/"
        for line in (f"{what}: {here}", *lines):
            click.echo(line)
        sys.stdout.flush()
        if not no_browser:
            click.launch(here)
        with stopped_by_signals():
            server.serve_forever()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    finally:
        server.server_close()
