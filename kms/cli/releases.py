"""``kms releases``: who holds which key, whom a piece of news concerns, and whose renewals stop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import (
    AS_JSON,
    SETTINGS,
    moment,
    print_json,
    read_hex,
    read_policy_input,
    read_time,
    say,
    vault,
    with_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from kms.domain.leases import LeaseFilter
    from kms.leases.affected import Concern
    from kms.leases.search import Affected
    from kms.store import ReadTransaction

__all__ = ["releases"]

_BEGINNING = (0, "")
_CHIP = re.compile(r"(amd|intel):[0-9a-f]+")
_WHICH = (
    click.option("--tenant", metavar="TENANT", help="Of this tenant's keys."),
    click.option("--key", "key", metavar="KEY", help="Of this key."),
    click.option("--policy-digest", metavar="HEX", help="Released under the policy of this SHA-256."),
    click.option("--measurement", metavar="HEX", help="Released to this image."),
    click.option("--chip", metavar="CHIP", help="On this chip: amd: or intel: and its id in hex."),
    click.option("--product", metavar="NAME", help="On Genoa, Milan, Turin, a FMSPC, or a TEE (sev-snp, tdx, sgx)."),
    click.option("--since", metavar="TIME", help="Released at this moment or later (RFC 3339)."),
    click.option("--until", metavar="TIME", help="Released at this moment or earlier."),
    click.option("--stopped", is_flag=True, help="Only those whose renewal is stopped."),
    click.option("--all", "everything", is_flag=True, help="Those that expired or ended as well."),
    click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="At most so many."),
    click.option("--after", metavar="MARK", help="Go on behind the mark that the page before ended with."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """Which leases are asked for, and how many at a time.

    Attributes:
        wanted: which.
        narrowed: whether more was said than states and times.
        limit: most of them.
        after: entry of the log and id behind which to begin.
    """

    wanted: LeaseFilter
    narrowed: bool
    limit: int
    after: tuple[int, str] | None


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which leases are wanted; the command gets them as ``page``."""

    @wraps(command)
    def called(
        *,
        tenant: str | None,
        key: str | None,
        policy_digest: str | None,
        measurement: str | None,
        chip: str | None,
        product: str | None,
        since: str | None,
        until: str | None,
        stopped: bool,
        everything: bool,
        limit: int,
        after: str | None,
        **options: object,
    ) -> None:
        from attest.release import KeyName
        from kms.domain.leases import LeaseFilter

        wanted = LeaseFilter(
            tenant=tenant,
            name=None if key is None else KeyName.parse(key),
            policy_digest=None if policy_digest is None else read_hex(policy_digest, "--policy-digest"),
            measurement=None if measurement is None else read_hex(measurement, "--measurement"),
            chip=chip,
            product=product,
            released_from=None if since is None else read_time(since, "--since"),
            released_until=None if until is None else read_time(until, "--until"),
            live=None if everything else True,
            stopped=stopped,
        )
        narrowed = any(one is not None for one in (tenant, key, policy_digest, measurement, chip, product))
        page = _Page(wanted=wanted, narrowed=narrowed, limit=limit, after=None if after is None else _mark(after))
        command(page=page, **options)

    for option in reversed(_WHICH):
        called = option(called)
    return called


_REASON = click.option("--reason", metavar="TEXT", help="Why; kept for ever in the log.")


