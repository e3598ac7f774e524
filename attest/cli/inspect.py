"""``attest inspect``: the content of a file."""

from __future__ import annotations

import click

from attest.cli.documents import print_document
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

NOTICE = "nothing here was verified: this is the unauthenticated content of the file"


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest inspect report.bin                # every field of a report",
        "attest inspect vcek.pem crl.der          # certificates and revocation lists",
        "attest inspect token.jwt                 # header and claims of a token",
        "attest inspect envelope.json --json",
    ),
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@display_options
def inspect(inputs: tuple[str, ...], display: Display) -> int:
    """Show the content of evidence, tokens, certificates, revocation lists, certificate tables and bundles.

    Nothing is verified and nothing is concluded. '-' is standard input. Exit codes: 0 shown, 2 usage, 3 in no known
    form, malformed or not read by this version.
    """
    return show_files(inputs, display=display)


def show_files(inputs: tuple[str, ...], *, display: Display) -> int:
    """Describe files, and return 0; errors as ``inspection``."""
    from attest.cli.files import read_inputs
    from attest.cli.inspection import inspection
    from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES

    document = inspection(read_inputs(inputs, limit=MAX_BUNDLE_BYTES))
    if display.json:
        print_document(document)
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        click.echo(f"({NOTICE})\n")
        files = document["files"]
        for file in files if isinstance(files, list) else []:
            print_tree(file, display=display)
    return 0
