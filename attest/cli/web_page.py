"""``attest page``: the attestation check of a service in the browser, by a page from this computer."""

from __future__ import annotations

import click

from attest.terminal.lazy_commands import ExampleCommand


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest page https://rag.example                     # opens the page, served from this computer",
        "attest page https://rag.example --name rag.example --port 8470 --no-browser",
        "attest page --digest                                # of the page that this version has",
    ),
)
@click.argument("url", required=False)
@click.option("--name", metavar="NAME", help="Name of the service in its evidence. Default: the name that it states.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8470,
    show_default=True,
    help="Port on 127.0.0.1; 0: any free port.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--digest", is_flag=True, help="Print the SHA-256 of the page's manifest, and exit.")
def page(*, url: str | None, name: str | None, port: int, no_browser: bool, digest: bool) -> None:
    """Check a service in the browser, by a page that comes from this computer.

    The service cannot change the page. The page sends requests across origins, and nothing confidential until
    you accept what the machine is. Policies are kept by the browser for 127.0.0.1 and this port.
    """
    from attest.cli.local_server import serve_until_stopped
    from attest.page import page_digest, page_files
    from attest.page.server import page_server

    if digest:
        click.echo(page_digest())
        return
    if url is None:
        raise click.UsageError("give the address of the service, or --digest")
    server = page_server(page_files(service=url, name=name), port=port)
    serve_until_stopped(server, what="page", no_browser=no_browser, lines=(f"digest: {page_digest()}",))
