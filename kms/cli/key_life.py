"""The life of a key at the command line: rotate, schedule, destroy, restore, tag."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.keys import given_material, material_options, tell_versions
from kms.cli.options import (
    AS_JSON,
    SETTINGS,
    duration_option,
    key_argument,
    load,
    moment,
    print_json,
    reference_argument,
    say,
    vault,
    with_options,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from attest.errors import AttestError
    from kms.domain.keys import KeyName, KeyReference

__all__ = ["LIFE"]


class _Failures:
    """Tells of what failed, and remembers that something did."""

    def __init__(self) -> None:
        self.some = False

    def __call__(self, what: object, error: AttestError) -> None:
        self.some = True
        say(f"error: {what}: {error.message} [{error.code}]")


@click.command("rotate")
@click.argument("name", metavar="[KEY]", required=False, callback=lambda _c, _p, text: _named(text))
@click.option("--due", is_flag=True, help="Make the rotations that schedules say are due, and no other.")
@material_options
@duration_option("--overlap", "How long the version before is still released by its number (default 7d).")
@with_options(*SETTINGS, AS_JSON)
def key_rotate(
    *,
    name: KeyName | None,
    due: bool,
    source: Path | None,
    wrapped: Path | None,
    overlap: timedelta | None,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Make a new version of a key the current one."""
    from kms.domain.actors import local_actor
    from kms.keys.admin import find_key
    from kms.keys.import_key import next_terms
    from kms.keys.rotation import DEFAULT_OVERLAP, Rotator, rotate_due, rotate_key

    if (name is None) is not due or (due and (source, wrapped, overlap) != (None, None, None)):
        raise click.UsageError("name a key, or give --due alone")
    opened, at, failures = vault(config, flags), moment(), _Failures()
    rotator = Rotator(store=opened.store, kek=opened.kek, random=secrets.token_bytes)
    if name is None:
        made = rotate_due(rotator, at=at, failed=failures)
    else:
        terms = next_terms(find_key(opened.store, name)[0])
        settings = load(config, flags).settings
        material = given_material(opened, terms, source, wrapped, settings=settings)
        length = DEFAULT_OVERLAP if overlap is None else overlap
        sealed_as = None if wrapped is None else terms
        record = rotate_key(
            rotator, name, overlap=length, actor=local_actor(), at=at, material=material, terms=sealed_as
        )
        made = (record,)
    tell_versions(made, at=at, as_json=as_json)
    if not made and not failures.some:
        say("note: nothing is due")
    if failures.some:
        click.get_current_context().exit(1)


@click.command("schedule")
@key_argument
@duration_option("--every", "How long after one rotation the next is due, such as 30d.")
@duration_option("--overlap", "How long the version before is still released by its number (default 7d).")
@click.option("--off", is_flag=True, help="Rotate it by itself no more.")
@with_options(*SETTINGS, TELLING)
def key_schedule(
    *,
    name: KeyName,
    every: timedelta | None,
    overlap: timedelta | None,
    off: bool,
    config: Path | None,
    **flags: object,
) -> None:
    """Let the running service rotate a key by itself."""
    from attest.encoding import rfc3339_text
    from kms.domain.actors import local_actor
    from kms.keys.description import schedule_members
    from kms.keys.rotation import DEFAULT_OVERLAP, remove_schedule, set_schedule

    if (every is None) is not off or (off and overlap is not None):
        raise click.UsageError("give --every, or --off alone")
    store = vault(config, flags).store
    if every is None:
        remove_schedule(store, name, actor=local_actor(), at=moment())
        _tell("schedule", name, f"{name} has no schedule", {"schedule": None})
        return
    length = min(every, DEFAULT_OVERLAP) if overlap is None else overlap
    schedule = set_schedule(store, name, every=every, overlap=length, actor=local_actor(), at=moment())
    text = f"{name} is due at {rfc3339_text(schedule.due_at)}"
    _tell("schedule", name, text, {"schedule": schedule_members(schedule)})


