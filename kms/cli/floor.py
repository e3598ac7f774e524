"""``kms floor``: minimum firmware levels for the workloads of every key, in addition to the key's policy."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup, stacked
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing, tell_change
from kms.cli.inputs import read_time
from kms.cli.options import AS_JSON, JsonObject, moment, print_rows, say, wants_json
from kms.cli.releases import found_leases, show_leases

if TYPE_CHECKING:
    from datetime import datetime

    from kms.domain.floors import Floor, FloorEntry
    from kms.quorum.floors import FloorLower

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOST_LEASES = 1000
_BECAUSE = click.option("--because", "reason", required=True, metavar="TEXT", help="Reason, shown in log and refusals.")
_TENANT = click.option("--tenant", metavar="TENANT", help="Tenant of the floor (default: the whole service).")
_CHANGE = (
    _TENANT,
    click.option("--dry-run", is_flag=True, help="Show what would change, and which leases would not be renewed."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
)


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms floor set Genoa:snp=28,microcode=84 --because CVE-2025-0033 --dry-run --config kms.toml",
        "kms floor show --config kms.toml",
    ),
)
def floor() -> None:
    """Require minimum firmware levels of every workload.

    A floor applies regardless of the policies of keys.
    """


@floor.command(
    "set",
    examples=(
        "kms floor set Genoa:snp=28,microcode=84 --because CVE-2025-0033 --dry-run --config kms.toml",
        "kms floor set hopper:driver=570.172.08 --tenant hospital --because 'bulletin 5678' --config kms.toml",
    ),
)
@click.argument("demands", metavar="PRODUCT:COMPONENT=VALUE[,...]...", nargs=-1, required=True)
@click.option("--from", "since", metavar="TIME", help="Start time: RFC 3339 or a date (default: immediately).")
@stacked(_CHANGE)
@changing(reason=_BECAUSE)
@administering()
def floor_set(
    service: AdminClient,
    *,
    demands: tuple[str, ...],
    since: str | None,
    tenant: str | None,
    dry_run: bool,
    yes: bool,
    manner: Manner,
) -> None:
    """Set levels; entries that are not named do not change.

    One person can raise a floor. A lower level or a later start requires a quorum, if there is a rule for 'key-policy'.
    """
    from kms.domain.floors import read_entry

    now = moment().replace(microsecond=0)
    begin = None if since is None else read_time(_whole_time(since), "--from")
    added = [read_entry(*one, since=begin, because=manner.reason) for text in demands for one in _parts(text)]
    before = _newest(service, tenant)
    then = before.with_entries(added, at=now)
    _require_no_gap(before, then, begin=begin, now=now)
    _change(service, before, then, manner, dry_run=dry_run, yes=yes)


@floor.command("end", examples=("kms floor end Genoa:microcode --because 'withdrawn by AMD' --config kms.toml",))
@click.argument("demands", metavar="[PRODUCT[:COMPONENT[=VALUE]]...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="End the whole floor.")
@stacked(_CHANGE)
@changing(reason=_BECAUSE)
@administering()
def floor_end(
    service: AdminClient,
    *,
    demands: tuple[str, ...],
    everything: bool,
    tenant: str | None,
    dry_run: bool,
    yes: bool,
    manner: Manner,
) -> None:
    """Remove entries of a floor: of a product, a component, or one value. This can require a quorum; see 'set'."""
    from kms.domain.floors import Floor

    if bool(demands) is everything:
        raise click.UsageError("name the entries to end, such as Genoa or Genoa:snp; or give --all")
    before = _newest(service, tenant)
    kept = before.entries if demands else ()
    for text in demands:
        left = tuple(one for one in kept if not _is_named(one, text))
        if left == kept:
            raise click.UsageError(f"the {before.name} has no entry for {text!r}; 'kms floor show' lists its entries")
        kept = left
    then = Floor(scope=before.scope, version=before.version + 1, entries=kept)
    _change(service, before, then, manner, dry_run=dry_run, yes=yes)


@floor.command("show", examples=("kms floor show --config kms.toml",))
@click.option("--tenant", metavar="TENANT", help="Only the floors that apply to this tenant.")
@administering(AS_JSON)
def floor_show(service: AdminClient, *, tenant: str | None) -> None:
    """List the floors of the service and of tenants."""
    from kms.domain.floors import read_floor

    found = service.get("/v1/floors", tenant=tenant)["floors"]
    now = moment()
    rows = [
        f"{one.scope}  version {one.version}  {_line(entry, now)}"
        for one in (read_floor(_document(document)) for document in found)
        for entry in one.entries
    ]
    print_rows({"schema": "kms.floors/1", "floors": found}, rows, str, none="there is no floor")


@floor.command("check", examples=("kms floor check --at 2027-01-01 --config kms.toml",))
@click.option("--tenant", metavar="TENANT", help="Only the keys of this tenant.")
@click.option("--at", "at_text", metavar="TIME", help="Use the floors in force at this time (RFC 3339). Default: now.")
@administering(AS_JSON)
def floor_check(service: AdminClient, *, tenant: str | None, at_text: str | None) -> None:
    """List live leases that are below a floor.

    These leases would not be renewed; exit code 1 if there are any. The check uses the claims that were stored when the
    key was released.
    """
    from kms.domain.errors import ReleaseDeniedError

    at = moment() if at_text is None else read_time(_whole_time(at_text), "--at")
    leases: dict[str, JsonObject] = {}
    for one in _floors(service, tenant):
        of = tenant if one.scope == "*" else one.scope
        for lease in _below(service, one.scope, one.version, one.in_force(at), tenant=of):
            known = leases.setdefault(lease["lease_id"], {**lease, "why": []})
            known["why"] += [line for line in lease["why"] if line not in known["why"]]
    if not wants_json() and not leases:
        say("note: no live lease is below a floor")
        return
    show_leases(list(leases.values()), None)
    if leases:
        raise ReleaseDeniedError(
            f"live leases below a floor: {len(leases)}",
            code="leases-below-floor",
            hint="these leases are not renewed; to stop more, use 'kms releases affected' or 'kms freeze'",
        )


# -- changes


def _change(service: AdminClient, before: Floor, then: Floor, manner: Manner, *, dry_run: bool, yes: bool) -> None:
    from kms.domain.floors import is_raise
    from kms.quorum.floors import FloorLower, FloorRaise

    change = (FloorRaise if is_raise(before, then) else FloorLower)(floor=then)
    plan = _plan(before, then)
    if not plan:
        tell_change(change.action, f"the {before.name} is unchanged", details={"floor": before.members()})
        return
    if dry_run:
        _tell_trial(service, change, plan)
        return
    if not yes and not manner.propose:
        if not sys.stdin.isatty():
            raise click.UsageError("no terminal to confirm on; give --yes, or --dry-run to look first")
        again = "; undoing this may require a quorum" if isinstance(change, FloorRaise) else ""
        click.confirm(f"{then.name}: {'; '.join(plan)}{again}. Continue?", abort=True, err=True)
    carry_out(service, change, manner)


def _plan(before: Floor, then: Floor) -> list[str]:
    """Return a line for each entry that is added or removed."""
    now = moment()
    gone = [f"removed: {_line(one, now)}" for one in before.entries if one not in then.entries]
    return gone + [f"new: {_line(one, now)}" for one in then.entries if one not in before.entries]


def _tell_trial(service: AdminClient, change: FloorLower, plan: list[str]) -> None:
    """Show a change, and the leases that the new floor refuses once every entry is in force."""
    then = change.floor
    tenant = None if then.scope == "*" else then.scope
    leases = _below(service, then.scope, then.version, then.entries, tenant=tenant)
    details = {"floor": then.members(), "not_renewed": leases}
    tell_change(change.action, *plan, details=details, would=True)
    if not wants_json():
        if leases:
            show_leases(leases, None)
        say(f"note: dry run; nothing was changed; leases that would not be renewed: {len(leases)}")


def _require_no_gap(before: Floor, then: Floor, *, begin: datetime | None, now: datetime) -> None:
    """Refuse a start time for a lower level, which would end the present one immediately."""
    gone = [one for one in before.in_force(now) if one not in then.entries]
    if begin is not None and begin > now and any(not any(new.replaces(one) for new in then.entries) for one in gone):
        raise click.UsageError("a lower level takes effect immediately: omit --from")


# -- reading


def _newest(service: AdminClient, tenant: str | None) -> Floor:
    scope = tenant or "*"
    return next(one for one in _floors(service, tenant) if one.scope == scope)


def _floors(service: AdminClient, tenant: str | None) -> list[Floor]:
    from kms.domain.floors import read_floor

    return [read_floor(_document(one)) for one in service.get("/v1/floors", tenant=tenant)["floors"]]


def _document(answer: JsonObject) -> JsonObject:
    return {name: value for name, value in answer.items() if name != "sha256"}


def _below(
    service: AdminClient, scope: str, version: int, entries: tuple[FloorEntry, ...], *, tenant: str | None
) -> list[JsonObject]:
    """Return the live leases that do not meet all of these entries."""
    from kms.domain.floors import Floor

    if not entries:
        return []
    document = Floor(scope=scope, version=version, entries=entries).members()
    wanted = {"tenant": tenant, "chip": None, "after": None, "floor": document}
    found, more = found_leases(service, wanted, _MOST_LEASES)
    if more is not None:
        say(f"note: only the first {_MOST_LEASES} leases are shown")
    return found


def _parts(text: str) -> list[tuple[str, str, str]]:
    """Read ``Genoa:snp=28,microcode=84``."""
    product, _, rest = text.partition(":")
    found = [(product, *one.partition("=")[::2]) for one in rest.split(",")]
    if not all(name and value for _, name, value in found):
        raise click.UsageError(f"{text!r}: expected PRODUCT:COMPONENT=VALUE, such as Genoa:snp=28,microcode=84")
    return [(product, name, _whole_time(value)) for product, name, value in found]


def _is_named(entry: FloorEntry, text: str) -> bool:
    product, _, rest = text.partition(":")
    name, _, value = rest.partition("=")
    demand = entry.demand
    return (
        product.lower() == demand.product and name in {"", demand.component} and _whole_time(value) in {"", demand.text}
    )


def _whole_time(text: str) -> str:
    return f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text


def _line(entry: FloorEntry, now: datetime) -> str:
    from attest.encoding import rfc3339_text

    when = (
        "at once" if entry.since is None else f"{'since' if entry.counts(now) else 'from'} {rfc3339_text(entry.since)}"
    )
    return f"{entry.demand}  {when}  {entry.because}"
