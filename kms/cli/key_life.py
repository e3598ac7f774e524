"""Lifecycle of a key at the command line: rotate, schedule, destroy, restore, tag, release settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attest.terminal import ExampleCommand
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.keys import material_of, material_options, read_wrapped, require_one_source, tell_versions
from kms.cli.options import (
    AS_JSON,
    duration_option,
    key_argument,
    key_path,
    print_json,
    read_key,
    read_reference,
    reference_argument,
    say,
    wants_json,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from kms.domain.keys import KeyName, KeyReference


_LEVELS = ("none", "codes", "checks", "full")
_VIA = "Protocols that may release it: native, kbs, skr, or several with commas."


@click.command(
    "rotate",
    cls=ExampleCommand,
    examples=(
        "kms key rotate my-model --config kms.toml",
        "kms key rotate my-model --from new.key --overlap 2d --config kms.toml",
    ),
)
@click.argument("name", metavar="[KEY]", required=False, callback=read_key)
@click.option("--due", is_flag=True, help="Make only the scheduled rotations that are due.")
@material_options
@duration_option("--overlap", "Time during which the previous version is still released by number (default 7d).")
@administering(AS_JSON)
def key_rotate(
    *,
    service: AdminClient,
    name: KeyName | None,
    due: bool,
    source: Path | None,
    wrapped: Path | None,
    overlap: timedelta | None,
) -> None:
    """Rotate a key: make a new version the current one. A server accepts material of your own only sealed."""
    if (name is None) is not due or (due and (source, wrapped, overlap) != (None, None, None)):
        raise click.UsageError("name a key, or give only --due")
    if name is None:
        _do_due(service, "rotate", "keys", tell_versions)
    else:
        require_one_source(service, source, wrapped)
        sealed = None if wrapped is None else read_wrapped(wrapped)
        wanted = {"overlap_seconds": _seconds(overlap), "wrapped": sealed}
        made = service.post(key_path(name, "rotate"), wanted, material=material_of(source))
        tell_versions([made["versions"][-1]])


def _do_due(service: AdminClient, verb: str, what: str, tell: Callable[[Any], None]) -> None:  # Any: JSON
    """Rotate or destroy what is due, and print what was done and what failed."""
    done = service.post(f"/v1/keys/{verb}-due")
    for one in done["failed"]:
        say("error: {what}: {detail} [{code}]".format(**one))
    tell(done[what])
    if done["failed"]:
        click.get_current_context().exit(1)
    if not done[what]:
        say("note: nothing is due")


@click.command(
    "schedule",
    cls=ExampleCommand,
    examples=(
        "kms key schedule prompts --every 7d --overlap 1d --config kms.toml",
        "kms key schedule prompts --off --config kms.toml",
    ),
)
@key_argument
@duration_option("--every", "Time between rotations, such as 30d.")
@duration_option("--overlap", "Time during which the previous version is still released by number (default 7d).")
@click.option("--off", is_flag=True, help="Remove the schedule.")
@administering(TELLING)
def key_schedule(
    service: AdminClient, *, name: KeyName, every: timedelta | None, overlap: timedelta | None, off: bool
) -> None:
    """Schedule automatic rotation of a key.

    The running service makes the rotations.
    """
    if (every is None) is not off or (off and overlap is not None):
        raise click.UsageError("give --every, or only --off")
    wanted = {"every_seconds": _seconds(every), "overlap_seconds": _seconds(overlap)}
    schedule = service.post(key_path(name, "schedule"), wanted)["schedule"]
    text = f"{name} has no schedule" if schedule is None else f"{name} is due at {schedule['due_at']}"
    _tell("schedule", name, text, {"schedule": schedule})


@click.command(
    "destroy",
    cls=ExampleCommand,
    examples=(
        "kms key destroy my-model --dry-run --config kms.toml",
        "kms key destroy my-model@1 --after 14d --config kms.toml",
    ),
)
@click.argument("reference", metavar="[KEY[@VERSION]]", required=False, callback=read_reference)
@click.option("--due", is_flag=True, help="Destroy only what is due now, and schedule nothing.")
@duration_option("--after", "Delay before destruction (default and minimum: the setting destroy_delay_seconds).")
@click.option("--dry-run", is_flag=True, help="Show what would be destroyed and when, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@administering(TELLING)
def key_destroy(
    *,
    service: AdminClient,
    reference: KeyReference | None,
    due: bool,
    after: timedelta | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Destroy a key or an old version after a delay.

    It is not released from now on. Until the destruction you can undo this with 'kms key restore'. Afterwards all data
    encrypted under the key is lost.
    """
    if (reference is None) is not due or (due and (after is not None or dry_run)):
        raise click.UsageError("name a key, or give only --due")
    if reference is None:
        _do_due(service, "destroy", "destroyed", _tell_destroyed)
    else:
        _destroy(service, reference, after, dry_run=dry_run, yes=yes)


def _tell_destroyed(gone: list[str]) -> None:
    tell_change("key-destroy", *[f"{one} was destroyed" for one in gone], details={"destroyed": gone})


