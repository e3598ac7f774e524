"""``attest page``: the attestation check of a service or of files in the browser, by a page from this computer."""

from __future__ import annotations

from pathlib import Path

import click

from attest.terminal.lazy_commands import ExampleCommand


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest page https://rag.example                     # opens the page, served from this computer",
        "attest page https://rag.example --name rag.example --port 8470 --no-browser",
        "attest page                                         # checks files of evidence, without a service",
        "attest page --write ./evidence-page                 # the same page as files, for any web server",
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
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the page without a service into this folder, and exit. An earlier version of it is replaced.",
)
@click.option("--digest", is_flag=True, help="Print the SHA-256 of the page's manifest, and exit.")
def page(*, url: str | None, name: str | None, port: int, no_browser: bool, folder: Path | None, digest: bool) -> None:
    """Check a service, or files of evidence, in the browser, by a page that comes from this computer.

    The service cannot change the page. The page sends requests across origins, and nothing confidential until
    you accept what the machine is. Policies are kept by the browser for 127.0.0.1 and this port.

    Without URL the page checks the files that you drop on it, and connects to nothing.
    """
    from attest.cli.local_server import serve_until_stopped
    from attest.page import evidence_page_files, page_digest, page_files
    from attest.page.server import page_server

    if digest:
        click.echo(page_digest())
        return
    if url is None and name is not None:
        raise click.UsageError("--name is for a service: give its address")
    if url is not None and folder is not None:
        raise click.UsageError("--write is for the page without a service: give no address")
    if folder is not None:
        _write(folder)
        return
    pages = evidence_page_files() if url is None else page_files(service=url, name=name)
    server = page_server(pages, port=port)
    serve_until_stopped(server, what="page", no_browser=no_browser, lines=(f"digest: {page_digest()}",))


def _write(folder: Path) -> None:
    from attest.files import output_errors, require_absent, write_result
    from attest.page import evidence_page_files, page_digest

    document = folder / "index.html"
    if not _is_ours(document):
        require_absent(document, hint="it is another page: name a folder of its own")
    with output_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    # The document last: it names its parts.
    for path, file in sorted(evidence_page_files().items(), reverse=True):
        write_result(folder / (path.removeprefix("/") or "index.html"), file.body, replace=True)
    click.echo(f"page: {document}")
    click.echo(f"digest: {page_digest()}")


def _is_ours(document: Path) -> bool:
    """Return True for a page that an earlier ``--write`` left, of whatever version."""
    from attest.named_files import read_bounded

    try:
        return b'src="evidence.js"' in read_bounded(document, 1 << 20)
    except OSError:
        return False
