"""``kms floor``: firmware levels that the workloads of every key must reach, besides the key's policy."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing, tell_change
from kms.cli.inputs import read_time
from kms.cli.options import AS_JSON, JsonObject, moment, print_rows, say, wants_json, with_options
from kms.cli.releases import found_leases, show_leases

if TYPE_CHECKING:
    from datetime import datetime

    from kms.domain.floors import Floor, FloorEntry
    from kms.quorum.floors import FloorLower

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOST_LEASES = 1000
_BECAUSE = click.option("--because", "reason", required=True, metavar="TEXT", help="Why; the log and refusals name it.")
_TENANT = click.option("--tenant", metavar="TENANT", help="The floor of this tenant; else that of the whole service.")
_CHANGE = (
    _TENANT,
    click.option("--dry-run", is_flag=True, help="Show what would change, and whose leases would not be renewed."),
    click.option("--yes", is_flag=True, help="Do it without asking."),
)


@click.group()
def floor() -> None:
    """Demand firmware levels of every workload, whatever the policies of keys allow.

    \b
    Examples:
      kms floor set Genoa:snp=28,microcode=84 --because CVE-2025-0033 --dry-run
      kms floor set tdx:tcb_status=UpToDate,tcb_date=2025-11-12 --from 2026-01-01 --because INTEL-SA-01192
      kms floor set hopper:driver=570.172.08 --tenant acme --because "bulletin 5678"
      kms floor check
      kms floor end Genoa:snp --because "withdrawn by AMD"
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@floor.command("set")
@click.argument("demands", metavar="PRODUCT:COMPONENT=VALUE[,...]...", nargs=-1, required=True)
@click.option("--from", "since", metavar="TIME", help="When it begins to count: RFC 3339 or a date (default: at once).")
@with_options(*_CHANGE)
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
    """Set levels; what is not named stays as it is.

    One person raises a floor. A lower level or a later moment takes a quorum, where there is a rule for 'key-policy'.
    """
    from kms.domain.floors import read_entry

    now = moment().replace(microsecond=0)
    begin = None if since is None else read_time(_whole_time(since), "--from")
    added = [read_entry(*one, since=begin, because=manner.reason) for text in demands for one in _parts(text)]
    before = _newest(service, tenant)
    then = before.with_entries(added, at=now)
    _require_no_gap(before, then, begin=begin, now=now)
    _change(service, before, then, manner, dry_run=dry_run, yes=yes)


@floor.command("end")
@click.argument("demands", metavar="[PRODUCT[:COMPONENT[=VALUE]]...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="End the whole floor.")
@with_options(*_CHANGE)
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
    """End what a floor demands of products, components, or with one value. It takes a quorum, as 'set' says."""
    from kms.domain.floors import Floor

    if bool(demands) is everything:
        raise click.UsageError("name what ends, such as Genoa or Genoa:snp; or say --all")
    before = _newest(service, tenant)
    kept = before.entries if demands else ()
    for text in demands:
        left = tuple(one for one in kept if not _is_named(one, text))
        if left == kept:
            raise click.UsageError(f"the {before.name} demands nothing of {text!r}; 'kms floor show' lists its entries")
        kept = left
    then = Floor(scope=before.scope, version=before.version + 1, entries=kept)
    _change(service, before, then, manner, dry_run=dry_run, yes=yes)


@floor.command("show")
@click.option("--tenant", metavar="TENANT", help="Only the floors that count for this tenant.")
@administering(AS_JSON)
def floor_show(service: AdminClient, *, tenant: str | None) -> None:
    """List what the floors of the service and of tenants demand, from when on, and why."""
    from kms.domain.floors import read_floor

    found = service.get("/v1/floors", tenant=tenant)["floors"]
    now = moment()
    rows = [
        f"{one.scope}  version {one.version}  {_line(entry, now)}"
        for one in (read_floor(_document(document)) for document in found)
        for entry in one.entries
    ]
    print_rows({"schema": "kms.floors/1", "floors": found}, rows, str, none="there is no floor")


@floor.command("check")
@click.option("--tenant", metavar="TENANT", help="Only the keys of this tenant.")
@click.option("--at", "at_text", metavar="TIME", help="By what counts at this moment (RFC 3339), and not now.")
@administering(AS_JSON)
def floor_check(service: AdminClient, *, tenant: str | None, at_text: str | None) -> None:
    """List live leases whose holders are below a floor and would not be renewed; exit code 1 if there are any.

    They are judged by the claims that were kept when the key was released.
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
            hint="they are not renewed; 'kms releases affected' and 'kms freeze' stop more",
        )


# -- changes


def _change(service: AdminClient, before: Floor, then: Floor, manner: Manner, *, dry_run: bool, yes: bool) -> None:
    from kms.domain.floors import is_raise
    from kms.quorum.floors import FloorLower, FloorRaise

    change = (FloorRaise if is_raise(before, then) else FloorLower)(floor=then)
    plan = _plan(before, then)
    if not plan:
        tell_change(change.action, f"the {before.name} is so already", details={"floor": before.members()})
        return
    if dry_run:
        _tell_trial(service, change, plan)
        return
    if not yes and not manner.propose:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask; say --yes, or look first with --dry-run")
        again = "; one person may not be able to take it back" if isinstance(change, FloorRaise) else ""
        click.confirm(f"{then.name}: {'; '.join(plan)}{again}. Do it?", abort=True, err=True)
    carry_out(service, change, manner)


def _plan(before: Floor, then: Floor) -> list[str]:
    """Return a line for each entry that comes or goes."""
    now = moment()
    gone = [f"no longer {_line(one, now)}" for one in before.entries if one not in then.entries]
    return gone + [f"new: {_line(one, now)}" for one in then.entries if one not in before.entries]


def _tell_trial(service: AdminClient, change: FloorLower, plan: list[str]) -> None:
    """Show a change, and the leases of those that the new floor refuses, once every entry counts."""
    then = change.floor
    tenant = None if then.scope == "*" else then.scope
    leases = _below(service, then.scope, then.version, then.entries, tenant=tenant)
    details = {"floor": then.members(), "not_renewed": leases}
    tell_change(change.action, *plan, details=details, would=True)
    if not wants_json():
        if leases:
            show_leases(leases, None)
        say(f"note: a dry run; nothing was changed; leases that would not be renewed: {len(leases)}")


def _require_no_gap(before: Floor, then: Floor, *, begin: datetime | None, now: datetime) -> None:
    """Refuse to end at once what would begin to count later."""
    gone = [one for one in before.in_force(now) if one not in then.entries]
    if begin is not None and begin > now and any(not any(new.replaces(one) for new in then.entries) for one in gone):
        raise click.UsageError("a lower level counts at once, or nothing would until then: leave --from out")


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
        say(f"note: these are the first {_MOST_LEASES} leases; there are more")
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