def _destroy(
    service: AdminClient, reference: KeyReference, after: timedelta | None, *, dry_run: bool, yes: bool
) -> None:
    where = key_path(reference.name, "destroy")
    wanted = {"version": reference.version, "after_seconds": _seconds(after)}
    planned = service.post(where, {**wanted, "dry_run": True})
    numbers, moment = planned["versions"], planned["destroy_at"]
    listed = ", ".join(map(str, numbers))
    plan = f"{reference.name}: version {listed} not released from now on, destroyed at {moment}"
    if dry_run:
        about = {"versions": numbers, "destroy_at": moment}
        _tell("destroy", reference.name, f"would be: {plan}", about, would=True)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("no terminal to confirm on; give --yes, or --dry-run to look first")
        click.confirm(f"{plan}. Continue?", abort=True, err=True)
    done = service.post(where, wanted)
    about = {"versions": done["versions"], "destroy_at": done["destroy_at"]}
    _tell("destroy", reference.name, f"{reference} will be destroyed at {done['destroy_at']}", about)
    say(f"note: until then, 'kms key restore {reference}' undoes this; earlier backups contain the key in wrapped form")


@click.command("restore", cls=ExampleCommand, examples=("kms key restore my-model@1 --config kms.toml",))
@reference_argument
@administering(TELLING)
def key_restore(service: AdminClient, *, reference: KeyReference) -> None:
    """Cancel the pending destruction of a key or of a version."""
    numbers = service.post(key_path(reference.name, "restore"), {"version": reference.version})["restored"]
    text = f"{reference} is restored: version {', '.join(map(str, numbers))}"
    _tell("restore", reference.name, text, {"versions": numbers})


@click.command("tag", cls=ExampleCommand, examples=("kms key tag my-model team=search stage=prod --config kms.toml",))
@key_argument
@click.argument("tags", metavar="NAME=VALUE...", nargs=-1)
@click.option("--remove", multiple=True, metavar="NAME", help="Remove the tag NAME. Repeatable.")
@administering(AS_JSON)
def key_tag(service: AdminClient, *, name: KeyName, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Set and remove tags of a key. Tags filter lists and affect no decision."""
    from kms.keys.tags import parse_tags

    if not tags and not remove:
        raise click.UsageError("give tags as NAME=VALUE, or --remove NAME")
    now = service.post(key_path(name, "tags"), {"put": parse_tags(tags), "remove": list(remove)})["tags"]
    if wants_json():
        print_json({"schema": "kms.tags/1", "tenant": name.tenant, "key_id": name.key_id, "tags": now})
        return
    for tag, value in now.items():
        click.echo(f"{tag}={value}")


def _wires(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of protocols with commas between them."""
    from kms.domain.wires import Wire

    *before, begun = incomplete.split(",")
    return [",".join((*before, one)) for one in Wire if one not in before and one.startswith(begun)]


@click.command(
    "release-settings",
    cls=ExampleCommand,
    examples=("kms key release-settings my-model --lease-seconds 3600 --config kms.toml",),
)
@key_argument
@click.option("--disclosure", type=click.Choice(_LEVELS), help="Detail that a refused workload receives.")
@click.option("--lease-seconds", metavar="N|default", help="Duration of a lease.")
@click.option("--via", metavar="WIRES", shell_complete=_wires, help=_VIA)
@administering(AS_JSON)
def key_release_settings(
    service: AdminClient, *, name: KeyName, disclosure: str | None, lease_seconds: str | None, via: str | None
) -> None:
    """Set disclosure, lease duration and protocols of a key.

    The disclosure is the detail that a refused workload receives. Without an option, show all settings. With 'none', a
    refused key looks like one that does not exist. The log always records every reason.
    """
    if lease_seconds and lease_seconds != "default" and not (lease_seconds.isascii() and lease_seconds.isdigit()):
        raise click.UsageError("--lease-seconds: expected a number of seconds, or 'default'")
    now = service.get(key_path(name))
    then = {name: now[name] for name in ("disclosure", "lease_seconds", "via")}
    then |= {"disclosure": disclosure} if disclosure else {}
    then |= {"via": sorted(set(via.split(",")))} if via else {}
    if lease_seconds is not None:
        then["lease_seconds"] = None if lease_seconds == "default" else int(lease_seconds[:12])
    if (disclosure, lease_seconds, via) != (None, None, None):
        service.post(key_path(name, "release-settings"), then)
    if wants_json():
        print_json({"schema": "kms.release-settings/1", "tenant": name.tenant, "key_id": name.key_id, **then})
        return
    seconds = then["lease_seconds"]
    lasts = "as in the settings" if seconds is None else f"{seconds} s"
    click.echo(f"{name}: disclosure {then['disclosure']}, lease {lasts}, via {', '.join(then['via'])}")
    if lease_seconds is not None:
        say("note: existing leases keep their expiry")


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())


def _tell(verb: str, name: KeyName, line: str, details: dict[str, object], *, would: bool = False) -> None:
    about = {"tenant": name.tenant, "key_id": name.key_id, **details}
    tell_change(f"key-{verb}", line, details=about, would=would)


LIFE = (key_rotate, key_schedule, key_destroy, key_restore, key_tag, key_release_settings)
"""Commands of ``kms key``."""
