"""``attest docs``: the documentation of this version."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.shipped.documentation import DocumentationPage

DOCUMENTATION_SCHEMA = "attest.documentation/1"
PAGE_SCHEMA = "attest.documentation-page/1"


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest docs                                         # lists the pages",
        "attest docs getting-started",
        "attest docs checks#snp.root                         # what a check demands, and what to do when it fails",
        "attest docs --serve                                 # opens them in the browser, from this computer",
    ),
)
@click.argument("page", required=False)
@click.option("--serve", is_flag=True, help="Serve all pages on 127.0.0.1, and open them in the browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8471, show_default=True, help="Port for --serve; 0 for any."
)
@click.option("--no-browser", is_flag=True, help="With --serve, do not open a browser.")
@display_options
def docs(*, page: str | None, serve: bool, port: int, no_browser: bool, display: Display) -> None:
    """Show the documentation that fits this version; without PAGE, list its pages. PAGE#PART shows one part.

    A terminal gets formatted text, a file or a pipe gets Markdown. No network is used.
    """
    from attest.shipped import pages

    if serve:
        if page is not None:
            raise click.UsageError("--serve serves every page: omit PAGE")
        _serve(port=port, no_browser=no_browser)
        return
    found = pages()
    if page is None:
        _list(tuple(found.values()), display=display)
        return
    named, _, anchor = page.partition("#")
    name = named.removesuffix(".md").removeprefix("docs/")
    if name not in found:
        from difflib import get_close_matches

        near = get_close_matches(name, found, n=1)
        raise click.UsageError(f"no page is called {named!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    _print(_at(found[name], anchor) if anchor else found[name], display=display)


def _at(page: DocumentationPage, anchor: str) -> DocumentationPage:
    """Return a page with one part of its text alone."""
    from attest.shipped.parts import part_of

    text = part_of(page.text, anchor)
    if text is None:
        raise click.UsageError(f"the page {page.name!r} has no part {anchor!r}")
    return replace(page, text=text)


def _list(found: tuple[DocumentationPage, ...], *, display: Display) -> None:
    if display.json:
        from attest.cli.documents import print_document

        listed: list[JsonValue] = [{"name": one.name, "title": one.title} for one in found]
        print_document({"schema": DOCUMENTATION_SCHEMA, "pages": listed})
        return
    width = max(len(one.name) for one in found)
    for one in found:
        click.echo(f"{one.name:{width}}  {one.title}")


def _print(page: DocumentationPage, *, display: Display) -> None:
    if display.json:
        from attest.cli.documents import print_document

        print_document({"schema": PAGE_SCHEMA, "name": page.name, "title": page.title, "text": page.text})
        return
    if not sys.stdout.isatty():
        click.echo(page.text, nl=False)
        return
    from rich.markdown import Markdown

    from attest.terminal.console import text_console

    out = text_console(display)
    with out.capture() as formatted:
        out.print(Markdown(page.text))
    click.echo_via_pager(formatted.get(), color=out.color_system is not None)


def _serve(*, port: int, no_browser: bool) -> None:
    from attest import __version__
    from attest.cli.local_server import serve_until_stopped
    from attest.page.server import page_server
    from attest.shipped import documentation_files

    server = page_server(documentation_files(version=__version__), port=port)
    serve_until_stopped(server, what="documentation", no_browser=no_browser)
