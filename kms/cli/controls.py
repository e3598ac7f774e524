"""``kms freeze`` and ``kms thaw``: stop releases immediately, and lift a freeze."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, Manner, carry_out, changing, tell_change
from kms.cli.options import AS_JSON, REASON, JsonObject, print_rows, say, with_name


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms freeze key my-model --reason 'incident 4711' --dry-run --config kms.toml",
        "kms freeze product milan --reason 'its keys are public' --config kms.toml",
        "kms freeze list --config kms.toml",
    ),
)
def freeze() -> None:
    """Immediately stop releases.

    A freeze stops the release of a key, of a tenant's keys, to a product, or of everything.
    """


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms thaw key my-model --reason 'firmware is updated' --config kms.toml",
        "kms thaw all --reason 'incident 4711 is closed' --propose --config kms.toml",
    ),
)
def thaw() -> None:
    """Lift a freeze. This requires a quorum, or on a service that never had one, the setting allow_thaw_by_one."""


def _freezing(scope: str) -> Callable[..., None]:
    def command(service: AdminClient, *, reason: str, dry_run: bool, yes: bool, name: str | None = None) -> None:
        from kms.domain.freezes import target

        wanted, request = target(scope, name), {"scope": scope, "name": name, "reason": reason}
        planned = service.post("/v1/freezes", {**request, "dry_run": True})
        details = {"scope": str(wanted.scope), "name": wanted.name, "thaw": planned["thaw"]}
        say(_WAY_BACK[planned["thaw"]])
        if dry_run:
            tell_change("freeze", f"{wanted} would be frozen", details=details, would=True)
            return
        # Without a terminal no one can confirm, and a freeze must not fail for that.
        if planned["thaw"] == "none" and not yes and sys.stdin.isatty():
            click.confirm(f"Freeze {wanted}?", abort=True, err=True)
        service.post("/v1/freezes", request)
        tell_change("freeze", f"{wanted} is frozen", details=details)
        say("note: workloads that already hold a key keep it")

    return command


_WAY_BACK = {
    "quorum": "note: lifting this freeze requires the quorum of the rule for 'thaw'",
    "one": "note: one person can lift this freeze (allow_thaw_by_one)",
    "none": "warning: at present no one can lift this freeze: there is no rule for 'thaw', and the setting "
    "allow_thaw_by_one is off, or has no effect because the service once had a quorum. To be able to lift it, first "
    "register people and set a rule ('kms people add', 'kms quorum set thaw'). If there never was a rule, "
    "allow_thaw_by_one = true also takes effect after the freeze",
}
"""Lines about lifting the freeze, by the member ``thaw`` of a response."""
_BEFORE = (
    click.option("--dry-run", is_flag=True, help="Show who could lift the freeze, and freeze nothing."),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation, even if no one could lift the freeze."),
)


def _thawing(scope: str) -> Callable[..., None]:
    def command(service: AdminClient, *, manner: Manner, name: str | None = None) -> None:
        from kms.domain.freezes import require_reason, target
        from kms.quorum.changes import Thaw

        change = Thaw(target=target(scope, name), reason=require_reason(manner.reason))
        carry_out(service, change, manner)

    return command


_WHAT = {
    "key": ("a key (KEY, or TENANT/KEY)", "key my-model"),
    "tenant": ("every key of a tenant", "tenant research"),
    "product": ("keys to a product (tdx, milan, fmspc:…)", "product milan"),
    "all": ("everything", "all"),
}
"""Target of a command that freezes or thaws, and the end of an example."""


def _add(
    group: click.Group,
    verb: str,
    make: Callable[[str], Callable[..., None]],
    changed: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    for scope, (what, target) in _WHAT.items():
        command = changed(make(scope))
        if scope != "all":
            command = click.argument("name")(command)
        example = f"kms {group.name} {target} --reason 'incident 4711' --config kms.toml"
        group.command(scope, help=f"{verb} {what}.", examples=(example,))(command)


_add(freeze, "Stop the release of", _freezing, administering(REASON, *_BEFORE, TELLING))
_add(thaw, "Lift the freeze of", _thawing, lambda command: changing(needs_reason=True)(administering()(command)))


@freeze.command("list", examples=("kms freeze list --config kms.toml",))
@administering(AS_JSON)
def freeze_list(service: AdminClient) -> None:
    """List all freezes: target, time, person and reason."""
    answer = service.get("/v1/freezes")
    found = answer["freezes"]
    document = {"schema": "kms.freezes/1", "freezes": found, "thaw": answer["thaw"]}
    print_rows(document, found, _line, none="nothing is frozen")


def _line(one: JsonObject) -> str:
    target = f"{one['scope']} {one['name']}".rstrip()
    return f"{target}  since {one['frozen_at']}  by {with_name(one['actor']['name'])}  {one['reason']}"