@click.group()
def releases() -> None:
    """See what was released to whom, find out whom a piece of news concerns, and stop renewals.

    \b
    Examples:
      kms releases list --key my-model
      kms releases affected --advisory INTEL-SA-01192
      kms releases affected --tcb-below Genoa:snp=27 --stop-renewals --reason "AMD-SB-3023"
      kms releases affected --policy stricter.yaml
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@releases.command("list")
@_selecting
@with_options(*SETTINGS, AS_JSON)
def releases_list(*, page: _Page, config: Path | None, as_json: bool, **flags: object) -> None:
    """List leases in the order in which they were granted; without --all those that count now."""
    from kms.leases.search import find_leases

    at = moment()
    with vault(config, flags).store.reading() as reader:
        _require_known(reader, page.wanted)
        found = find_leases(reader, page.wanted, concerns=(), at=at, after=page.after or _BEGINNING)
        _show(found, at=at, limit=page.limit, as_json=as_json)


@releases.command("affected")
@click.option("--advisory", multiple=True, metavar="INTEL-SA-…", help="Intel lists this advisory for it.")
@click.option("--tcb-below", multiple=True, metavar="PRODUCT:COMPONENT=LEVEL", help="Its TCB is below this level.")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help="It would not meet this policy.")
@click.option("--stop-renewals", is_flag=True, help="Refuse to renew what is found. Without --yes this only shows it.")
@click.option("--yes", is_flag=True, help="Do it.")
@_REASON
@_selecting
@with_options(*SETTINGS, AS_JSON)
def releases_affected(
    *,
    page: _Page,
    advisory: tuple[str, ...],
    tcb_below: tuple[str, ...],
    policy_file: Path | None,
    stop_renewals: bool,
    yes: bool,
    reason: str | None,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Find the leases that a piece of news concerns, and say how; what the kept claims do not tell counts as concerned.

    Of several advisories, levels and policies one suffices; all other options narrow down. With --stop-renewals --yes
    the leases are not renewed, and their keys are not released to these machines with these images any more.
    """
    from kms.leases.search import find_leases

    if not (advisory or tcb_below or policy_file or page.narrowed):
        raise click.UsageError("say what concerns them: --advisory, --tcb-below, --policy, --chip, --measurement, …")
    if stop_renewals and not reason:
        raise click.UsageError("--stop-renewals needs a --reason, which is kept in the log")
    if (yes or reason) and not stop_renewals:
        raise click.UsageError("--yes and --reason belong to --stop-renewals")
    if stop_renewals and page.after is not None:
        raise click.UsageError("--stop-renewals means everything that is found: leave --after out")
    at = moment()
    policy = None if policy_file is None else read_policy_input(policy_file)
    store = vault(config, flags).store
    with store.reading() as reader:
        _require_known(reader, page.wanted)
        concerns = _concerns(reader, advisory, tcb_below, policy, at)
        if not (stop_renewals and yes):
            found = find_leases(reader, page.wanted, concerns=concerns, at=at, after=page.after or _BEGINNING)
            _show(found, at=at, limit=page.limit, as_json=as_json)
    if stop_renewals and yes:
        from kms.domain.actors import local_actor
        from kms.leases.admin import stop_renewals as stop

        done = stop(store, page.wanted, concerns=concerns, reason=reason or "", actor=local_actor(), at=at)
        _show(done, at=at, limit=len(done) + 1, as_json=as_json)
        say(f"{len(done)} leases are not renewed any more; who holds a key keeps it until it drops it")
    elif stop_renewals:
        say("note: nothing was stopped; add --yes to do it")


@releases.command("resume")
@click.argument("lease_ids", nargs=-1, required=True)
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept for ever in the log.")
@with_options(*SETTINGS, TELLING)
def releases_resume(*, lease_ids: tuple[str, ...], reason: str, config: Path | None, **flags: object) -> None:
    """Let leases be renewed again whose renewal was stopped."""
    from kms.domain.actors import local_actor
    from kms.leases.admin import resume_renewals

    asked = tuple(dict.fromkeys(lease_ids))
    resume_renewals(vault(config, flags).store, asked, reason=reason, actor=local_actor(), at=moment())
    text = f"{len(asked)} leases may be renewed again, and their keys released to their machines"
    tell_change("releases-resume", text, details={"leases": list(asked)})


def _concerns(
    reader: ReadTransaction, advisories: Iterable[str], levels: Iterable[str], policy: bytes | None, at: datetime
) -> tuple[Concern, ...]:
    from kms.leases.affected import conforming_to, lists_advisory, parse_minimum
    from kms.references.resolution import load_guard

    named = (*map(lists_advisory, advisories), *map(parse_minimum, levels))
    return named if policy is None else (*named, conforming_to(load_guard(reader, policy)[0], at=at))


def _require_known(reader: ReadTransaction, wanted: LeaseFilter) -> None:
    """Refuse a key, a tenant and a chip that cannot be: "nobody is concerned" would be taken for an answer."""
    from kms.domain.errors import KeyConflictError
    from kms.keys.admin import require_key

    if wanted.name is not None:
        require_key(reader, wanted.name)
    if wanted.tenant is not None and wanted.tenant not in reader.tenants.all():
        raise KeyConflictError(
            f"there is no tenant {wanted.tenant!r}", code="tenant-unknown", field="tenant", hint="'kms tenant list'"
        )
    if wanted.chip is not None and not _CHIP.fullmatch(wanted.chip):
        raise click.UsageError("--chip: expected amd: or intel: and the chip's id in lower-case hex")


def _mark(text: str) -> tuple[int, str]:
    seq, _, lease_id = text.partition(":")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19 and lease_id):
        raise click.UsageError("--after: expected the mark that a page before ended with")
    return int(seq), lease_id


def _show(found: Iterable[Affected], *, at: datetime, limit: int, as_json: bool) -> None:
    from kms.leases.description import lease_members

    every = iter(found)
    page = list(islice(every, limit))
    more = next(every, None) is not None
    mark = f"{page[-1].state.lease.log_seq}:{page[-1].state.lease.lease_id}" if more else None
    if as_json:
        print_json(
            {"schema": "kms.release.service/1", "leases": [lease_members(one, at=at) for one in page], "next": mark}
        )
        return
    for one in page:
        members = lease_members(one, at=at)
        click.echo("{lease_id}  {key}@{version}  {state:10}  {tee}  {chip}  until {expires_at}".format(**members))
        for line in one.why:
            click.echo(f"    {line}")
    if not page:
        say("note: no lease is as was asked for")
    if mark is not None:
        say(f"note: there are more; go on with --after {mark}")
