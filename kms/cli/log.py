"""``kms log``: read, verify and export the log, and cosign the log of another service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.inputs import checkpoint_option, expect_option, read_input
from kms.cli.options import AS_JSON, FILE, JsonObject, moment, print_json, say, vault, wants_json, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings

FOLLOW_SECONDS = 1.0
PAGE = 500
"""Entries per request: the maximum of the API."""
_ENTRIES = "/v1/log/entries"


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms log tail --config kms.toml",
        "kms log verify --config kms.toml",
    ),
)
def log() -> None:
    """Read, verify and export the log of decisions and changes."""


@log.command("list", examples=("kms log list --after 4711 --config kms.toml",))
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only entries after this number.")
@administering(AS_JSON)
def log_list(service: AdminClient, *, after: int) -> None:
    """List the entries, one per line.

    With --json, each line is a JSON document that includes the hash.
    """
    _print_after(service, after)


@log.command("tail", examples=("kms log tail --follow --config kms.toml",))
@click.option("--lines", "-n", type=click.IntRange(min=0), default=10, help="Number of entries (default 10).")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new entries until interrupted.")
@administering(AS_JSON)
def log_tail(service: AdminClient, *, lines: int, follow: bool) -> None:
    """Show the newest entries, one per line."""
    import time

    size = service.get(_ENTRIES, limit=1)["size"]
    last = _print_after(service, max(0, size - lines))
    while follow:
        time.sleep(FOLLOW_SECONDS)
        last = _print_after(service, last)


@log.command(
    "verify",
    examples=(
        "kms log verify --config kms.toml",
        "kms log verify --checkpoint noted.checkpoint --config kms.toml",
    ),
)
@expect_option("An earlier state (SIZE:ROOT) or a receipt's decision that the log must still contain. Repeatable.")
@checkpoint_option("Checkpoint stored elsewhere; - for stdin. Repeatable.")
@with_settings(AS_JSON)
def log_verify(expected: tuple[str, ...], checkpoints: tuple[Path, ...], loaded: LoadedSettings) -> None:
    """Verify every entry, the tree, and noted states.

    Exit code 1 on failure. The command reads the database of the settings directly.
    """
    from kms.domain.log_verification import parse_noted, read_noted, verify_log
    from kms.operations.services import open_identity

    noted = [parse_noted(one) for one in expected]
    opened = vault(loaded)
    identity = open_identity(opened, loaded.settings)
    noted += [read_noted(read_input(one), log=identity.public) for one in checkpoints]
    with opened.store.reading() as reader:
        state = verify_log(reader.log, noted=noted)
    if wants_json():
        print_json({"schema": "kms.log-state/1", "size": state.size, "root": state.root.hex()})
    else:
        click.echo(f"{state.size} entries, unbroken\nstate: {state.size}:{state.root.hex()}")


@log.command("checkpoint", examples=("kms log checkpoint --config kms.toml",))
@administering()
def log_checkpoint(service: AdminClient) -> None:
    """Print the signed checkpoint of the log.

    It has the cosignatures of the witnesses that respond. Store it elsewhere.
    """
    click.echo(service.note("GET", "/v1/log/checkpoint"), nl=False)


@log.command("export", examples=("kms log export log-copy --config kms.toml",))
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@with_settings(AS_JSON)
def log_export(directory: Path, loaded: LoadedSettings) -> None:
    """Export the log as static files (C2SP tlog-tiles).

    Any web server can serve the checkpoint, tiles and entries. If the directory has an earlier export, the log is
    compared with it and only new files are written. The entries name keys and policies: restrict read access to the
    directory accordingly. Run this on the service's machine.
    """
    from attest.clock import system_clock
    from kms.log.static_export import export_log
    from kms.operations.services import open_publisher

    opened = vault(loaded)
    settings = loaded.settings
    publisher, identity = open_publisher(opened, settings, clock=system_clock, report=say)
    checkpoint = publisher.checkpoint()
    with opened.store.reading() as reader:
        done = export_log(reader.log, directory, checkpoint=checkpoint, log=identity.public)
    if wants_json():
        print_json({"schema": "kms.log-export/1", "size": done.size, "before": done.before, "files": done.files})
    else:
        click.echo(f"{done.size} entries in {directory}, {done.size - done.before} of them new ({done.files} files)")


@log.command(
    "cosign",
    examples=(
        (
            "kms log cosign https://kms.example --log 'kms.example/prod+7dd6…' --name witness.example "
            "--key w.pem --memory w.json"
        ),
    ),
)
@click.argument("url")
@click.option("--log", "log_key", required=True, metavar="IDENTITY", help="Identity of the service, from its operator.")
@click.option("--name", required=True, help="Name of this witness, such as witness.example/a.")
@click.option("--key", "key_file", required=True, type=FILE, help="Ed25519 private key of this witness (PEM).")
@click.option("--memory", required=True, type=FILE, help="File that stores the last cosigned checkpoint.")
def log_cosign(url: str, log_key: str, name: str, key_file: Path, memory: Path) -> None:
    """Act as a witness of the service at URL.

    Cosigns the service's checkpoint if its log extends the last one cosigned. Prints the cosigned checkpoint, and the
    public key of the witness on standard error. Exit code 1 if the service does not prove that its log is consistent
    with the last one.
    """
    from attest.release import VerifierKey
    from kms.log.cosigner import LogAtUrl, cosign_next, read_witness_key

    key, public = read_witness_key(read_input(key_file, secret=True), name=name)
    with LogAtUrl(url) as served:
        note, line = cosign_next(
            note=served.checkpoint(),
            log=VerifierKey.parse(log_key),
            name=name,
            key=key,
            memory=memory,
            fetch=served.consistency,
            at=moment(),
        )
    say(f"witness: {public.text}")
    click.echo(note.note + line, nl=False)


def _print_after(service: AdminClient, last: int) -> int:
    """Print the entries after a number, and return the number of the last one."""
    while True:
        page = service.get(_ENTRIES, after=last, limit=PAGE)
        for one in page["entries"]:
            _print(one)
            last = one["entry"]["seq"]
        if not page["entries"] or last >= page["size"]:
            return last


def _print(one: JsonObject) -> None:
    from kms.log.render import text_line

    click.echo(json.dumps(one, sort_keys=True) if wants_json() else text_line(one["entry"]))