@click.command("destroy")
@click.argument("asked", metavar="[KEY[@VERSION]]", required=False, callback=lambda _c, _p, text: _referred(text))
@click.option("--due", is_flag=True, help="Destroy what is due now, and ask for no other destruction.")
@duration_option("--after", "How long it can be undone (default and minimum: the setting destroy_delay_seconds).")
@click.option("--dry-run", is_flag=True, help="Say what would be destroyed and when, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_options(*SETTINGS, TELLING)
def key_destroy(
    *,
    asked: KeyReference | None,
    due: bool,
    after: timedelta | None,
    dry_run: bool,
    yes: bool,
    config: Path | None,
    **flags: object,
) -> None:
    """Release a key, or an old version of one, to nobody from now on, and destroy it later.

    Until then 'kms key restore' brings it back. Then nothing does, and whatever is encrypted under it is lost.
    """
    if (asked is None) is not due or (due and (after is not None or dry_run)):
        raise click.UsageError("name a key, or give --due alone")
    if asked is None:
        _destroy_due(config, flags)
    else:
        _destroy(asked, after, config, flags, dry_run=dry_run, yes=yes)


def _destroy_due(config: Path | None, flags: dict[str, object]) -> None:
    from kms.keys.destruction import destroy_due

    failures = _Failures()
    done = destroy_due(vault(config, flags).store, at=moment(), failed=failures)
    tell_change(
        "key-destroy",
        *[f"{one} was destroyed" for one in done],
        details={"destroyed": [str(one) for one in done]},
    )
    if not done and not failures.some:
        say("note: nothing is due")
    if failures.some:
        click.get_current_context().exit(1)


def _destroy(
    asked: KeyReference,
    after: timedelta | None,
    config: Path | None,
    flags: dict[str, object],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from datetime import timedelta

    from attest.encoding import rfc3339_text
    from kms.domain.actors import local_actor
    from kms.keys.destruction import plan_destruction, schedule_destruction

    minimum = timedelta(seconds=load(config, flags).settings.destroy_delay_seconds)
    length, store = minimum if after is None else after, vault(config, flags).store
    with store.reading() as reader:
        planned = plan_destruction(reader, asked, after=length, minimum=minimum, at=moment())
    numbers = ", ".join(str(record.version) for record in planned.versions)
    said = f"{asked.name}: version {numbers} released to nobody at once, destroyed at {rfc3339_text(planned.at)}"
    about: dict[str, object] = {"versions": [record.version for record in planned.versions]}
    if dry_run:
        about["destroy_at"] = rfc3339_text(planned.at)
        _tell("destroy", asked.name, f"would be: {said}", about, would=True)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask; say --yes, or look first with --dry-run")
        click.confirm(f"{said}. Do it?", abort=True, err=True)
    done = schedule_destruction(store, asked, after=length, minimum=minimum, actor=local_actor(), at=moment())
    about = {"versions": [record.version for record in done.versions], "destroy_at": rfc3339_text(done.at)}
    _tell("destroy", asked.name, f"{asked} is destroyed at {rfc3339_text(done.at)}", about)
    say(f"note: until then 'kms key restore {asked}' brings it back; backups from before hold it in wrapped form")


@click.command("restore")
@reference_argument
@with_options(*SETTINGS, TELLING)
def key_restore(asked: KeyReference, config: Path | None, **flags: object) -> None:
    """Cancel the destruction of a key, or of a version, before its moment."""
    from kms.domain.actors import local_actor
    from kms.keys.destruction import restore_key

    saved = restore_key(vault(config, flags).store, asked, actor=local_actor(), at=moment())
    numbers = [record.version for record in saved]
    text = f"{asked} is restored: version {', '.join(map(str, numbers))}"
    _tell("restore", asked.name, text, {"versions": numbers})


@click.command("tag")
@key_argument
@click.argument("tags", metavar="NAME=VALUE...", nargs=-1)
@click.option("--remove", multiple=True, metavar="NAME", help="Remove the tag of this name.")
@with_options(*SETTINGS, AS_JSON)
def key_tag(
    *,
    name: KeyName,
    tags: tuple[str, ...],
    remove: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Tag a key, for lists; nothing is decided by tags."""
    from kms.domain.actors import local_actor
    from kms.keys.tags import change_tags, parse_tags

    if not tags and not remove:
        raise click.UsageError("give tags as NAME=VALUE, or --remove NAME")
    put = parse_tags(tags)
    now = change_tags(vault(config, flags).store, name, put=put, remove=remove, actor=local_actor(), at=moment())
    if as_json:
        print_json({"schema": "kms.tags/1", "tenant": name.tenant, "key_id": name.key_id, "tags": dict(now)})
        return
    for tag, value in now.items():
        click.echo(f"{tag}={value}")


def _tell(verb: str, name: KeyName, line: str, details: dict[str, object], *, would: bool = False) -> None:
    about = {"tenant": name.tenant, "key_id": name.key_id, **details}
    tell_change(f"key-{verb}", line, details=about, would=would)


def _named(text: str | None) -> KeyName | None:
    from attest.release import KeyName

    return None if text is None else KeyName.parse(text)


def _referred(text: str | None) -> KeyReference | None:
    from attest.release import KeyReference

    return None if text is None else KeyReference.parse(text)


LIFE = (key_rotate, key_schedule, key_destroy, key_restore, key_tag)
"""Commands of ``kms key``."""
