"""``kms freeze`` and ``kms thaw``: stop releases at once, and let them go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kms.cli.administration import administering
from kms.cli.changes import TELLING, Manner, carry_out, changing, tell_change
from kms.cli.options import AS_JSON, REASON, JsonObject, print_rows, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from kms.cli.admin_client import AdminClient


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
    def command(service: AdminClient, *, reason: str, name: str | None = None) -> None:
        from kms.domain.freezes import target

        wanted = target(scope, name)
        service.post("/v1/freezes", {"scope": scope, "name": name, "reason": reason})
        tell_change("freeze", f"{wanted} is frozen", details={"scope": str(wanted.scope), "name": wanted.name})
        say("note: workloads that have a key already keep it")

    return command


def _thawing(scope: str) -> Callable[..., None]:
    def command(service: AdminClient, *, manner: Manner, name: str | None = None) -> None:
        from kms.domain.freezes import require_reason, target
        from kms.quorum.changes import Thaw

        change = Thaw(target=target(scope, name), reason=require_reason(manner.reason))
        carry_out(service, change, manner)

    return command


_WHAT = {
    "key": "a key (KEY, or TENANT/KEY)",
    "tenant": "every key of a tenant",
    "product": "all keys for evidence of a product (tdx, milan, hopper, fmspc:…)",
    "all": "everything",
}


def _add(
    group: click.Group,
    verb: str,
    make: Callable[[str], Callable[..., None]],
    changed: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    for scope, what in _WHAT.items():
        command = changed(make(scope))
        if scope != "all":
            command = click.argument("name")(command)
        group.command(scope, help=f"{verb} {what}.")(command)


_add(freeze, "Stop", _freezing, administering(REASON, TELLING))
_add(thaw, "Thaw", _thawing, lambda command: changing(needs_reason=True)(administering()(command)))


@freeze.command("list")
@administering(AS_JSON)
def freeze_list(service: AdminClient, *, as_json: bool) -> None:
    """List what is frozen, since when, by whom and why."""
    found = service.get("/v1/freezes")["freezes"]
    document = {"schema": "kms.freezes/1", "freezes": found}
    print_rows(document, found, _line, as_json=as_json, none="nothing is frozen")


def _line(one: JsonObject) -> str:
    target = f"{one['scope']} {one['name']}".rstrip()
    return f"{target}  since {one['frozen_at']}  by {one['actor']['name']}  {one['reason']}"
