"""``attest sealed ls`` and ``attest sealed cat``: sealed models at any location, without a local copy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import click

from attest.cli.documents import print_document
from attest.cli.model_keys import MODEL_ID, TRUST, KeyOptions, model_key_options, trusted_keys
from attest.cli.place_options import PlaceOptions, place_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.sealed import SealedReader

LISTED_SCHEMA = "attest.sealed-files/1"


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest sealed ls my-model.sealed --trust owner.pub",
        "attest sealed ls https://models.example/my-model --trust owner.pub --json",
        "attest sealed ls s3://models/my-model weights --trust owner.pub",
    ),
)
@click.argument("model", metavar="PLACE")
@click.argument("folder", metavar="[FOLDER]", required=False, default="")
@TRUST
@MODEL_ID
@place_options
@display_options
def ls(
    *,
    model: str,
    folder: str,
    trust: tuple[str, ...],
    model_id: bytes | None,
    access: PlaceOptions,
    display: Display,
) -> int:
    """List the files of a sealed model, with their sizes. It is verified first; no key is needed.

    PLACE is a folder or an address (https:, s3:, az:, gs:, oci:).
    """
    from attest.errors import ConfigurationError
    from attest.sealed import verify_directory

    with access.opened(model) as store:
        manifest = verify_directory(store, trusted=trusted_keys(trust), model=model_id).manifest
    prefix = f"{folder.rstrip('/')}/" if folder else ""
    files = [one for one in manifest.files if one.path.startswith(prefix) or one.path == folder]
    if folder and not files:
        raise ConfigurationError(
            f"the model has nothing called {folder[:200]!r}",
            code="sealed-folder-unknown",
            field=folder[:200],
            hint="leave FOLDER out to list everything",
        )
    if display.json:
        rows: list[JsonValue] = [{"path": one.path, "size": one.size} for one in files]
        print_document({"schema": LISTED_SCHEMA, "model": manifest.model.hex(), "files": rows})
        return 0
    from attest.terminal.visible_text import visible

    width = max((len(str(one.size)) for one in files), default=0)
    for one in files:
        click.echo(f"{one.size:>{width}}  {visible(one.path)}")
    return 0


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest sealed cat my-model.sealed config.json --trust owner.pub --key-file model.key | jq .",
        "attest sealed cat https://models.example/m tokenizer.json --trust owner.pub --kms … --identity … > /dev/shm/t",
        "attest sealed cat s3://models/m weights.bin --offset 1000000 --length 512 --trust owner.pub --key-file … | od",
    ),
)
@click.argument("model", metavar="PLACE")
@click.argument("path", metavar="PATH")
@click.option("--offset", type=click.IntRange(min=0), metavar="N", default=0, help="Start at this byte.")
@click.option("--length", type=click.IntRange(min=0), metavar="N", help="Maximum number of bytes.")
@TRUST
@MODEL_ID
@place_options
@model_key_options
def cat(
    *,
    model: str,
    path: str,
    offset: int,
    length: int | None,
    trust: tuple[str, ...],
    model_id: bytes | None,
    access: PlaceOptions,
    key_from: KeyOptions,
) -> int:
    """Write a file of a sealed model, or a range of it, to a pipe or a file; never to a terminal.

    The model is verified before its key is asked for, and each MiB before it is written. When the exit code is not 0,
    what was written is not the whole of it.
    """
    from attest.errors import ConfigurationError
    from attest.sealed import open_directory

    key_from.require_one()
    if standard_output().isatty():
        raise ConfigurationError(
            "a file of a model is not written to a terminal",
            code="output-terminal",
            hint="send it to a program or a file: attest sealed cat … | less",
        )
    trusted = trusted_keys(trust)
    with (
        access.opened(model) as store,
        open_directory(store, key=key_from.for_opening, trusted=trusted, model=model_id) as directory,
        directory.open(path) as reader,
    ):
        _write(reader, offset, length, display=key_from.display)
    return 0


def _write(reader: SealedReader, offset: int, length: int | None, *, display: Display) -> None:
    from attest.terminal.progress import shown_progress

    begin = min(offset, reader.size)
    end = reader.size if length is None else min(reader.size, begin + length)
    out = standard_output().buffer
    with shown_progress("reading", end - begin, quiet=display.quiet) as progress:

        def write(piece: memoryview) -> None:
            out.write(piece)
            progress(reader.name, piece.nbytes)

        reader.stream(write, offset=begin, length=end - begin)
    out.flush()


def standard_output() -> TextIO:
    """Return the standard output of this process."""
    return sys.stdout
