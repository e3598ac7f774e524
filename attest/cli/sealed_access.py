"""``attest sealed ls`` and ``attest sealed cat``: sealed models at any location, without a local copy."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from attest.cli.documents import print_document
from attest.cli.model_keys import MODEL_ID, TRUST, KeyOptions, model_key_options, trusted_keys
from attest.terminal.display import Display, display_options, stacked
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.sealed import FileStore, SealedReader

LISTED_SCHEMA = "attest.sealed-files/1"
MAX_HEADERS_BYTES = 64 * 1024
PIECE_BYTES = 32 << 20
"""Of a range that is written: large enough for several connections, small beside any model."""

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*?)[ \t]*")

place_options = stacked(
    (
        click.option(
            "--headers",
            "headers_file",
            metavar="FILE",
            help="Headers for a web server, such as 'Authorization: Bearer …', a line each.",
        ),
        click.option("--endpoint-url", metavar="URL", help="Endpoint of object storage other than Amazon's."),
    )
)
"""Add the options for access to a location."""


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
    headers_file: str | None,
    endpoint_url: str | None,
    display: Display,
) -> int:
    """List the files of a sealed model, with their sizes. It is verified first; no key is needed.

    PLACE is a folder, an address of the web, or s3://BUCKET/PREFIX.
    """
    from attest.errors import ConfigurationError
    from attest.sealed import verify_directory

    with _store(model, headers_file=headers_file, endpoint_url=endpoint_url) as store:
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
    headers_file: str | None,
    endpoint_url: str | None,
    key_from: KeyOptions,
) -> int:
    """Write a file of a sealed model, or a range of it, to a pipe or a file; never to a terminal.

    The model is verified before its key is asked for, and each MiB before it is written. When the exit code is not 0,
    what was written is not the whole of it.
    """
    from attest.errors import ConfigurationError
    from attest.sealed import open_directory
    from attest.sealed.locations import connections_of

    key_from.require_one()
    if standard_output().isatty():
        raise ConfigurationError(
            "a file of a model is not written to a terminal",
            code="output-terminal",
            hint="send it to a program or a file: attest sealed cat … | less",
        )
    trusted = trusted_keys(trust)
    with (
        _store(model, headers_file=headers_file, endpoint_url=endpoint_url) as store,
        open_directory(
            store, key=key_from.for_opening, trusted=trusted, model=model_id, threads=connections_of(store)
        ) as directory,
        directory.open(path) as reader,
    ):
        _write(reader, offset, length, display=key_from.display)
    return 0


@contextmanager
def _store(place: str, *, headers_file: str | None, endpoint_url: str | None) -> Iterator[FileStore]:
    """Open the store of a place, and close it at the end."""
    from attest.sealed import store_of

    headers = None if headers_file is None else _headers(headers_file)
    store = store_of(place, headers=None if headers is None else lambda: headers, endpoint_url=endpoint_url)
    try:
        yield store
    finally:
        close = getattr(store, "close", None)
        if close is not None:
            close()


def _write(reader: SealedReader, offset: int, length: int | None, *, display: Display) -> None:
    from attest.terminal.progress import shown_progress

    begin = min(offset, reader.size)
    end = reader.size if length is None else min(reader.size, begin + length)
    out = standard_output().buffer
    buffer = memoryview(bytearray(min(PIECE_BYTES, end - begin)))
    with shown_progress("reading", end - begin, quiet=display.quiet) as progress:
        for position in range(begin, end, PIECE_BYTES):
            piece = buffer[: min(PIECE_BYTES, end - position)]
            reader.read_into(position, piece)
            out.write(piece)
            progress(reader.name, piece.nbytes)
    out.flush()


def standard_output() -> TextIO:
    """Return the standard output of this process."""
    return sys.stdout


def _headers(file: str) -> Mapping[str, str]:
    """Read headers from a file, where the system's list of processes does not show them; errors show none."""
    from attest.cli.files import read_file
    from attest.errors import ConfigurationError

    content = read_file(file, limit=MAX_HEADERS_BYTES, what="--headers")
    lines = [line for line in content.decode("utf-8", "replace").splitlines() if line.strip()]
    matches = [_HEADER.fullmatch(line) for line in lines]
    if len(content) > MAX_HEADERS_BYTES or not all(matches):
        raise ConfigurationError(
            f"{file} does not contain headers",
            code="headers-invalid",
            field="--headers",
            expected="lines of 'Name: value', ASCII",
        )
    return {match[1]: match[2] for match in matches if match}
