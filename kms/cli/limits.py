"""``kms key limits``: release budgets, holders, chips and time windows of a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing
from kms.cli.inputs import read_input
from kms.cli.options import AS_JSON, JsonObject, key_argument, key_path, moment, print_json, say, wants_json

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from kms.domain.keys import KeyName
    from kms.domain.limits import KeyLimits

_CLEARED = {
    "most-releases": {"releases": ()},
    "most-holders": {"holders": None},
    "chips": {"chips": None},
    "most-per-chip": {"per_chip": None},
    "windows": {"windows": None},
}


@click.group(cls=ExampleGroup, examples=("kms key limits show my-model --config kms.toml",))
def limits() -> None:
    """Limit the releases of a key.

    Limits restrict how often, to how many holders, to which chips and when it is released.
    """


@limits.command(
    "set", examples=("kms key limits set my-model --most-releases 100/day --most-holders 8 --config kms.toml",)
)
@key_argument
@click.option("--most-releases", multiple=True, metavar="N[/PERIOD]", help="N, N/hour, N/day or N/week. Repeatable.")
@click.option("--most-holders", type=int, metavar="N", help="Maximum holders with a live lease at a time.")
@click.option("--chips", multiple=True, metavar="FILE|ID", help="Allowed chips: amd:…, or a file with one per line.")
@click.option("--most-per-chip", metavar="N[/PERIOD]", help="Maximum releases to one chip.")
@click.option("--window", "windows", multiple=True, metavar="TEXT", help="'Mon-Fri 08:00-18:00 UTC'. Repeatable.")
@click.option("--clear", multiple=True, type=click.Choice(list(_CLEARED)), help="Remove a limit. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Show the limits that would be in force, and their use so far.")
@changing()
@administering()
def limits_set(
    service: AdminClient,
    *,
    name: KeyName,
    most_releases: tuple[str, ...],
    most_holders: int | None,
    chips: tuple[str, ...],
    most_per_chip: str | None,
    windows: tuple[str, ...],
    clear: tuple[str, ...],
    dry_run: bool,
    manner: Manner,
) -> None:
    """Set limits; those not named do not change. With a rule for 'key-policy' this requires a proposal."""
    from kms.quorum.key_limits import KeyLimitsSet

    if not (most_releases or chips or windows or clear) and most_holders is None and most_per_chip is None:
        raise click.UsageError("name a limit to set or to --clear; 'kms key limits show' lists them")
    given: dict[str, JsonValue] = {
        "most_releases": list(most_releases),
        "most_holders": most_holders,
        "chips": [*sorted(set(_chips(chips)))] if chips else None,
        "most_per_chip": most_per_chip,
        "windows": list(windows),
    }
    then = _next(service.get(key_path(name, "limits"))["limits"], given, clear)
    if dry_run:
        _show(name, service.post(key_path(name, "limits", "try"), {"limits": then.members()}))
        say("note: dry run; nothing was changed")
        return
    change = KeyLimitsSet(name=name, limits=then)
    carry_out(service, change, manner)


@limits.command("show", examples=("kms key limits show my-model --config kms.toml",))
@key_argument
@administering(AS_JSON)
def limits_show(service: AdminClient, *, name: KeyName) -> None:
    """Show the limits of a key and their use so far."""
    _show(name, service.get(key_path(name, "limits")))


def _next(now: JsonValue, given: dict[str, JsonValue], clear: tuple[str, ...]) -> KeyLimits:
    """Return the next version, without the cleared limits and with the given ones."""
    from kms.domain.limits import read_limits

    before = read_limits(now)
    for one in clear:
        before = replace(before, **_CLEARED[one])  # type: ignore[arg-type]  # fields of the limits
    # An option that was not given is None or an empty list; a number of holders may be 0.
    members = before.members() | {one: value for one, value in given.items() if value not in (None, [])}
    return read_limits(members | {"version": before.version + 1})


def _show(name: KeyName, answer: JsonObject) -> None:
    from kms.domain.limits import read_limits

    used = {"releases": answer["releases"], "holders": answer["holders"]}
    if wants_json():
        print_json({**answer["limits"], "key": str(name), "used": used})
        return
    _show_lines(name, read_limits(answer["limits"]), used)


def _show_lines(name: KeyName, found: KeyLimits, used: JsonObject) -> None:
    click.echo(f"{name}: version {found.version} of its limits")
    for budget in found.releases:
        click.echo(f"  most releases: {budget} (so far {used['releases'][str(budget)]})")
    if found.holders is not None:
        click.echo(f"  most holders:  {found.holders} (now {used['holders']})")
    if found.per_chip is not None:
        click.echo(f"  most per chip: {found.per_chip}")
    if found.chips is not None:
        click.echo(f"  chips:         {len(found.chips)}")
        for one in found.chips:
            click.echo(f"    {one}")
    for window in found.windows or ():
        click.echo(f"  window:        {window} ({'open now' if window.holds(moment()) else 'closed now'})")


def _chips(given: tuple[str, ...]) -> list[str]:
    """Read ids, and files with one per line; ``#`` starts a comment."""
    found: list[str] = []
    for one in given:
        if one.startswith(("amd:", "intel:", "nvidia:")):
            found.append(one)
            continue
        lines = read_input(Path(one)).decode("utf-8", errors="replace").splitlines()
        found += [line for text in lines if (line := text.partition("#")[0].strip())]
    if not found:
        raise click.UsageError("--chips names a file without chips; an empty list would refuse every chip")
    return found
