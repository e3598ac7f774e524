"""``kms key limits``: budgets, holders, chips and windows of a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import CHANGING, carry_out, desk, wants_json
from kms.cli.options import AS_JSON, SETTINGS, key_argument, moment, print_json, read_input, say, vault, with_options

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from kms.domain.keys import KeyName
    from kms.domain.limits import KeyLimits, Usage
    from kms.store import ReadTransaction

__all__ = ["limits"]

_CLEARED = {
    "most-releases": {"releases": ()},
    "most-holders": {"holders": None},
    "chips": {"chips": None},
    "most-per-chip": {"per_chip": None},
    "windows": {"windows": None},
}


@click.group()
def limits() -> None:
    """Limit how often, to how many at a time, to which chips and when a key is released.

    \b
    Examples:
      kms key limits set my-model --most-releases 100/day --most-releases 5000 --most-holders 8
      kms key limits set my-model --chips chips.txt --window "Mon-Fri 08:00-18:00 UTC" --dry-run
      kms key limits show my-model
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@limits.command("set")
@key_argument
@click.option("--most-releases", multiple=True, metavar="N[/PERIOD]", help="N, N/hour, N/day or N/week. Repeatable.")
@click.option("--most-holders", type=int, metavar="N", help="Most holders with a live lease at a time.")
@click.option("--chips", multiple=True, metavar="FILE|ID", help="Allowed chips: amd:…, or a file with one a line.")
@click.option("--most-per-chip", metavar="N[/PERIOD]", help="Most releases to one chip.")
@click.option("--window", "windows", multiple=True, metavar="TEXT", help="'Mon-Fri 08:00-18:00 UTC'. Repeatable.")
@click.option("--clear", multiple=True, type=click.Choice(list(_CLEARED)), help="Take a limit away. Repeatable.")
@click.option("--reason", default="", metavar="TEXT", help="Why; a proposal needs one.")
@click.option("--dry-run", is_flag=True, help="Show what would be in force, and what was used of it.")
@with_options(*CHANGING, *SETTINGS)
def limits_set(
    *,
    name: KeyName,
    most_releases: tuple[str, ...],
    most_holders: int | None,
    chips: tuple[str, ...],
    most_per_chip: str | None,
    windows: tuple[str, ...],
    clear: tuple[str, ...],
    reason: str,
    dry_run: bool,
    propose: bool,
    hours: int,
    person: str | None,
    config: Path | None,
    **flags: object,
) -> None:
    """Set limits; those that are not named stay as they are. Under a rule for 'key-policy' it takes a proposal."""
    from kms.domain.limits import read_limits
    from kms.quorum.key_limits import KeyLimitsSet

    if not (most_releases or chips or windows or clear) and most_holders is None and most_per_chip is None:
        raise click.UsageError("name a limit to set, or one to --clear; 'kms key limits show' shows those there are")
    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        now = reader.limits.in_force(name)
    for one in clear:
        now = replace(now, **_CLEARED[one])  # type: ignore[arg-type]  # fields of the limits
    given: dict[str, JsonValue] = {
        "most_releases": list(most_releases),
        "most_holders": most_holders,
        "chips": [*sorted(set(_chips(chips)))] if chips else None,
        "most_per_chip": most_per_chip,
        "windows": list(windows),
    }
    # What was not given is None, or an empty list; a number of holders may be 0.
    members = now.members() | {one: value for one, value in given.items() if value not in (None, [])}
    then = read_limits(members | {"version": now.version + 1})
    change = KeyLimitsSet(name=name, limits=then)
    if dry_run:
        with at_desk.vault.store.reading() as reader:
            change.state(reader)
            _show(reader, name, then, as_json=wants_json())
        say("note: a dry run; nothing was changed")
        return
    carry_out(change, at_desk=at_desk, reason=reason, propose=propose, hours=hours, person=person)


@limits.command("show")
@key_argument
@with_options(*SETTINGS, AS_JSON)
def limits_show(name: KeyName, config: Path | None, as_json: bool, **flags: object) -> None:
    """Show the limits of a key, and what was used of them up to now."""
    from kms.keys.admin import require_key

    with vault(config, flags).store.reading() as reader:
        require_key(reader, name)
        found = reader.limits.in_force(name)
        _show(reader, name, found, as_json=as_json)


def _used(reader: ReadTransaction, name: KeyName, found: KeyLimits) -> Usage:
    from kms.controls.limit_rules import usage_of

    return usage_of(reader, name, found, holder=None, chip=None, at=moment())


def _show(reader: ReadTransaction, name: KeyName, found: KeyLimits, *, as_json: bool) -> None:
    used = _used(reader, name, found)
    if as_json:
        releases = {str(budget): count for budget, count in used.releases.items()}
        more = {"used": {"releases": releases, "holders": used.other_holders}}
        print_json({**found.members(), "key": str(name), **more})
        return
    click.echo(f"{name}: version {found.version} of its limits")
    for budget in found.releases:
        click.echo(f"  most releases: {budget} (so far {used.releases[budget]})")
    if found.holders is not None:
        click.echo(f"  most holders:  {found.holders} (now {used.other_holders})")
    if found.per_chip is not None:
        click.echo(f"  most per chip: {found.per_chip}")
    if found.chips is not None:
        click.echo(f"  chips:         {len(found.chips)}")
        for one in found.chips:
            click.echo(f"    {one}")
    for window in found.windows or ():
        click.echo(f"  window:        {window} ({'open now' if window.holds(moment()) else 'closed now'})")


def _chips(given: tuple[str, ...]) -> list[str]:
    """Read ids, and files with one a line; ``#`` begins a comment."""
    found: list[str] = []
    for one in given:
        if one.startswith(("amd:", "intel:", "nvidia:")):
            found.append(one)
            continue
        lines = read_input(Path(one)).decode("utf-8", errors="replace").splitlines()
        found += [line for text in lines if (line := text.partition("#")[0].strip())]
    if not found:
        raise click.UsageError("--chips names a file without any chip; a list of none would let nobody through")
    return found
