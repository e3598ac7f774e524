"""The life of a key at the command line: rotate, schedule, destroy, restore, tag, release settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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


@click.command("rotate")
@click.argument("name", metavar="[KEY]", required=False, callback=read_key)
@click.option("--due", is_flag=True, help="Make the rotations that schedules say are due, and no other.")
@material_options
@duration_option("--overlap", "How long the version before is still released by its number (default 7d).")
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
    """Make a new version of a key the current one. To a server its material goes sealed, and not otherwise."""
    if (name is None) is not due or (due and (source, wrapped, overlap) != (None, None, None)):
        raise click.UsageError("name a key, or give --due alone")
    if name is None:
        _do_due(service, "rotate", "keys", tell_versions)
    else:
        require_one_source(service, source, wrapped)
        sealed = None if wrapped is None else read_wrapped(wrapped)
        wanted = {"overlap_seconds": _seconds(overlap), "wrapped": sealed}
        made = service.post(key_path(name, "rotate"), wanted, material=material_of(source))
        tell_versions([made["versions"][-1]])


def _do_due(service: AdminClient, verb: str, what: str, tell: Callable[[Any], None]) -> None:  # Any: JSON
    """Rotate or destroy what is due, and say what was done, and what failed."""
    done = service.post(f"/v1/keys/{verb}-due")
    for one in done["failed"]:
        say("error: {what}: {detail} [{code}]".format(**one))
    tell(done[what])
    if done["failed"]:
        click.get_current_context().exit(1)
    if not done[what]:
        say("note: nothing is due")


@click.command("schedule")
@key_argument
@duration_option("--every", "How long after one rotation the next is due, such as 30d.")
@duration_option("--overlap", "How long the version before is still released by its number (default 7d).")
@click.option("--off", is_flag=True, help="Rotate it by itself no more.")
@administering(TELLING)
def key_schedule(
    service: AdminClient, *, name: KeyName, every: timedelta | None, overlap: timedelta | None, off: bool
) -> None:
    """Let the running service rotate a key by itself."""
    if (every is None) is not off or (off and overlap is not None):
        raise click.UsageError("give --every, or --off alone")
    wanted = {"every_seconds": _seconds(every), "overlap_seconds": _seconds(overlap)}
    schedule = service.post(key_path(name, "schedule"), wanted)["schedule"]
    text = f"{name} has no schedule" if schedule is None else f"{name} is due at {schedule['due_at']}"
    _tell("schedule", name, text, {"schedule": schedule})


@click.command("destroy")
@click.argument("reference", metavar="[KEY[@VERSION]]", required=False, callback=read_reference)
@click.option("--due", is_flag=True, help="Destroy what is due now, and ask for no other destruction.")
@duration_option("--after", "How long it can be undone (default and minimum: the setting destroy_delay_seconds).")
@click.option("--dry-run", is_flag=True, help="Say what would be destroyed and when, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
    """Release a key, or an old version of one, to nobody from now on, and destroy it later.

    Until then 'kms key restore' brings it back. Then nothing does, and whatever is encrypted under it is lost.
    """
    if (reference is None) is not due or (due and (after is not None or dry_run)):
        raise click.UsageError("name a key, or give --due alone")
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
    plan = f"{reference.name}: version {listed} released to nobody at once, destroyed at {moment}"
    if dry_run:
        about = {"versions": numbers, "destroy_at": moment}
        _tell("destroy", reference.name, f"would be: {plan}", about, would=True)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask; say --yes, or look first with --dry-run")
        click.confirm(f"{plan}. Do it?", abort=True, err=True)
    done = service.post(where, wanted)
    about = {"versions": done["versions"], "destroy_at": done["destroy_at"]}
    _tell("destroy", reference.name, f"{reference} is destroyed at {done['destroy_at']}", about)
    say(f"note: until then 'kms key restore {reference}' brings it back; backups from before hold it in wrapped form")


@click.command("restore")
@reference_argument
@administering(TELLING)
def key_restore(service: AdminClient, *, reference: KeyReference) -> None:
    """Cancel the destruction of a key, or of a version, before its moment."""
    numbers = service.post(key_path(reference.name, "restore"), {"version": reference.version})["restored"]
    text = f"{reference} is restored: version {', '.join(map(str, numbers))}"
    _tell("restore", reference.name, text, {"versions": numbers})


@click.command("tag")
@key_argument
@click.argument("tags", metavar="NAME=VALUE...", nargs=-1)
@click.option("--remove", multiple=True, metavar="NAME", help="Remove the tag of this name.")
@administering(AS_JSON)
def key_tag(service: AdminClient, *, name: KeyName, tags: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Tag a key, for lists; nothing is decided by tags."""
    from kms.keys.tags import parse_tags

    if not tags and not remove:
        raise click.UsageError("give tags as NAME=VALUE, or --remove NAME")
    now = service.post(key_path(name, "tags"), {"put": parse_tags(tags), "remove": list(remove)})["tags"]
    if wants_json():
        print_json({"schema": "kms.tags/1", "tenant": name.tenant, "key_id": name.key_id, "tags": now})
        return
    for tag, value in now.items():
        click.echo(f"{tag}={value}")


@click.command("release-settings")
@key_argument
@click.option("--disclosure", type=click.Choice(_LEVELS), help="What a workload is told that is refused the key.")
@click.option("--lease-seconds", metavar="N|default", help="How long a lease lasts.")
@administering(AS_JSON)
def key_release_settings(
    service: AdminClient, *, name: KeyName, disclosure: str | None, lease_seconds: str | None
) -> None:
    """Set what a refused workload is told, and how long a lease lasts; without an option both are shown.

    With 'none' a key that is refused cannot be told from one that does not exist. The log has every reason in any case.
    """
    if lease_seconds and lease_seconds != "default" and not (lease_seconds.isascii() and lease_seconds.isdigit()):
        raise click.UsageError("--lease-seconds: expected a number of seconds, or 'default'")
    now = service.get(key_path(name))
    then = {"disclosure": disclosure or now["disclosure"], "lease_seconds": now["lease_seconds"]}
    if lease_seconds is not None:
        then["lease_seconds"] = None if lease_seconds == "default" else int(lease_seconds[:12])
    if disclosure is not None or lease_seconds is not None:
        service.post(key_path(name, "release-settings"), then)
    if wants_json():
        print_json({"schema": "kms.release-settings/1", "tenant": name.tenant, "key_id": name.key_id, **then})
        return
    seconds = then["lease_seconds"]
    lasts = "as the service's settings say" if seconds is None else f"{seconds} s"
    click.echo(f"{name}: disclosure {then['disclosure']}, lease {lasts}")
    if lease_seconds is not None:
        say("note: leases that are out keep their end")


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())


def _tell(verb: str, name: KeyName, line: str, details: dict[str, object], *, would: bool = False) -> None:
    about = {"tenant": name.tenant, "key_id": name.key_id, **details}
    tell_change(f"key-{verb}", line, details=about, would=would)


LIFE = (key_rotate, key_schedule, key_destroy, key_restore, key_tag, key_release_settings)
"""Commands of ``kms key``."""
