"""``kms kek``: list key-encryption keys, and rotate from one to another while services run."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import local
from kms.cli.changes import DRY_RUN, TELLING, Manner, carry_out, changing, tell_change
from kms.cli.options import AS_JSON, moment, print_json, say, vault, wants_json, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings
    from kms.domain.kek_records import KekRecord
    from kms.keys.vault import Vault
    from kms.operations.kek_rotation import KekStatus


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms kek status --config kms.toml",
        "kms kek rotate 4f6fdbae --dry-run --config kms.toml",
    ),
)
def kek() -> None:
    """Create, rotate, retire and list key-encryption keys.

    Run these commands on the service's machine; they do not work over the network.
    """


@kek.command("status", examples=("kms kek status --config kms.toml",))
@with_settings(AS_JSON)
def kek_status(loaded: LoadedSettings) -> None:
    """List the key-encryption keys.

    Each has its location, the number of keys that it wraps, and its usability on this machine.
    """
    from kms.operations.kek_rotation import status

    found = status(vault(loaded))
    if wants_json():
        print_json({"schema": "kms.keks/1", "keks": [_members(one) for one in found]})
        return
    for one in found:
        click.echo(_line(one))


@kek.command("create", examples=("kms kek create keks/2027.toml --config kms.toml",))
@click.argument("definition", type=click.Path(path_type=Path, dir_okay=False))
@with_settings(TELLING)
def kek_create(definition: Path, loaded: LoadedSettings) -> None:
    """Create and register the key-encryption key of DEFINITION.

    DEFINITION is TOML with the members of the table [kek]. Services look for it in the directory of the setting
    kek_directory: before you rotate to the key, put the file and the files it names there on every machine.
    """
    from kms.domain.actors import local_actor
    from kms.keys.wrapping.definitions import read_definition
    from kms.operations.kek_rotation import create_kek

    described = read_definition(definition)
    directory = loaded.settings.kek_directory
    opened = vault(loaded)
    record = create_kek(opened, described, random=secrets.token_bytes, actor=local_actor(), at=moment())
    text = f"{record.id.hex()}  {record.backend}  {record.description}"
    tell_change("kek-create", text, details=_named(record))
    if directory is None or definition.absolute().parent != directory.absolute():
        say("note: put the definition into the directory of the setting kek_directory, where services look for it")
    say(f"next: 'kms kek rotate {record.short_id}', after every machine has it")


@kek.command(
    "rotate",
    examples=(
        "kms kek rotate 4f6fdbae --dry-run --config kms.toml",
        "kms kek rotate 4f6fdbae --config kms.toml",
    ),
)
@click.argument("kek_id")
@DRY_RUN
@changing()
@with_settings()
def kek_rotate(*, kek_id: str, dry_run: bool, manner: Manner, loaded: LoadedSettings) -> None:
    """Rotate to the key-encryption key KEK_ID.

    KEK_ID wraps new keys, and all keys are rewrapped under it. Services may be running. KEK_ID is an id or a prefix of
    one. To continue an interrupted rotation, repeat the command. With a rule for 'kek', a rotation starts with a
    proposal; after it is executed, continue with this command.
    """
    from kms.operations.kek_rotation import kek_named, require_ready
    from kms.quorum.keks import KekRotation

    service, opened = local(loaded)
    target = kek_named(opened.store, kek_id)
    count = require_ready(opened, target)
    if dry_run:
        begins = "" if target.wraps else "; new keys would be wrapped under it"
        text = f"{count} wrapped keys would be rewrapped under {target.short_id}{begins}"
        tell_change("kek-rotate", text, details=_named(target) | {"wrapped": count}, would=True)
        say("note: dry run; nothing was changed")
        return
    change = KekRotation(kek_id=target.id)
    if manner.propose:
        carry_out(service, change, manner)
        return
    if not target.wraps:
        wanted = {"action": change.action, "arguments": change.arguments(), "reason": manner.reason}
        done = service.post("/v1/changes", wanted)["done"]
        click.echo(done, err=wants_json())  # programs get one document, when everything was moved
    _move(opened, target, count, origin=loaded.settings.origin)


def _move(opened: Vault, target: KekRecord, count: int, *, origin: str) -> None:
    from attest.terminal import shown_progress
    from kms.domain.actors import local_actor
    from kms.domain.errors import KmsError
    from kms.operations.kek_rotation import finish, move

    problems: list[str] = []
    with shown_progress("rewrapping", count, unit="keys") as tell:
        for moved in move(opened, target, origin=origin):
            tell(target.short_id, moved.done)
            problems += moved.problems
    left = finish(opened, target, actor=local_actor(), at=moment())
    for problem in problems:
        say(f"error: {problem}")
    if left:
        raise KmsError(
            f"{left} wrapped keys are still under a previous key-encryption key",
            code="kek-rotation-unfinished",
            field=target.short_id,
            hint="repeat the command; 'kms fsck' reports keys that cannot be unwrapped; a backup may have them intact",
        )
    text = f"everything is wrapped under {target.short_id}"
    tell_change("kek-rotate", text, details=_named(target) | {"wrapped": count})
    say("note: put it first in the settings of every machine ([kek]), then 'kms kek retire' the old one")
    say("note: keep the old one for old backups, which need it")


@kek.command("retire", examples=("kms kek retire 09c1d2aa --config kms.toml",))
@click.argument("kek_id")
@DRY_RUN
@changing()
@with_settings()
def kek_retire(*, kek_id: str, dry_run: bool, manner: Manner, loaded: LoadedSettings) -> None:
    """Retire a key-encryption key that wraps nothing. This cannot be undone.

    First name its successor in the settings: services do not start if a retired key is first in them.
    """
    from kms.domain.errors import KeyConflictError
    from kms.operations.kek_rotation import kek_named
    from kms.quorum.keks import KekRetirement

    service, opened = local(loaded)
    record = kek_named(opened.store, kek_id)
    if record.id == opened.kek.main_id:
        raise KeyConflictError(
            f"the settings name the key-encryption key {record.short_id} first; services would not start after this",
            code="kek-in-settings",
            field=record.short_id,
            hint="name its successor in [kek] or kek_file on every machine, then repeat the command",
        )
    change = KekRetirement(kek_id=record.id)
    if dry_run:
        with opened.store.reading() as reader:
            change.state(reader)
        tell_change("kek-retire", f"{record.short_id} can be retired", details=_named(record), would=True)
        say("note: dry run; nothing was changed")
        return
    carry_out(service, change, manner)


def _named(record: KekRecord) -> dict[str, object]:
    return {"id": record.id.hex(), "backend": str(record.backend), "description": record.description}


def _members(one: KekStatus) -> dict[str, object]:
    from attest.encoding import rfc3339_text

    record = one.record
    return {
        "id": record.id.hex(),
        "backend": str(record.backend),
        "description": record.description,
        "state": str(record.state),
        "created_at": rfc3339_text(record.created_at),
        "wrapped": dict(one.wrapped),
        "problem": one.problem,
        "first_in_settings": one.main,
    }


def _line(one: KekStatus) -> str:
    record = one.record
    usable = "" if str(record.state) == "retired" else "  usable" if one.problem is None else f"  {one.problem}"
    count = sum(one.wrapped.values())
    return f"{record.short_id}  {record.state:9} {record.backend:8} {count:8}{usable}  {record.description}"
