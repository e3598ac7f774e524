"""``kms freeze`` and ``kms thaw``: stop releases at once, and let them go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import CHANGING, TELLING, carry_out, desk, tell_change
from kms.cli.options import AS_JSON, SETTINGS, moment, print_json, say, vault, with_options

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["freeze", "thaw"]

_REASON = click.option("--reason", required=True, metavar="TEXT", help="Why; kept for ever in the log.")


@click.group()
def freeze() -> None:
    """Stop the release of a key, of a tenant's keys, to a product, or of everything, at once.

    \b
    Examples:
      kms freeze key my-model --reason "incident 4711"
      kms freeze product milan --reason "keys of the product line are public"
      kms freeze list
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@click.group()
def thaw() -> None:
    """Let go on what was frozen. It takes a quorum, or the setting allow_thaw_by_one."""


def _freezing(scope: str) -> Callable[..., None]:
    def command(*, reason: str, config: Path | None, name: str | None = None, **flags: object) -> None:
        from kms.controls.admin import freeze as stop
        from kms.domain.actors import local_actor
        from kms.domain.freezes import target

        wanted = target(scope, name)
        stop(vault(config, flags).store, wanted, reason=reason, actor=local_actor(), at=moment())
        tell_change("freeze", f"{wanted} is frozen", details={"scope": str(wanted.scope), "name": wanted.name})
        say("note: workloads that have a key already keep it")

    return command


def _thawing(scope: str) -> Callable[..., None]:
    def command(
        *,
        reason: str,
        propose: bool,
        hours: int,
        person: str | None,
        config: Path | None,
        name: str | None = None,
        **flags: object,
    ) -> None:
        from kms.domain.freezes import require_reason, target
        from kms.quorum.changes import Thaw

        change = Thaw(target=target(scope, name), reason=require_reason(reason))
        opened = desk(config, flags)
        carry_out(change, at_desk=opened, reason=reason, propose=propose, hours=hours, person=person)

    return command


_WHAT = {
    "key": "a key (KEY, or TENANT/KEY)",
    "tenant": "every key of a tenant",
    "product": "all keys for evidence of a product (tdx, milan, hopper, fmspc:…)",
    "all": "everything",
}


def _add(
    group: click.Group, verb: str, make: Callable[[str], Callable[..., None]], more: tuple[Callable[..., object], ...]
) -> None:
    for scope, what in _WHAT.items():
        options = [_REASON, *more, *SETTINGS]
        if scope != "all":
            options.insert(0, click.argument("name"))
        group.command(scope, help=f"{verb} {what}.")(with_options(*options)(make(scope)))


_add(freeze, "Stop", _freezing, (TELLING,))
_add(thaw, "Thaw", _thawing, CHANGING)


@freeze.command("list")
@with_options(*SETTINGS, AS_JSON)
def freeze_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List what is frozen, since when, by whom and why."""
    with vault(config, flags).store.reading() as reader:
        found = reader.freezes.all()
    if as_json:
        print_json({"schema": "kms.freezes/1", "freezes": [one.members() for one in found]})
        return
    for one in found:
        click.echo(f"{one.target}  since {one.members()['frozen_at']}  by {one.actor}  {one.reason}")
    if not found:
        say("note: nothing is frozen")
