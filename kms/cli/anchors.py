"""``kms anchors``: the trust anchors of the settings, and those that were approved."""

from __future__ import annotations

import click

from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing
from kms.cli.options import AS_JSON, FILE, print_json, wants_json

_FILE = click.option("--anchors-file", type=FILE, help="Changes to the accepted roots (TOML).")


@click.group()
def anchors() -> None:
    """See and approve the roots that evidence may rest on. Under a rule for 'anchors' no others are started with."""


@anchors.command("show")
@administering(_FILE, AS_JSON)
def anchors_show(service: AdminClient) -> None:
    """Show the trust anchors of the settings, and whether they are those that were approved."""
    found = service.get("/v1/anchors")
    if wants_json():
        print_json({"schema": "kms.anchors/1", **found})
        return
    for line in found["anchors"]:
        click.echo(line)
    state = "approved" if found["approved"] else "not approved"
    click.echo(f"{found['sha256']}: {state}{'' if found['rule'] else ', and no rule demands it'}")


@anchors.command("approve")
@changing()
@administering(_FILE)
def anchors_approve(service: AdminClient, *, manner: Manner) -> None:
    """Approve the trust anchors of the settings. Do it before the rule for 'anchors' is set, or propose it."""
    from kms.quorum.anchors import AnchorsApprove

    change = AnchorsApprove(lines=tuple(service.get("/v1/anchors")["anchors"]))
    carry_out(service, change, manner)
